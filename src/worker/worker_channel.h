// What every parent of a worker tells it, whether it serves or measures: its spec, and the memory of its tensors.
#pragma once

#include <cstddef>

#include "base/result.h"
#include "core/tensor.h"
#include "engines/executor.h"
#include "worker/shared_memory.h"
#include "worker/worker_protocol.h"

namespace tangram::worker {

// Sends what the worker is to load; it answers `ready` or `not_loaded`. False: it does not listen, or there is no
// memory for the spec.
bool send_spec(int socket, const WorkerSpec& spec);

// The memory that the tensors of one batch at a time lie in, shared with a worker. It grows to the largest batch and
// never shrinks, so that most batches cost no system call.
class SharedTensors {
 public:
  // The tensors of `job`, valid until the next call. New memory is announced to the worker at `socket`; a negative one
  // means that there is none to tell. Errors: no such memory can be had.
  Result<engines::BatchMemory*> prepare(const Signature& signature, const engines::BatchJob& job, int socket);
  // False if the worker could not be told of the memory that the last prepare() made.
  bool announced() const { return announced_; }
  // Lets go of the memory. The next worker gets another piece: one that is about to die must not write into its
  // successor's.
  void reset() { memory_.reset(); }

 private:
  Result<Nothing> grow(std::size_t bytes, int socket);

  SharedMemory memory_;
  engines::BatchMemory tensors_;
  bool announced_ = true;
};

}  // namespace tangram::worker
