// The main loop of a worker: one message at a time, on one thread.
//
// A worker has no timers and makes no decisions. If anything is wrong with the connection or a message it exits, and
// the gateway starts another one; that is simpler and safer than repairing a state that two processes share. A batch
// that fails is different: it is answered with the reason, and the worker goes on.

#include "worker/worker_host.h"

#include <algorithm>
#include <memory>
#include <string_view>

#include "adapters/cpu_host/core_share.h"
#include "engines/batch_engine.h"
#include "engines/tensor_memory.h"
#include "worker/shared_memory.h"
#include "worker/worker_protocol.h"

namespace tangram::worker {
namespace {

constexpr int kExitDone = 0;
constexpr int kExitFailed = 1;

// Functions that return bool answer false if the worker has to end.
class WorkerHost {
 public:
  explicit WorkerHost(int socket) : socket_(socket) {}

  int run() {
    while (true) {
      const ReceivedMessage received = receive_message(socket_, true);
      if (received.kind == ReceivedMessage::Kind::closed) return kExitDone;
      if (received.kind != ReceivedMessage::Kind::message || !handle(received)) return kExitFailed;
    }
  }

 private:
  bool handle(const ReceivedMessage& received) {
    switch (received.message.kind) {
      case WorkerMessageKind::load: return load(received);
      case WorkerMessageKind::memory: return take_memory(received);
      case WorkerMessageKind::run: return run_batch(received.message);
      case WorkerMessageKind::ping: return answer(WorkerMessageKind::pong, received.message.batch);
      default: return false;  // Only workers say these.
    }
  }

  bool answer(WorkerMessageKind kind, std::uint64_t batch, std::string_view reason = {}) const {
    WorkerMessage message;
    message.kind = kind;
    message.batch = batch;
    message.set_text(reason);
    return send_message(socket_, message);
  }

  // A worker that could not load ends after it has given the reason; the gateway decides whether to start another.
  bool load(const ReceivedMessage& received) {
    const auto ready = prepare(received);
    if (ready) return answer(WorkerMessageKind::ready, 0);
    answer(WorkerMessageKind::not_loaded, 0, ready.error().message);
    return false;
  }

  Result<Nothing> prepare(const ReceivedMessage& received) {
    TANGRAM_TRY(const auto text, SharedMemory::adopt(received.descriptor, received.message.bytes));
    TANGRAM_TRY(auto spec, read_worker_spec({reinterpret_cast<const char*>(text.data()), text.size()}));
    spec_ = std::move(spec);
    // Before the engine exists: the threads that it starts inherit the cores.
    TANGRAM_RETURN_IF_ERROR(adapters::run_on_cores(spec_.cores));
    TANGRAM_TRY(auto engine, engines::make_batch_engine(spec_.engine, spec_.config));
    engine_ = std::move(engine);
    TANGRAM_RETURN_IF_ERROR(engine_->load(spec_.models));
    // Runs before `ready` is sent, so that the first request does not pay for what an engine does only once.
    return engine_->warm_up();
  }

  // The old mapping is released by the assignment; no batch is running, because batches run on this thread.
  bool take_memory(const ReceivedMessage& received) {
    auto memory = SharedMemory::adopt(received.descriptor, received.message.bytes);
    if (!memory) return false;
    memory_ = std::move(*memory);
    return true;
  }

  bool run_batch(const WorkerMessage& message) {
    const engines::BatchJob job = job_of(message);
    const auto result = run_job(job);
    if (result) return answer(WorkerMessageKind::done, message.batch);
    return answer(WorkerMessageKind::failed, message.batch, result.error().message);
  }

  // Checks what the gateway has already checked. An out-of-range batch would make the engine write beyond the mapping.
  Result<Nothing> run_job(const engines::BatchJob& job) {
    const auto model = std::ranges::find(spec_.models, job.service, &engines::ModelSpec::service);
    if (engine_ == nullptr || model == spec_.models.end()) {
      return Error{ErrorCode::not_found, "the slice has no replica of the service"};
    }
    if (job.samples < 1 || job.size < 1) return Error{ErrorCode::invalid, "the batch is empty"};
    const auto needed = engines::memory_needed(model->signature, job);
    if (!needed || *needed > memory_.size())
      return Error{ErrorCode::exhausted, "the batch is outside the shared memory"};
    engines::cut_memory(model->signature, job, memory_.data(), tensors_);
    return engine_->run(job, tensors_);
  }

  int socket_;
  WorkerSpec spec_;
  std::unique_ptr<engines::BatchEngine> engine_;
  SharedMemory memory_;
  engines::BatchMemory tensors_;
};

}  // namespace

int run_worker(int socket) { return WorkerHost(socket).run(); }

}  // namespace tangram::worker
