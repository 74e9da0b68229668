#include "core/tensor.h"

#include <gtest/gtest.h>

namespace tangram {
namespace {

TEST(Datatype, IsFoundByTheNameThatItPrints) {
  for (const Datatype datatype : all_datatypes()) EXPECT_EQ(parse_datatype(to_string(datatype)), datatype);
  EXPECT_EQ(all_datatypes().size(), 14u);
  EXPECT_EQ(parse_datatype("fp32"), std::nullopt);
  EXPECT_EQ(parse_datatype(""), std::nullopt);
}

// FP16 and BF16 take two bytes, BOOL one, BYTES a slot.
TEST(Datatype, KnowsTheBytesOfOneElement) {
  EXPECT_EQ(size_of(Datatype::boolean), 1u);
  EXPECT_EQ(size_of(Datatype::fp16), 2u);
  EXPECT_EQ(size_of(Datatype::bf16), 2u);
  EXPECT_EQ(size_of(Datatype::fp32), 4u);
  EXPECT_EQ(size_of(Datatype::int64), 8u);
  EXPECT_EQ(size_of(Datatype::bytes), 1024u);
}

// Shape [80, -1] at size 300: 24,000 elements, of FP16 48,000 bytes.
TEST(TensorSpec, CountsItsElementsAtASize) {
  const TensorSpec spec{.name = "mel", .datatype = Datatype::fp16, .shape = {80, kVariableAxis}};
  EXPECT_EQ(elements_of(spec, 300), 24'000);
  EXPECT_EQ(bytes_of(spec, 300), 48'000);
  EXPECT_TRUE(has_variable_axis(spec));
  EXPECT_FALSE(has_variable_axis({.name = "fixed", .shape = {3, 4}}));
}

// 2^32 * 2^32 elements are one more than 64 bits hold, and 2^61 elements of eight bytes are 2^64 bytes.
TEST(TensorSpec, HasNoCountWhereItWouldOverflow) {
  const TensorSpec square{.name = "x", .datatype = Datatype::fp64, .shape = {kVariableAxis, kVariableAxis}};
  EXPECT_EQ(elements_of(square, std::int64_t{1} << 32), std::nullopt);
  EXPECT_EQ(bytes_of({.name = "y", .datatype = Datatype::fp64, .shape = {kVariableAxis}}, std::int64_t{1} << 61),
            std::nullopt);
}

// In half floats 1 is 0x3c00, -2 is 0xc000, 65504 is the largest, and 2^-24 the smallest; 1/3 lies between 0x3555 and
// 0x3556, nearer to the first. Brain floats are the upper half of 32-bit ones: 1 is 0x3f80.
TEST(ElementBits, AreThoseOfTheNearestNumber) {
  EXPECT_EQ(element_bits(Datatype::fp16, 1), 0x3c00u);
  EXPECT_EQ(element_bits(Datatype::fp16, -2), 0xc000u);
  EXPECT_EQ(element_bits(Datatype::fp16, 65504), 0x7bffu);
  EXPECT_EQ(element_bits(Datatype::fp16, 65520), 0x7c00u);
  EXPECT_EQ(element_bits(Datatype::fp16, 0x1p-24), 1u);
  EXPECT_EQ(element_bits(Datatype::fp16, 1.0 / 3), 0x3555u);
  EXPECT_EQ(element_bits(Datatype::bf16, 1), 0x3f80u);
  EXPECT_EQ(element_bits(Datatype::fp32, 1), 0x3f800000u);
  EXPECT_EQ(element_bits(Datatype::int8, -1), 0xffu);
  EXPECT_EQ(element_bits(Datatype::int64, -1), ~std::uint64_t{0});
  EXPECT_EQ(element_bits(Datatype::boolean, 3), 1u);
}

// [2, -1, 3] at size 5: two blocks of five places of three elements.
TEST(TensorAxes, CountPlacesAlongTheVariableAxis) {
  const TensorAxes axes = axes_of({.name = "x", .shape = {2, kVariableAxis, 3}}, 5);
  EXPECT_EQ(axes.outer, 2);
  EXPECT_EQ(axes.length, 5);
  EXPECT_EQ(axes.inner, 3);
  const TensorAxes fixed = axes_of({.name = "y", .shape = {2, 3}}, 5);
  EXPECT_EQ(fixed.outer * fixed.length, 1);
  EXPECT_EQ(fixed.inner, 6);
}

}  // namespace
}  // namespace tangram
