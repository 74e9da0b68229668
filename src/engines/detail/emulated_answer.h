// The numbers that the emulated engine answers.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"
#include "engines/executor.h"

namespace tangram::engines {

// Fills the outputs of a batch with numbers that depend on each real element of the inputs, on its place and on nothing
// else: not on the padding, not on who shares the batch.
class EmulatedAnswer {
 public:
  void write(const Signature& signature, const BatchJob& job, const BatchMemory& memory);

 private:
  void write_sample(const Signature& signature, const BatchJob& job, const BatchMemory& memory, std::int32_t sample);

  std::vector<std::uint64_t> by_place_;
};

}  // namespace tangram::engines
