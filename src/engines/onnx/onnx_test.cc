#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/rng.h"
#include "engines/batch_engine.h"
#include "engines/example_models.h"
#include "engines/onnx/onnx_graph.h"
#include "engines/onnx/onnx_models.h"
#include "engines/onnx/ort_library.h"
#include "engines/tensor_memory.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TANGRAM_ADDRESS_SANITIZER
#endif
#endif

namespace tangram::engines {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// ONNX Runtime itself, where this machine has it.
class Onnx : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    // Unless a user names another.
    if (fs::exists(TANGRAM_FETCHED_ONNXRUNTIME)) setenv("TANGRAM_ONNXRUNTIME", TANGRAM_FETCHED_ONNXRUNTIME, 0);
  }
  void SetUp() override {
#ifdef TANGRAM_ADDRESS_SANITIZER
    // It keeps memory for ever and has a thread that still reads while the process ends.
    GTEST_SKIP() << "ONNX Runtime itself is not for AddressSanitizer; the stand-in is";
#else
    if (const auto library = ort::load_library(); !library) GTEST_SKIP() << library.error().message;
    folder_ = fs::temp_directory_path() / ("tangram-onnx-test-" + std::to_string(getpid()));
    fs::create_directories(folder_);
#endif
  }
  void TearDown() override {
    if (!folder_.empty()) fs::remove_all(folder_);
  }

  void write(const std::string& name, const std::string& content) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }
  ModelSpec spec_of(const std::string& name) const {
    const ExampleModel& model = *find_example_model(name);
    write(name + ".onnx", write_onnx_model(model, 1));
    return {.service = ServiceId(0),
            .name = "service",
            .network = name,
            .path = folder_ / name,
            .signature = signature_of(model),
            .shapes = {{.batch = 2, .size = 8}}};
  }
  static std::unique_ptr<BatchEngine> loaded(const ModelSpec& spec, const BatchEngineConfig& config = {}) {
    auto engine = *make_batch_engine("onnx", config);
    const auto done = engine->load(std::span(&spec, 1));
    EXPECT_TRUE(done) << done.error().message;
    return engine;
  }
  static std::string load_error(const ModelSpec& spec, const BatchEngineConfig& config = {}) {
    const auto engine = *make_batch_engine("onnx", config);
    const auto done = engine->load(std::span(&spec, 1));
    return done ? "" : done.error().message;
  }

  fs::path folder_;
};

double resident_mib() {
  std::ifstream statm("/proc/self/statm");
  double total = 0;
  double resident = 0;
  statm >> total >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1024 * 1024);
}

// The tensors of one batch with the memory that they are in.
struct Tensors {
  Tensors(const Signature& signature, const BatchJob& job) : room(*memory_needed(signature, job)) {
    cut_memory(signature, job, room.data(), memory);
  }
  std::vector<std::byte> room;
  BatchMemory memory;
};

// One text in place `row` of a batch whose other rows and padding hold whatever `rng` draws.
std::vector<float> encode(BatchEngine& engine, const Signature& signature, const std::vector<std::int64_t>& text,
                          BatchJob job, std::int32_t row, Rng rng) {
  Tensors tensors(signature, job);
  auto* ids = reinterpret_cast<std::int64_t*>(tensors.memory.inputs[0].data());
  auto* mask = reinterpret_cast<std::int64_t*>(tensors.memory.inputs[1].data());
  for (std::int64_t i = 0; i < job.samples * job.size; ++i) {
    ids[i] = rng.integer(0, 8191);
    mask[i] = 1;
  }
  for (std::int64_t i = 0; i < job.size; ++i) {
    const bool real = i < static_cast<std::int64_t>(text.size());
    if (real) ids[row * job.size + i] = text[static_cast<std::size_t>(i)];
    mask[row * job.size + i] = real ? 1 : 0;
  }
  const auto ran = engine.run(job, tensors.memory);
  EXPECT_TRUE(ran) << ran.error().message;
  const auto* answers = reinterpret_cast<const float*>(tensors.memory.outputs[0].data());
  return {answers + row * 192, answers + (row + 1) * 192};
}

float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  float largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

