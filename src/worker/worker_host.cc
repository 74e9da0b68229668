// The main loop of a worker: one message at a time, on one thread.
//
// A worker has no timers and makes no decisions. If anything is wrong with the connection or a message it exits, and
// the gateway starts another one; that is simpler and safer than repairing a state that two processes share. A batch
// that fails is different: it is answered with the reason, and the worker goes on.

#include "worker/worker_host.h"

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

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
  explicit WorkerHost(int socket) : socket_(socket) {
    // Before any thread starts: all threads inherit it, and only watch_stops() takes the signal.
    sigset_t stops;
    sigemptyset(&stops);
    sigaddset(&stops, stop_signal());
    pthread_sigmask(SIG_BLOCK, &stops, nullptr);
  }

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
      case WorkerMessageKind::load_model: return load_model(received);
      case WorkerMessageKind::unload_model: return unload_copy(ServiceId(received.message.service));
      case WorkerMessageKind::drop_model: return drop_model(ServiceId(received.message.service));
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
    if (ready) {
      WorkerMessage message;
      message.kind = WorkerMessageKind::ready;
      message.size = engine_->can_stop() ? 1 : 0;
      // It waits for signals until the process ends.
      if (engine_->can_stop()) std::thread([this] { watch_stops(); }).detach();
      return send_message(socket_, message);
    }
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
    std::vector<engines::ModelSpec> from_start;
    for (const auto& model : spec_.models) {
      if (model.on_demand) continue;
      from_start.push_back(model);
      loaded_.push_back(model.service);
    }
    TANGRAM_RETURN_IF_ERROR(engine_->load(from_start));
    // Runs before `ready` is sent, so that the first request does not pay for what an engine does only once.
    return engine_->warm_up();
  }

  // One more model. The others are not touched, and stay if this one cannot be loaded.
  bool load_model(const ReceivedMessage& received) {
    const auto bytes = add_model(received);
    if (!bytes) return answer(WorkerMessageKind::not_loaded, 0, bytes.error().message);
    WorkerMessage message;
    message.kind = WorkerMessageKind::ready;
    message.bytes = *bytes;
    return send_message(socket_, message);
  }

  // Returns the bytes of its weights, or 0.
  Result<std::uint64_t> add_model(const ReceivedMessage& received) {
    TANGRAM_TRY(const auto text, SharedMemory::adopt(received.descriptor, received.message.bytes));
    TANGRAM_TRY(auto model, read_model_spec({reinterpret_cast<const char*>(text.data()), text.size()}));
    if (engine_ == nullptr) return Error{ErrorCode::invalid, "a model came before the spec of the worker"};
    std::uint64_t bytes = 0;
    if (!model.on_demand) {
      TANGRAM_TRY(bytes, engine_->load_one(model));
      TANGRAM_RETURN_IF_ERROR(engine_->warm_up(model.service));
    } else {
      engine_->unload(model.service);
    }
    forget(model.service);
    if (!model.on_demand) loaded_.push_back(model.service);
    spec_.models.push_back(std::move(model));
    return bytes;
  }

  bool unload_copy(ServiceId copy) {
    for (const auto& model : spec_.models) {
      if (model.on_demand && model.copy == copy) unload(model.service);
    }
    return true;
  }

  bool drop_model(ServiceId service) {
    if (engine_ == nullptr) return false;
    engine_->unload(service);
    forget(service);
    return true;
  }

  void forget(ServiceId service) {
    std::erase(loaded_, service);
    std::erase_if(spec_.models, [&](const engines::ModelSpec& model) { return model.service == service; });
  }

  bool is_loaded(ServiceId service) const { return std::ranges::find(loaded_, service) != loaded_.end(); }

  void unload(ServiceId service) {
    engine_->unload(service);
    std::erase(loaded_, service);
  }

  // The old mapping is released by the assignment; no batch is running, because batches run on this thread.
  bool take_memory(const ReceivedMessage& received) {
    auto memory = SharedMemory::adopt(received.descriptor, received.message.bytes);
    if (!memory) return false;
    memory_ = std::move(*memory);
    return true;
  }

  // The body of a thread of its own: passes the requests to stop on to the engine.
  [[noreturn]] void watch_stops() {
    sigset_t stops;
    sigemptyset(&stops);
    sigaddset(&stops, stop_signal());
    while (true) {
      siginfo_t about{};
      if (sigwaitinfo(&stops, &about) < 0) continue;
      const std::uint64_t running = running_;
      // Of another batch: that one ended before the signal came.
      if (static_cast<std::uint32_t>(running) != static_cast<std::uint32_t>(about.si_value.sival_int)) continue;
      engine_->stop(BatchId(running));
    }
  }

  bool run_batch(const WorkerMessage& message) {
    const engines::BatchJob job = job_of(message);
    running_ = message.batch;
    const auto result = run_job(job);
    running_ = 0;
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
    return is_loaded(job.service) ? engine_->run(job, tensors_) : load_and_run(*model, job);
  }

  // The first batch of a model that is loaded on demand. If it fails the model is unloaded again: the gateway does not
  // know whether the load or the run failed, and counts it as not loaded.
  Result<Nothing> load_and_run(const engines::ModelSpec& model, const engines::BatchJob& job) {
    TANGRAM_RETURN_IF_ERROR(engine_->load_one(model));
    loaded_.push_back(model.service);
    const auto ran = engine_->run(job, tensors_);
    if (!ran) unload(model.service);
    return ran;
  }

  int socket_;
  WorkerSpec spec_;                               // Its models are those that the gateway may ask for, ...
  std::vector<ServiceId> loaded_;                 // ... of which these are loaded.
  std::unique_ptr<engines::BatchEngine> engine_;  // Stays as it is once it is ready.
  std::atomic<std::uint64_t> running_{0};         // The batch that runs.
  SharedMemory memory_;
  engines::BatchMemory tensors_;
};

}  // namespace

int run_worker(int socket) { return WorkerHost(socket).run(); }

}  // namespace tangram::worker
