// What every parent of a worker sends to it, whether it serves or measures: its spec, and the memory of its tensors.
#pragma once

#include <cstddef>

#include "base/result.h"
#include "core/tensor.h"
#include "engines/executor.h"
#include "worker/shared_memory.h"
#include "worker/worker_protocol.h"

namespace tangram::worker {

// Sends the spec; the worker answers `ready` or `not_loaded`. False if the worker does not read, or there is no memory
// for the spec.
bool send_spec(int socket, const WorkerSpec& spec);
// Sends one more model, with the same answers and the same meaning of false.
bool send_model(int socket, const engines::ModelSpec& model);

// The memory for the tensors of one batch at a time, shared with a worker. It grows to the largest batch and never
// shrinks, so most batches cost no system call.
class SharedTensors {
 public:
  // The tensors of `job`, valid until the next call. New memory is announced to the worker at `socket`; a negative
  // socket means that there is no worker to tell. Errors: there is not enough memory.
  Result<engines::BatchMemory*> prepare(const Signature& signature, const engines::BatchJob& job, int socket);
  // False if the memory that the last prepare() made could not be announced to the worker.
  bool announced() const { return announced_; }
  // Releases the memory. The next worker gets another piece: a worker that is being killed must not write into the
  // memory of its successor.
  void reset() { memory_.reset(); }

 private:
  // Ensures at least `bytes` of memory and sets announced_.
  Result<Nothing> grow(std::size_t bytes, int socket);

  SharedMemory memory_;
  engines::BatchMemory tensors_;
  bool announced_ = true;
};

}  // namespace tangram::worker
