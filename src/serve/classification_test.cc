#include "serve/classification.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace tangram::serve {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

template <typename T>
std::string raw_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

TEST(Classification, ShowsTheLargestOfEachSampleWithTheirPlaces) {
  const auto raw = raw_of<float>({0.25F, 4, -1, 2, 2, 3});
  EXPECT_THAT(classify(Datatype::fp32, raw, 2, 2), ElementsAre("4.000000:1", "0.250000:0", "3.000000:2", "2.000000:0"));
  EXPECT_THAT(classify(Datatype::fp32, raw, 1, 9).size(), 6u);
}

TEST(Classification, PutsNanLastAndKeepsTheOrderOfEquals) {
  EXPECT_THAT(classify(Datatype::fp64, raw_of<double>({std::nan(""), 1, 1}), 1, 3),
              ElementsAre("1.000000:1", "1.000000:2", "nan:0"));
  EXPECT_THAT(classify(Datatype::int8, raw_of<std::int8_t>({-1, 7, 7}), 1, 2), ElementsAre("7:1", "7:2"));
}

// 0x3c00 is 1 in FP16, 0x3f80 in BF16.
TEST(Classification, ReadsSmallFloats) {
  EXPECT_THAT(classify(Datatype::fp16, raw_of<std::uint16_t>({0, 0x3c00}), 1, 1), ElementsAre("1.000000:1"));
  EXPECT_THAT(classify(Datatype::bf16, raw_of<std::uint16_t>({0x3f80, 0}), 1, 1), ElementsAre("1.000000:0"));
}

TEST(Classification, NeedsNumbers) {
  EXPECT_FALSE(can_classify(Datatype::bytes));
  EXPECT_TRUE(can_classify(Datatype::uint64));
  EXPECT_THAT(classify(Datatype::fp32, "", 3, 1), IsEmpty());
}

}  // namespace
}  // namespace tangram::serve
