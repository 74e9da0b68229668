// The protocol between the gateway and a worker.
//
// They share a Unix socket that keeps message boundaries. Every message has the same size and arrives whole or not at
// all; descriptors travel beside it. Tensors are never sent: they are in memory that both have mapped.
//
//   gateway: load (with the spec as a descriptor)          worker: ready, or not_loaded with the reason
//            memory (with a descriptor), then run                  done or failed with the reason, exactly once
//            load_model (with the spec of one as a descriptor)     ready with the bytes of its weights, or not_loaded
//            unload_model, drop_model                              no answer
//            ping                                                  pong, between two batches
//
// A batch is stopped by a signal, stop_signal() with the low half of its number, because a worker that runs a batch
// reads no messages; the answer is `failed`, unless the batch ends before. Only workers that said so in `ready` take
// it.
//
// A model that is loaded on demand is loaded by the first batch that needs it and stays until unload_model, after which
// the next batch loads it again. drop_model makes the worker forget a model.
//
// Each side exits or gives up when the other has closed its end.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engines/batch_engine.h"
#include "engines/executor.h"

namespace tangram::worker {

enum class WorkerMessageKind : std::uint32_t {
  load = 1,
  memory = 2,
  run = 3,
  ping = 4,
  ready = 5,
  not_loaded = 6,
  done = 7,
  failed = 8,
  pong = 9,
  load_model = 10,
  unload_model = 11,
  drop_model = 12,
};

struct WorkerMessage {
  static constexpr std::uint32_t kMagic = 0x314b5754;  // "TWK1": the layout of this struct.

  std::uint32_t magic = kMagic;
  WorkerMessageKind kind = WorkerMessageKind::ping;
  std::uint64_t batch = 0;
  std::uint64_t bytes = 0;  // Of the descriptor that travels with it; in `ready`, of the weights, where they are known.
  std::int64_t size = 0;    // In the `ready` that answers `load`: 1 if batches can be stopped.
  std::int64_t expected_ns = 0;
  std::uint32_t service = 0;  // In unload_model, the copy.
  std::int32_t samples = 0;
  std::uint32_t text_length = 0;
  std::array<char, 204> text{};

  void set_text(std::string_view reason);
};
static_assert(sizeof(WorkerMessage) == 256);

// The result of one read from the socket.
struct ReceivedMessage {
  enum class Kind : std::uint8_t { message, nothing, closed, rubbish };
  Kind kind = Kind::nothing;
  WorkerMessage message = {};
  int descriptor = -1;  // Whoever receives it closes it.

  std::string_view text() const { return {message.text.data(), message.text_length}; }
};

// Stops a batch; see above.
int stop_signal();
void send_stop(pid_t worker, BatchId batch);

// False if the other side has closed the socket or does not read.
bool send_message(int socket, const WorkerMessage& message, int descriptor = -1);
// `wait` blocks until a message arrives. Anything that is not exactly one message is rubbish.
ReceivedMessage receive_message(int socket, bool wait);

WorkerMessage run_message(const engines::BatchJob& job);
engines::BatchJob job_of(const WorkerMessage& message);
// Frees the weights of a copy that was loaded on demand.
WorkerMessage unload_message(ServiceId copy);
// Forgets a service for good.
WorkerMessage drop_message(ServiceId service);

// What a worker runs: an engine, its models, and its share of the machine.
struct WorkerSpec {
  std::string engine = "emulated";
  engines::BatchEngineConfig config;
  std::vector<int> cores;  // It runs on these alone; empty: anywhere.
  std::vector<engines::ModelSpec> models;
};

// As JSON text, and back. Errors: the text is not a spec.
std::string write_worker_spec(const WorkerSpec& spec);
Result<WorkerSpec> read_worker_spec(std::string_view text);
// The same for one model.
std::string write_model_spec(const engines::ModelSpec& model);
Result<engines::ModelSpec> read_model_spec(std::string_view text);

}  // namespace tangram::worker
