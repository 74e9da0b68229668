// Copies tensors of requests into batches and back.
//
// Each sample of an input is padded along its variable axis to the size of the batch; outputs are cut back to the
// extent of the request. Everything else is copied unchanged, so an answer has exactly the bytes that the engine wrote
// for its samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/tensor.h"

namespace tangram::serve {

// A request with `samples` samples, whose variable axis has length `extent`, in a batch where that axis has length
// `size`.
struct Fit {
  std::int32_t samples = 1;
  std::int64_t extent = 1;
  std::int64_t size = 1;
};

// Writes the samples to `target`, which has room for them at the batch's size.
void pad_into(const TensorSpec& spec, std::span<const std::byte> source, const Fit& fit, std::byte* target);
// Writes a mask for them: one where an element is real, zero where it is padding.
void write_mask(const TensorSpec& spec, const Fit& fit, std::byte* target);
// Appends the samples at `source`, which have the batch's size, cut to the request's.
void cut_from(const TensorSpec& spec, const std::byte* source, const Fit& fit, std::string& target);

}  // namespace tangram::serve
