// How many random inputs a test tries.
#pragma once

#include <cstdint>

namespace tangram {

// All of them in release, and a fifth under the sanitizers, as for the swarms: there a seed takes twenty times as long. They
// find what an input does to memory, and release finds what it does to the answer.
constexpr std::uint64_t test_seeds(std::uint64_t seeds) {
#ifdef TANGRAM_SANITIZED
  return seeds / 5;
#else
  return seeds;
#endif
}

}  // namespace tangram