// y = x W of matrices so large that a run takes some seconds on one core: `layers` products of 1024 x 1024, each a
// node.
std::string slow_model(int layers) {
  OnnxGraph graph;
  graph.input("x", ort::kFloat, {{.name = "batch"}, {.name = "rows"}, {.length = 1024}});
  graph.output("y", ort::kFloat, {{.name = "batch"}, {.name = "rows"}, {.length = 1024}});
  graph.tensor("w", {1024, 1024}, std::vector<float>(1024 * 1024, 1e-3F));
  std::string x = "x";
  for (int i = 1; i < layers; ++i) x = graph.node("MatMul", {x, "w"});
  graph.node_to("y", "MatMul", {x, "w"}, {});
  return graph.file("slow");
}
const Signature kSlow{{{"x", Datatype::fp32, {kVariableAxis, 1024}}}, {{"y", Datatype::fp32, {kVariableAxis, 1024}}}};

TEST_F(Onnx, GivesATextTheSameAnswerInAnyBatchAndAtAnyPadding) {
  const ModelSpec spec = spec_of("text-encoder");
  const auto engine = loaded(spec);
  ASSERT_TRUE(engine->warm_up());
  Rng rng(1);
  const std::vector<std::int64_t> text{5, 8, 13, 21, 34};
  const auto alone = encode(*engine, spec.signature, text, {.samples = 1, .size = 5}, 0, rng.stream("alone"));
  EXPECT_GT(largest_difference(alone, std::vector<float>(alone.size(), 0)), 0.1);
  const auto in_batch = encode(*engine, spec.signature, text, {.samples = 4, .size = 16}, 2, rng.stream("batch"));
  EXPECT_LT(largest_difference(alone, in_batch), 1e-5);
}

TEST_F(Onnx, ReadsARepositoryOfTriton) {
  ModelSpec spec = spec_of("image-classifier");
  write("repository/classifier/1/model.onnx", write_onnx_model(*find_example_model("image-classifier"), 1));
  spec.path = folder_ / "repository/classifier";
  loaded(spec);
  spec.path = folder_ / "nothing";
  EXPECT_THAT(load_error(spec), HasSubstr("nothing.onnx nor"));
}

TEST_F(Onnx, SaysWhatTheServicesFileHasWrong) {
  ModelSpec spec = spec_of("image-classifier");
  spec.signature.inputs[0].name = "picture";
  EXPECT_THAT(load_error(spec), HasSubstr("the model has no input picture; its inputs are image"));
  spec = spec_of("image-classifier");
  spec.signature.inputs[0].datatype = Datatype::fp32;
  EXPECT_THAT(load_error(spec), HasSubstr("declares FP32, the model has UINT8"));
  spec = spec_of("image-classifier");
  spec.signature.inputs[0].shape = {3, 96, kVariableAxis};
  EXPECT_THAT(load_error(spec), HasSubstr("axis 2 of a sample is 96 in the model"));
  spec = spec_of("text-encoder");
  spec.signature.inputs.pop_back();
  EXPECT_THAT(load_error(spec), HasSubstr("needs the input attention_mask"));
  spec = spec_of("text-encoder");
  write("text-encoder.onnx", "no model");
  EXPECT_THAT(load_error(spec), HasSubstr("text-encoder.onnx"));
}

// The core of the library from npm lists CUDA although nothing of it is there.
TEST_F(Onnx, NeverFallsBackToTheProcessor) {
  const ModelSpec spec = spec_of("text-encoder");
  EXPECT_THAT(load_error(spec, {.device = "a100-80gb"}), HasSubstr("provider cuda of ONNX Runtime cannot be used"));
  EXPECT_THAT(load_error(spec, {.device = "cpu", .provider = "cuda"}), HasSubstr("needs a GPU"));
  EXPECT_THAT(load_error(spec, {.provider = "vulkan"}), HasSubstr("unknown provider vulkan"));
}

