// How many random inputs a test tries.
#pragma once

#include <cstdint>

#ifdef __has_feature  // GCC defines macros instead.
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TANGRAM_CLANG_SANITIZES
#endif
#endif

namespace tangram {

// All of them in release, and a fifth under the sanitizers, as for the swarms: there a seed takes twenty times as long.
// They find what an input does to memory, and release finds what it does to the answer.
constexpr std::uint64_t test_seeds(std::uint64_t seeds) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(TANGRAM_CLANG_SANITIZES)
  return seeds / 5;
#else
  return seeds;
#endif
}

}  // namespace tangram
