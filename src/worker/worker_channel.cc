// What a parent sends to its worker before batches: the spec, and the memory for tensors.
//
// Tensors never travel through the socket. The parent writes them into memory that both have mapped and sends only the
// shape; both sides compute the same offsets with engines::cut_memory().

#include "worker/worker_channel.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "engines/tensor_memory.h"

namespace tangram::worker {
namespace {

// At least 1 MiB, so that a series of small, growing batches does not map new memory again and again.
constexpr std::size_t kMemoryMin = std::size_t{1} << 20;

bool send_text(int socket, WorkerMessageKind kind, const std::string& text) {
  const auto memory = SharedMemory::make(text.size());
  if (!memory) return false;
  std::memcpy(memory->data(), text.data(), text.size());
  WorkerMessage message;
  message.kind = kind;
  message.bytes = text.size();
  return send_message(socket, message, memory->descriptor());
}

}  // namespace

bool send_spec(int socket, const WorkerSpec& spec) {
  return send_text(socket, WorkerMessageKind::load, write_worker_spec(spec));
}

bool send_model(int socket, const engines::ModelSpec& model) {
  return send_text(socket, WorkerMessageKind::load_model, write_model_spec(model));
}

Result<engines::BatchMemory*> SharedTensors::prepare(const Signature& signature, const engines::BatchJob& job,
                                                     int socket) {
  // Stays true unless grow() fails to send, also for batches that need no new memory.
  announced_ = true;
  const auto needed = engines::memory_needed(signature, job);
  if (!needed) return Error{ErrorCode::exhausted, "the batch is larger than the address space"};
  if (*needed > memory_.size()) {
    TANGRAM_RETURN_IF_ERROR(grow(*needed, socket));
  }
  engines::cut_memory(signature, job, memory_.data(), tensors_);
  return &tensors_;
}

// Sizes are powers of two: batches of slowly growing sizes would otherwise map new memory each time. Pages that are
// never touched cost nothing.
Result<Nothing> SharedTensors::grow(std::size_t bytes, int socket) {
  auto made = SharedMemory::make(std::bit_ceil(std::max(bytes, kMemoryMin)));
  if (!made) return Error{ErrorCode::exhausted, fmt::format("cannot allocate shared memory of {} bytes", bytes)};
  // The worker keeps the old memory mapped until it handles the message below; messages arrive in order, so before the
  // batch.
  memory_ = std::move(*made);
  if (socket < 0) return Nothing{};
  WorkerMessage message;
  message.kind = WorkerMessageKind::memory;
  message.bytes = memory_.size();
  announced_ = send_message(socket, message, memory_.descriptor());
  return Nothing{};
}

}  // namespace tangram::worker
