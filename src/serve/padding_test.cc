#include "serve/padding.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace tangram::serve {
namespace {

std::vector<std::byte> bytes_of_floats(const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::vector<float> floats_of(const void* data, std::size_t bytes) {
  std::vector<float> values(bytes / sizeof(float));
  std::memcpy(values.data(), data, bytes);
  return values;
}

// Two samples of shape [2, -1, 2] that are two long, in a batch that is three long: each of the four rows of two places
// gets a third place of two sevens.
TEST(Padding, FillsEachRowUpToTheBatch) {
  const TensorSpec spec{.name = "x", .shape = {2, kVariableAxis, 2}, .pad = 7};
  const Fit fit{.samples = 2, .extent = 2, .size = 3};
  std::vector<float> source(16);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<float>(i);
  std::vector<std::byte> target(24 * sizeof(float));
  pad_into(spec, bytes_of_floats(source), fit, target.data());
  EXPECT_EQ(floats_of(target.data(), target.size()),
            (std::vector<float>{0, 1, 2, 3, 7, 7, 4, 5, 6, 7, 7, 7, 8, 9, 10, 11, 7, 7, 12, 13, 14, 15, 7, 7}));
  std::string back;
  cut_from(spec, target.data(), fit, back);
  EXPECT_EQ(floats_of(back.data(), back.size()), source);
}

TEST(Padding, MakesAMaskOfWhatIsReal) {
  const TensorSpec spec{.name = "mask", .datatype = Datatype::int64, .shape = {kVariableAxis}, .mask = true};
  std::vector<std::int64_t> mask(8, -1);
  write_mask(spec, {.samples = 2, .extent = 3, .size = 4}, reinterpret_cast<std::byte*>(mask.data()));
  EXPECT_EQ(mask, (std::vector<std::int64_t>{1, 1, 1, 0, 1, 1, 1, 0}));
}

TEST(Padding, CopiesTensorsWithoutAVariableAxisAsTheyAre) {
  const TensorSpec spec{.name = "x", .shape = {3}};
  const Fit fit{.samples = 2, .extent = 5, .size = 9};
  const std::vector<float> source{1, 2, 3, 4, 5, 6};
  std::vector<std::byte> target(source.size() * sizeof(float));
  pad_into(spec, bytes_of_floats(source), fit, target.data());
  EXPECT_EQ(floats_of(target.data(), target.size()), source);
  std::string back;
  cut_from(spec, target.data(), fit, back);
  EXPECT_EQ(floats_of(back.data(), back.size()), source);
}

}  // namespace
}  // namespace tangram::serve
