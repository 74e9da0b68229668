#include "train/detail/byte_chances.h"

#include <gtest/gtest.h>

namespace tangram::train::detail {
namespace {

// Every value of the byte that the chance is drawn from: 13 of 128 hit, so 26 of 256.
TEST(ByteChances, HitAsOftenAsTheySay) {
  for (const unsigned of_128 : {1U, 13U, 64U, 128U}) {
    unsigned hit = 0;
    unsigned hit_in_third_byte = 0;
    for (Word byte = 0; byte < 256; ++byte) {
      hit += hits(byte, of_128) ? 1 : 0;
      hit_in_third_byte += static_cast<unsigned>(hit_bytes(byte << 16, of_128) >> 16 & 0xff);
    }
    EXPECT_EQ(hit, 2 * of_128);
    EXPECT_EQ(hit_in_third_byte, 2 * of_128);
  }
}

// What lies above the byte belongs to another draw.
TEST(ByteChances, DoNotDependOnTheBitsOfOtherDraws) {
  for (Word byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(hits(byte | 0xabcdef00, 13), hits(byte, 13));
    EXPECT_EQ(hit_bytes(byte | 0xabcdef00, 13) & 0xff, hit_bytes(byte, 13) & 0xff);
  }
}

}  // namespace
}  // namespace tangram::train::detail
