// Padding and cutting along the variable axis.
//
// A row-major sample is `outer` blocks of `length` places with `inner` elements each. Padding appends places at the end
// of each block, so the real elements of a block stay contiguous and are moved by one memcpy. For the shape [2,-1,3]
// with 4 of 8 places real: 2 blocks, each of 4*3 real elements and 4*3 of padding.

#include "serve/padding.h"

#include <array>
#include <cstring>

#include "base/check.h"

namespace tangram::serve {
namespace {

// Writes `count` elements with the bit pattern `bits`. Zero padding is one memset.
void fill(std::byte* target, std::int64_t count, std::uint64_t bits, std::size_t width) {
  const auto bytes = static_cast<std::size_t>(count) * width;
  if (bits == 0) {
    std::memset(target, 0, bytes);
    return;
  }
  for (std::size_t at = 0; at < bytes; at += width) std::memcpy(target + at, &bits, width);
}

}  // namespace

void pad_into(const TensorSpec& spec, std::span<const std::byte> source, const Fit& fit, std::byte* target) {
  const std::size_t width = size_of(spec.datatype);
  // Nothing to pad: all samples of the request are contiguous in both, so one copy moves them.
  if (!has_variable_axis(spec) || fit.extent == fit.size) {
    std::memcpy(target, source.data(), source.size());
    return;
  }
  const TensorAxes axes = axes_of(spec, fit.size);
  const auto real = static_cast<std::size_t>(fit.extent * axes.inner) * width;
  const std::int64_t missing = (fit.size - fit.extent) * axes.inner;
  const std::uint64_t padding = element_bits(spec.datatype, spec.pad);
  const std::byte* from = source.data();
  for (std::int64_t block = 0; block < fit.samples * axes.outer; ++block) {
    std::memcpy(target, from, real);
    fill(target + real, missing, padding, width);
    from += real;
    target += real + static_cast<std::size_t>(missing) * width;
  }
}

// Makes the mask that the client left out, with the same blocks as pad_into().
void write_mask(const TensorSpec& spec, const Fit& fit, std::byte* target) {
  const std::size_t width = size_of(spec.datatype);
  const TensorAxes axes = axes_of(spec, fit.size);
  const std::uint64_t one = element_bits(spec.datatype, 1);
  for (std::int64_t block = 0; block < fit.samples * axes.outer; ++block) {
    fill(target, fit.extent * axes.inner, one, width);
    target += static_cast<std::size_t>(fit.extent * axes.inner) * width;
    fill(target, (fit.size - fit.extent) * axes.inner, 0, width);
    target += static_cast<std::size_t>((fit.size - fit.extent) * axes.inner) * width;
  }
}

void cut_from(const TensorSpec& spec, const std::byte* source, const Fit& fit, std::string& target) {
  const std::size_t width = size_of(spec.datatype);
  const TensorAxes axes = axes_of(spec, fit.size);
  const auto stride = static_cast<std::size_t>(axes.length * axes.inner) * width;
  // Without a variable axis every place is real.
  const auto real = has_variable_axis(spec) ? static_cast<std::size_t>(fit.extent * axes.inner) * width : stride;
  const auto* from = reinterpret_cast<const char*>(source);
  // Nothing to cut: one append for all samples.
  if (real == stride) {
    target.append(from, stride * static_cast<std::size_t>(fit.samples * axes.outer));
    return;
  }
  for (std::int64_t block = 0; block < fit.samples * axes.outer; ++block, from += stride) target.append(from, real);
}

}  // namespace tangram::serve
