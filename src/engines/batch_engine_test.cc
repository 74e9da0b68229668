#include "engines/batch_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "engines/tensor_memory.h"

namespace tangram::engines {
namespace {

using namespace std::chrono_literals;

const Signature kSignature{
    {{"x", Datatype::int16, {kVariableAxis}, 0, false}},
    {{"sum", Datatype::fp32, {2}, 0, false}, {"each", Datatype::int8, {kVariableAxis}, 0, false}}};

// 3 samples of 5 elements: 30 bytes in, 24 and 15 out, each rounded up to 64.
TEST(TensorMemory, LaysTensorsOneBehindTheOtherAndAligned) {
  const BatchJob job{.samples = 3, .size = 5};
  ASSERT_EQ(memory_needed(kSignature, job), 192u);
  std::vector<std::byte> piece(192);
  BatchMemory memory;
  cut_memory(kSignature, job, piece.data(), memory);
  EXPECT_EQ(memory.inputs[0].size(), 30u);
  EXPECT_EQ(memory.outputs[0].data() - piece.data(), 64);
  EXPECT_EQ(memory.outputs[0].size(), 24u);
  EXPECT_EQ(memory.outputs[1].data() - piece.data(), 128);
  EXPECT_EQ(memory.outputs[1].size(), 15u);
}

TEST(TensorMemory, SaysWhenABatchIsTooLargeToCount) {
  EXPECT_EQ(memory_needed(kSignature, {.samples = 1 << 30, .size = std::int64_t{1} << 60}), std::nullopt);
  EXPECT_EQ(memory_needed(kSignature, {.samples = 1 << 30, .size = std::int64_t{1} << 40}), std::nullopt);
}

TEST(BatchEngine, KnowsItsNames) {
  ASSERT_FALSE(batch_engines().empty());
  EXPECT_EQ(batch_engines()[0].name, "emulated");
  for (const auto& info : batch_engines()) EXPECT_TRUE(make_batch_engine(info.name, {})) << info.name;
  EXPECT_FALSE(make_batch_engine("none", {}));
}

// The same bytes as the executor inside the process, and no sooner than after the expected 3 ms.
TEST(BatchEngine, EmulatedAnswersAsTheExecutorDoesAndKeepsTheTime) {
  const BatchJob job{.batch = BatchId(1), .service = ServiceId(0), .samples = 2, .size = 4, .expected = 3ms};
  const std::vector<const Signature*> signatures{&kSignature};
  const auto executor = make_emulated_executor(signatures, {});
  BatchMemory* expected = *executor->prepare(job);
  std::ranges::fill(expected->inputs[0], std::byte{7});
  executor->start(job);

  const auto engine = *make_batch_engine("emulated", {});
  const ModelSpec model{.service = ServiceId(0), .name = "rank", .network = "encoder", .signature = kSignature};
  ASSERT_TRUE(engine->load(std::span(&model, 1)));
  ASSERT_TRUE(engine->warm_up());
  std::vector<std::byte> piece(*memory_needed(kSignature, job));
  BatchMemory memory;
  cut_memory(kSignature, job, piece.data(), memory);
  std::ranges::fill(memory.inputs[0], std::byte{7});
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(engine->run(job, memory));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 3ms);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(std::ranges::equal(memory.outputs[i], expected->outputs[i]));
  EXPECT_FALSE(engine->run({.service = ServiceId(1)}, memory));
}

// The load takes the 20 ms that were measured; a service with the same copy loads nothing.
TEST(BatchEngine, EmulatedTakesTheTimeToLoadOneModel) {
  const auto engine = *make_batch_engine("emulated", {});
  ASSERT_TRUE(engine->load({}));
  ModelSpec model{.service = ServiceId(0), .name = "rank", .copy = ServiceId(0), .load_time = 20ms};
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(engine->load_one(model));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 20ms);
  model.service = ServiceId(1);
  model.load_time = std::chrono::hours(1);
  ASSERT_TRUE(engine->load_one(model));
  engine->unload(ServiceId(1));
  EXPECT_FALSE(engine->run({.service = ServiceId(1)}, {}));
}

}  // namespace
}  // namespace tangram::engines
