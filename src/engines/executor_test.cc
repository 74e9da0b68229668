#include "engines/executor.h"

#include <gtest/gtest.h>

#include <cstring>

#include "core/bytes_slot.h"

namespace tangram::engines {
namespace {

using namespace std::chrono_literals;

Signature signature(Datatype input, Datatype output) {
  return {{{"x", input, {kVariableAxis}, 9, false}},
          {{"pooled", output, {2}, 0, false}, {"each", output, {kVariableAxis}, 0, false}}};
}

// Runs one sample given by its bytes, filled up to `size` places, and returns the bytes of both outputs.
std::string run(const Signature& s, std::string input, std::int64_t size) {
  const std::vector<const Signature*> signatures{&s};
  const auto executor = make_emulated_executor(signatures, {});
  const BatchJob job{.batch = BatchId(1), .size = size};
  BatchMemory* memory = *executor->prepare(job);
  const std::uint64_t padding = element_bits(s.inputs[0].datatype, s.inputs[0].pad);
  const std::size_t width = size_of(s.inputs[0].datatype);
  const std::size_t real = input.size() / width;
  while (input.size() < static_cast<std::size_t>(size) * width) {
    input.append(reinterpret_cast<const char*>(&padding), width);
  }
  std::memcpy(memory->inputs[0].data(), input.data(), input.size());
  executor->start(job);
  const auto text = [](std::span<std::byte> bytes, std::size_t count) {
    return std::string(reinterpret_cast<const char*>(bytes.data()), count);
  };
  return text(memory->outputs[0], memory->outputs[0].size()) +
         text(memory->outputs[1], real * size_of(s.outputs[0].datatype));
}

// Every pair of datatypes: three elements alone, and the same three filled up to ten places.
TEST(EmulatedExecutor, AnswersTheSameWithAndWithoutPadding) {
  for (const Datatype in : all_datatypes()) {
    for (const Datatype out : all_datatypes()) {
      if (in == Datatype::bytes || out == Datatype::bytes) continue;
      const Signature s = signature(in, out);
      std::string input(3 * size_of(in), '\0');
      for (std::size_t i = 0; i < 3; ++i) input[i * size_of(in)] = static_cast<char>(20 + i);
      EXPECT_EQ(run(s, input, 3), run(s, input, 10)) << to_string(in) << ' ' << to_string(out);
    }
  }
}

// Texts, too: "ab" and "c" alone, and with an empty one behind them that only fills up. Each answer is sixteen digits.
TEST(EmulatedExecutor, AnswersTextsTheSameWithAndWithoutPadding) {
  const Signature s = signature(Datatype::bytes, Datatype::bytes);
  const auto answers = [&](const std::vector<std::string>& elements) {
    const std::vector<const Signature*> signatures{&s};
    const auto executor = make_emulated_executor(signatures, {});
    const BatchJob job{.batch = BatchId(1), .size = static_cast<std::int64_t>(elements.size())};
    BatchMemory* memory = *executor->prepare(job);
    std::string slots;
    for (const auto& element : elements) EXPECT_TRUE(append_bytes_slot(element, slots));
    std::memcpy(memory->inputs[0].data(), slots.data(), slots.size());
    executor->start(job);
    std::vector<std::string> texts;
    for (const auto& output : memory->outputs) {
      for (std::size_t at = 0; at < output.size(); at += kBytesSlot) {
        texts.emplace_back(element_of_slot(reinterpret_cast<const char*>(output.data()) + at));
      }
    }
    return texts;
  };
  const auto alone = answers({"ab", "c"});
  const auto padded = answers({"ab", "c", ""});
  ASSERT_EQ(alone.size(), 4u);  // Two of `pooled`, two of `each`.
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), padded.begin()));
  EXPECT_EQ(alone[0].size(), 16u);
  EXPECT_NE(alone, answers({"ba", "c"}));
}

// Numbers with a point lie in [0, 1), so they survive JSON.
TEST(EmulatedExecutor, AnswersPlainNumbers) {
  const std::string answer = run(signature(Datatype::int32, Datatype::fp32), std::string(40, '\3'), 10);
  for (std::size_t at = 0; at < answer.size(); at += sizeof(float)) {
    float value = -1;
    std::memcpy(&value, answer.data() + at, sizeof value);
    EXPECT_GE(value, 0);
    EXPECT_LT(value, 1);
  }
}

TEST(EmulatedExecutor, TakesTheTimeThatIsExpectedOfIt) {
  const Signature s = default_signature();
  const std::vector<const Signature*> signatures{&s};
  const BatchJob job{.batch = BatchId(1), .samples = 2, .size = 4, .expected = 10ms};
  for (const double scale : {0.0, 0.5, 2.0}) {
    const auto executor = make_emulated_executor(signatures, {.time_scale = scale});
    ASSERT_TRUE(executor->prepare(job));
    EXPECT_EQ(executor->start(job), from_milliseconds(10 * scale));
    EXPECT_TRUE(executor->restart());
  }
}

}  // namespace
}  // namespace tangram::engines
