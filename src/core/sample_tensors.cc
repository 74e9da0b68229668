#include "core/sample_tensors.h"

#include <cstring>

namespace tangram {
namespace {

bool is_real(Datatype datatype) {
  return datatype == Datatype::fp16 || datatype == Datatype::bf16 || datatype == Datatype::fp32 ||
         datatype == Datatype::fp64;
}

// Masks are ones, because a sample has no padding. Whole numbers are like token ids: positive, and small enough for
// usual vocabularies.
double draw(const TensorSpec& spec, Rng& rng) {
  if (spec.mask || spec.datatype == Datatype::boolean) return 1;
  return is_real(spec.datatype) ? rng.uniform() : static_cast<double>(rng.integer(1, kTokenMax));
}

}  // namespace

void fill_sample(const TensorSpec& spec, std::span<std::byte> bytes, Rng& rng) {
  const std::size_t width = size_of(spec.datatype);
  if (width == 0) return;
  for (std::size_t at = 0; at + width <= bytes.size(); at += width) {
    const std::uint64_t bits = element_bits(spec.datatype, draw(spec, rng));
    std::memcpy(bytes.data() + at, &bits, width);
  }
}

}  // namespace tangram
