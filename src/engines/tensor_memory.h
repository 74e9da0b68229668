// Where the tensors of a batch lie in one piece of memory.
#pragma once

#include <cstddef>
#include <optional>

#include "core/tensor.h"
#include "engines/executor.h"

namespace tangram::engines {

// Each tensor begins at a multiple of this, which suits every vector instruction.
inline constexpr std::size_t kTensorAlignment = 64;

// Bytes for all tensors of `job`, one after the other, inputs first. Nothing: more than can be counted.
std::optional<std::size_t> memory_needed(const Signature& signature, const BatchJob& job);

// Points `memory` at the tensors of `job` in the piece that begins at `base`, as large as memory_needed says.
void cut_memory(const Signature& signature, const BatchJob& job, std::byte* base, BatchMemory& memory);

}  // namespace tangram::engines
