// Something to send to a model, or to run it on, where what it says does not matter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/rng.h"
#include "core/tensor.h"

namespace tangram {

// Whole numbers are taken for tokens, and every vocabulary has as many.
inline constexpr std::int64_t kTokenMax = 99;

// Fills a tensor of a fixed-size datatype: ones in a mask, whole numbers from 1 to kTokenMax, real ones below one.
void fill_sample(const TensorSpec& spec, std::span<std::byte> bytes, Rng& rng);

}  // namespace tangram
