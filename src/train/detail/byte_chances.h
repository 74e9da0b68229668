// Chances from a few random bits, eight at a time in the bytes of one word.
//
// A chance is given as so many of 128, because a byte is drawn from seven bits: the eighth keeps additions and
// subtractions within a byte from reaching the next one. Example: 13 of 128 is 10.2 %.
#pragma once

#include <cstdint>

namespace tangram::train::detail {

using Word = std::uint64_t;
inline constexpr Word kOnes = 0x0101010101010101ULL;
inline constexpr Word kHighs = kOnes << 7;
inline constexpr unsigned kChances = 128;

// True with a chance of `of_128` / 128, from the lowest seven bits.
constexpr bool hits(Word bits, unsigned of_128) { return (bits & (kChances - 1)) < of_128; }

// 1 in each byte with a chance of `of_128` / 128, from the lower seven bits of that byte. `of_128` is at least 1.
constexpr Word hit_bytes(Word bits, unsigned of_128) {
  const Word draws = bits & ~kHighs;
  return ((((kOnes * (of_128 - 1)) | kHighs) - draws) & kHighs) >> 7;
}

}  // namespace tangram::train::detail