TEST_F(Onnx, RunsOutOfTheMemoryOfItsSliceAndGoesOn) {
  write("slow.onnx", slow_model(2));
  ModelSpec spec{
      .service = ServiceId(0), .name = "slow", .network = "slow", .path = folder_ / "slow", .signature = kSlow};
  // One tensor between the two nodes takes 4 KiB a row: 128 MiB for 32,768 rows, far less for 64. The weights take 4.
  const auto engine = loaded(spec, {.memory_mib = resident_mib() + 64});
  Tensors large(kSlow, {.samples = 1, .size = 32'768});
  const auto ran = engine->run({.batch = BatchId(1), .samples = 1, .size = 32'768}, large.memory);
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().code, ErrorCode::exhausted) << ran.error().message;
  Tensors small(kSlow, {.samples = 1, .size = 64});
  EXPECT_TRUE(engine->run({.batch = BatchId(2), .samples = 1, .size = 64}, small.memory));
  EXPECT_THAT(load_error(spec, {.memory_mib = 1}), HasSubstr("out of memory: loaded, it takes"));
}

// Shapes in any order after the warm-up. The arena has then seen the largest, so later batches find their memory.
// Returns the resident memory in MiB after `first` batches and after `all`.
std::pair<double, double> memory_after(BatchEngine& engine, const ModelSpec& spec, int first, int all) {
  Rng rng(1);
  Tensors tensors(spec.signature, {.samples = 8, .size = 64});
  double before = 0;
  for (int i = 0; i < all; ++i) {
    if (i == first) before = resident_mib();
    const auto& shape = spec.shapes[static_cast<std::size_t>(rng.integer(0, 2))];
    const BatchJob job{.samples = static_cast<std::int32_t>(rng.integer(1, shape.batch)), .size = shape.size};
    cut_memory(spec.signature, job, tensors.room.data(), tensors.memory);
    EXPECT_TRUE(engine.run(job, tensors.memory));
  }
  return {before, resident_mib()};
}
const std::vector<BatchShape> kShapes{{.batch = 8, .size = 16}, {.batch = 8, .size = 32}, {.batch = 4, .size = 64}};

TEST_F(Onnx, KeepsItsMemoryWhileShapesChange) {
  ModelSpec spec = spec_of("text-encoder");
  spec.shapes = kShapes;
  const auto engine = loaded(spec);
  ASSERT_TRUE(engine->warm_up());
  const auto [before, after] = memory_after(*engine, spec, 100, 500);
  EXPECT_LT(after, 1.02 * before);
}

// Takes most of a minute: --gtest_also_run_disabled_tests.
TEST_F(Onnx, DISABLED_KeepsItsMemoryOverTenThousandBatches) {
  ModelSpec spec = spec_of("text-encoder");
  spec.shapes = kShapes;
  const auto engine = loaded(spec);
  ASSERT_TRUE(engine->warm_up());
  const auto [before, after] = memory_after(*engine, spec, 1'000, 10'000);
  std::printf("resident after 1,000 batches %.1f MiB, after 10,000 %.1f MiB\n", before, after);
  EXPECT_LT(after, 1.02 * before);
}

TEST_F(Onnx, EndsABatchThatIsStopped) {
  write("slow.onnx", slow_model(400));
  ModelSpec spec{
      .service = ServiceId(0), .name = "slow", .network = "slow", .path = folder_ / "slow", .signature = kSlow};
  const auto engine = loaded(spec);
  ASSERT_TRUE(engine->can_stop());
  const BatchJob job{.batch = BatchId(7), .samples = 1, .size = 512};
  Tensors tensors(kSlow, job);
  // Stopped before it begins, while it runs (some seconds for all layers), and then not at all.
  engine->stop(BatchId(7));
  EXPECT_EQ(engine->run(job, tensors.memory).error().message, "the batch was stopped");
  Result<Nothing> ran = Nothing{};
  std::thread runs([&] { ran = engine->run({.batch = BatchId(8), .samples = 1, .size = 512}, tensors.memory); });
  engine->stop(BatchId(8));
  runs.join();
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().message, "the batch was stopped");
  engine->stop(BatchId(8));
  EXPECT_TRUE(engine->run({.batch = BatchId(9), .samples = 1, .size = 1}, tensors.memory));
}

TEST(OrtLibrary, UnderstandsVersions) {
  EXPECT_EQ(ort::interface_version("1.30.0"), 30u);
  EXPECT_EQ(ort::interface_version("1.11.1"), 11u);
  EXPECT_EQ(ort::interface_version("1.7"), 7u);
  EXPECT_EQ(ort::interface_version("2.1.0"), std::nullopt);
  EXPECT_EQ(ort::interface_version("1.x"), std::nullopt);
  EXPECT_EQ(ort::interface_version(""), std::nullopt);
}

TEST(OrtLibrary, SaysThatAFileIsNotThere) {
  const auto opened = ort::open_library("/nowhere/libonnxruntime.so.1");
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::not_found);
  EXPECT_THAT(opened.error().message, HasSubstr("/nowhere/libonnxruntime.so.1"));
}

}  // namespace
}  // namespace tangram::engines
