// Lays the tensors of a batch out in one block, inputs first, each aligned. memory_needed() and cut_memory() must agree
// on the layout, so both use tensor_bytes() and aligned().
#include "engines/tensor_memory.h"

#include <limits>

namespace tangram::engines {
namespace {

// A quarter of the range, so that a sum of two and the rounding for alignment cannot overflow.
constexpr std::int64_t kBytesMax = std::numeric_limits<std::int64_t>::max() / 4;

std::size_t aligned(std::size_t bytes) { return (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment; }

// Sizes come from requests, so the product is checked before it is formed.
std::optional<std::size_t> tensor_bytes(const TensorSpec& spec, const BatchJob& job) {
  const auto sample = bytes_of(spec, job.size);
  if (!sample || *sample > kBytesMax / job.samples) return std::nullopt;
  return static_cast<std::size_t>(*sample * job.samples);
}

}  // namespace

std::optional<std::size_t> memory_needed(const Signature& signature, const BatchJob& job) {
  std::size_t total = 0;
  for (const auto* specs : {&signature.inputs, &signature.outputs}) {
    for (const auto& spec : *specs) {
      const auto bytes = tensor_bytes(spec, job);
      if (!bytes || total > static_cast<std::size_t>(kBytesMax)) return std::nullopt;
      total += aligned(*bytes);
    }
  }
  return total;
}

void cut_memory(const Signature& signature, const BatchJob& job, std::byte* base, BatchMemory& memory) {
  const auto cut = [&](const std::vector<TensorSpec>& specs, std::vector<std::span<std::byte>>& spans) {
    spans.clear();
    for (const auto& spec : specs) {
      // Requires that memory_needed() gave a size for the same job.
      const std::size_t bytes = *tensor_bytes(spec, job);
      spans.emplace_back(base, bytes);
      base += aligned(bytes);
    }
  };
  cut(signature.inputs, memory.inputs);
  cut(signature.outputs, memory.outputs);
}

}  // namespace tangram::engines
