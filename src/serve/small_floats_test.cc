#include "serve/small_floats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tangram::serve {
namespace {

// Every bit pattern that is a number is the nearest to its own value.
TEST(SmallFloats, AreTheirOwnNearest) {
  for (const Datatype datatype : {Datatype::fp16, Datatype::bf16}) {
    for (std::uint32_t bits = 0; bits <= UINT16_MAX; ++bits) {
      const float value = from_small_float(datatype, static_cast<std::uint16_t>(bits));
      if (std::isnan(value)) continue;
      ASSERT_EQ(to_small_float(datatype, value), bits) << value;
    }
  }
}

// The values are those of the standards: 1, the largest, the smallest normal and the smallest of all.
TEST(SmallFloats, HaveTheValuesOfTheirFormats) {
  EXPECT_EQ(from_small_float(Datatype::fp16, 0x3c00), 1.0F);
  EXPECT_EQ(from_small_float(Datatype::fp16, 0xfbff), -65504.0F);
  EXPECT_EQ(from_small_float(Datatype::fp16, 0x0400), 0x1p-14F);
  EXPECT_EQ(from_small_float(Datatype::fp16, 0x0001), 0x1p-24F);
  EXPECT_EQ(from_small_float(Datatype::bf16, 0x3f80), 1.0F);
  EXPECT_EQ(from_small_float(Datatype::bf16, 0x7f7f), 0x1.fep127F);
  EXPECT_EQ(from_small_float(Datatype::bf16, 0x0001), 0x1p-133F);
  EXPECT_TRUE(std::signbit(from_small_float(Datatype::fp16, 0x8000)));
}

// Of two neighbours equally far the even one; what is nearer to the next step than to the largest number is infinite.
TEST(SmallFloats, RoundToTheNearest) {
  EXPECT_EQ(to_small_float(Datatype::fp16, 1 + 0x1p-11), 0x3c00);
  EXPECT_EQ(to_small_float(Datatype::fp16, 1 + 0x3p-11), 0x3c02);
  EXPECT_EQ(to_small_float(Datatype::fp16, 1 + 0x1p-11 + 0x1p-40), 0x3c01);
  EXPECT_EQ(to_small_float(Datatype::fp16, 0x1p-25), 0x0000);
  EXPECT_EQ(to_small_float(Datatype::fp16, -0x1.8p-25), 0x8001);
  EXPECT_EQ(to_small_float(Datatype::fp16, 65519.9), 0x7bff);
  EXPECT_FALSE(to_small_float(Datatype::fp16, 65520));
  EXPECT_FALSE(to_small_float(Datatype::bf16, 3.4e38));
  EXPECT_EQ(to_small_float(Datatype::bf16, -std::numeric_limits<double>::infinity()), 0xff80);
  EXPECT_TRUE(std::isnan(
      from_small_float(Datatype::bf16, *to_small_float(Datatype::bf16, std::numeric_limits<double>::quiet_NaN()))));
}

}  // namespace
}  // namespace tangram::serve
