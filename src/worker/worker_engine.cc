// An engine for measuring that runs batches in real worker processes.
//
// A replica with n processes is n workers that run the same batch at the same time, as they would under full load. One
// run is timed from the message to the answer, so it includes everything that a request would wait for. Running out of
// memory is a result (OutOfMemory) and not an error: the campaign then knows the limit of the slice and goes on.

#include "worker/worker_engine.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <vector>

#include "adapters/cpu_host/core_share.h"
#include "adapters/cpu_host/cpu_host.h"
#include "core/sample_tensors.h"
#include "worker/worker_channel.h"
#include "worker/worker_process.h"
#include "worker/worker_protocol.h"

namespace tangram::worker {
namespace {

using engines::BatchJob;
using engines::BatchShape;

// Longer than any batch that is worth measuring. A worker that exceeds it is given up.
constexpr std::chrono::minutes kPatience{5};
// Twice what OpenBLAS reserves for a thread.
constexpr double kMarginMib = 256;

// The protocol carries the reason as text and no error code, so the text has to tell.
bool tells_of_memory(std::string_view reason) { return reason.find("out of memory") != std::string_view::npos; }

// One process of a replica.
class MeasuredWorker {
 public:
  explicit MeasuredWorker(StartedWorker started) : started_(started) {}
  // Waits for the process, unlike the gateway: the next measurement must not share cores with a dying worker.
  ~MeasuredWorker() {
    kill(started_.process, SIGKILL);
    waitpid(started_.process, nullptr, 0);
    close(started_.socket);
  }
  MeasuredWorker(const MeasuredWorker&) = delete;
  MeasuredWorker& operator=(const MeasuredWorker&) = delete;

  pid_t process() const { return started_.process; }

  bool load(const WorkerSpec& spec) const { return send_spec(started_.socket, spec); }
  bool load(const engines::ModelSpec& model) const { return send_model(started_.socket, model); }

  // Room for the tensors of `job`, filled with something to compute. Errors: there is no such memory.
  Result<Nothing> prepare(const Signature& signature, const BatchJob& job) {
    TANGRAM_TRY(const auto tensors, tensors_.prepare(signature, job, started_.socket));
    if (!tensors_.announced()) return gone();
    // A fixed seed: every repetition computes on the same numbers, so run times differ only by noise.
    Rng rng(1);
    for (std::size_t i = 0; i < signature.inputs.size(); ++i) {
      fill_sample(signature.inputs[i], tensors->inputs[i], rng);
    }
    return Nothing{};
  }

  bool start(const BatchJob& job) const { return send_message(started_.socket, run_message(job)); }

  // Waits for the next message. Errors: the worker does not answer in time, or has ended.
  Result<ReceivedMessage> wait() const {
    pollfd watched{started_.socket, POLLIN, 0};
    const int events = poll(&watched, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count()));
    if (events == 0) return Error{ErrorCode::unavailable, "the worker does not answer"};
    auto received = receive_message(started_.socket, false);
    if (received.descriptor >= 0) close(received.descriptor);
    if (received.kind == ReceivedMessage::Kind::nothing) return wait();  // A signal came between.
    if (received.kind != ReceivedMessage::Kind::message) return gone();
    return received;
  }

  // The peak resident memory since forget_peak(), as the kernel counts it.
  double peak_mib() const { return status_mib("VmHWM:"); }

  // Limits the data segment to `mib` plus a margin. False if the worker already uses more. RLIMIT_DATA counts memory
  // that is reserved, not memory that is touched, and libraries reserve much that they never touch. That surplus is
  // known once they are loaded, except for the buffers that OpenBLAS reserves on first use (it retries for ever if it
  // gets none). So the limit only keeps a run from taking the whole machine; whether the run fitted is decided by its
  // peak.
  bool limit_memory(double mib, int threads) const {
    if (mib <= 0) return true;
    if (status_mib("VmRSS:") > mib) return false;
    const double untouched = std::max(0.0, status_mib("VmData:") - status_mib("VmRSS:"));
    const auto bytes = static_cast<rlim_t>((mib + untouched + kMarginMib * threads) * 1024 * 1024);
    const rlimit limit{bytes, bytes};
    return prlimit(started_.process, RLIMIT_DATA, &limit, nullptr) == 0;
  }

  // Writing 5 to clear_refs resets VmHWM (proc(5)), so that each shape gets a peak of its own.
  void forget_peak() const { std::ofstream(fmt::format("/proc/{}/clear_refs", started_.process)) << "5"; }

 private:
  // A field of /proc/PID/status in MiB; 0 if the process has ended.
  double status_mib(std::string_view field) const {
    std::ifstream status(fmt::format("/proc/{}/status", started_.process));
    for (std::string word; status >> word;) {
      double kib = 0;
      if (word == field && status >> kib) return kib / 1024;
    }
    return 0;
  }

  // The reason of the end. We send SIGKILL only in the destructor, so one here comes from the kernel's out-of-memory
  // killer.
  Error gone() const {
    int status = 0;
    const bool ended = waitpid(started_.process, &status, WNOHANG | __WALL) == started_.process;
    if (ended && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
      return {ErrorCode::exhausted, "the worker was killed (SIGKILL), probably because it ran out of memory"};
    }
    return {ErrorCode::unavailable, "the worker exited"};
  }

  StartedWorker started_;
  SharedTensors tensors_;
};

// A replica on one slice. Invariant: every worker has memory for `shape_`, the last shape that ran.
class WorkerReplica final : public engines::LoadedReplica {
 public:
  // `limit_mib` is that of one worker; 0: none.
  WorkerReplica(const Signature& signature, double limit_mib, std::unique_ptr<adapters::CoreQuota> quota,
                std::vector<std::unique_ptr<MeasuredWorker>> workers, engines::LoadFacts facts)
      : signature_(signature),
        limit_mib_(limit_mib),
        quota_(std::move(quota)),
        workers_(std::move(workers)),
        facts_(facts) {}
  ~WorkerReplica() override { workers_.clear(); }  // Before their group.

  Result<engines::RunOutcome> run(const BatchShape& shape) override {
    const BatchJob job{.batch = BatchId(++batches_),
                       .service = ServiceId(0),
                       .samples = static_cast<std::int32_t>(shape.batch),
                       .size = shape.size};
    // Preparing is not timed, and it is skipped while the shape stays the same, as it does during repetitions.
    if (shape.batch != shape_.batch || shape.size != shape_.size) {
      if (const auto ready = prepare(job); !ready) return failure(ready.error());
      shape_ = shape;
    }
    return time(job);
  }
  engines::LoadFacts load_facts() const override { return facts_; }

 private:
  Result<Nothing> prepare(const BatchJob& job) {
    for (const auto& worker : workers_) {
      TANGRAM_RETURN_IF_ERROR(worker->prepare(signature_, job));
      worker->forget_peak();
    }
    return Nothing{};
  }

  static Result<engines::RunOutcome> failure(const Error& error) {
    if (error.code == ErrorCode::exhausted) return engines::RunOutcome(engines::OutOfMemory{});
    return error;
  }

  // Starts all workers together and reads their answers in turn. A worker that ends early is timed late, by at most the
  // wait for those before it; with equal batches that is small.
  Result<engines::RunOutcome> time(const BatchJob& job) {
    const auto begin = std::chrono::steady_clock::now();
    for (const auto& worker : workers_) {
      if (!worker->start(job)) return Error{ErrorCode::unavailable, "the worker does not read its socket"};
    }
    Duration sum{};
    bool memory_sufficed = true;
    for (const auto& worker : workers_) {
      const auto received = worker->wait();
      if (!received) return failure(received.error());
      sum += std::chrono::steady_clock::now() - begin;
      if (received->message.kind == WorkerMessageKind::done) continue;
      if (!tells_of_memory(received->text())) return Error{ErrorCode::invalid, std::string(received->text())};
      // The loop goes on: the other answers have to be read, or the next run would receive them.
      memory_sufficed = false;
    }
    const double peak = peak_mib();
    // The sum is compared with the whole slice: processes of one slice share its memory.
    const bool fits = limit_mib_ <= 0 || peak <= limit_mib_ * static_cast<double>(workers_.size());
    if (!memory_sufficed || !fits) return engines::RunOutcome(engines::OutOfMemory{});
    return engines::RunOutcome(engines::Completed{.duration = sum / static_cast<std::int64_t>(workers_.size()),
                                                  .spread = std::nullopt,
                                                  .memory_mib = limit_mib_ > 0 ? std::optional(peak) : std::nullopt});
  }

  double peak_mib() const {
    double sum = 0;
    for (const auto& worker : workers_) sum += worker->peak_mib();
    return sum;
  }

  const Signature& signature_;
  double limit_mib_;
  std::unique_ptr<adapters::CoreQuota> quota_;
  std::vector<std::unique_ptr<MeasuredWorker>> workers_;
  engines::LoadFacts facts_;
  BatchShape shape_{0, 0};
  std::uint64_t batches_ = 0;
};

class WorkerEngine final : public engines::Engine {
 public:
  explicit WorkerEngine(WorkerEngineConfig config) : config_(std::move(config)) {
    config_.model.service = ServiceId(0);
    config_.model.shapes = {{.batch = 1, .size = 1}};  // Whoever measures warms up; this only touches everything once.
  }

  engines::Capabilities capabilities() const override { return {.times_itself = true, .reports_memory = true}; }

  std::optional<std::string> why_not(const RunPoint& point) const override {
    if (const auto profile = find_profile(config_.geometry, point.mig_profile); !profile)
      return profile.error().message;
    if (point.model != config_.model.network) return fmt::format("the services file has no model {}", point.model);
    return std::nullopt;
  }

  Result<engines::LoadOutcome> load(const engines::Placement& placement) override {
    TANGRAM_TRY(const auto index, find_profile(config_.geometry, placement.mig_profile));
    const MigProfile& profile = config_.geometry.profiles[index];
    WorkerSpec spec{.engine = config_.engine,
                    .config = {.device = config_.geometry.type,
                               .mig_profile = profile.name,
                               .memory_mib = limit_mib(profile, placement.processes),
                               .provider = config_.provider},
                    .cores = {},
                    .models = {}};
    std::unique_ptr<adapters::CoreQuota> quota;
    // Only slices of the host are made by pinning. On a GPU the driver has already cut them.
    if (config_.geometry.units_per_core > 0) {
      const Slice slice{static_cast<std::uint16_t>(index), 0};
      const auto share = adapters::core_share(config_.geometry, slice, adapters::usable_cores());
      spec.cores = share.cores;
      spec.config.threads = share.threads();
      if (share.needs_quota()) {
        TANGRAM_TRY(auto made, make_quota(share.worth));
        quota = std::move(made);
      }
    }
    std::vector<std::string> environment;
    if (config_.environment) {
      TANGRAM_TRY(environment, config_.environment(profile.name));
    }
    // The memory of a GPU is not that of the process: its engine keeps to it.
    const double host_mib = on_host() ? limit_mib(profile, placement.processes) : 0;
    return start(spec, std::move(quota), placement.processes, host_mib, environment);
  }

 private:
  static Result<std::unique_ptr<adapters::CoreQuota>> make_quota(double cores) {
    // Control groups need distinct names, also for several replicas of one process.
    static int made = 0;
    return adapters::CoreQuota::make(adapters::probe_cpu_host(), fmt::format("tangram-measure-{}-{}", getpid(), made++),
                                     cores);
  }

  // Each process may use its part of the slice's memory.
  double limit_mib(const MigProfile& profile, std::int64_t processes) const {
    return config_.memory_limit_mib.value_or(profile.memory_gib.value * 1024) / static_cast<double>(processes);
  }

  bool on_host() const { return config_.geometry.units_per_core > 0; }

  Result<engines::LoadOutcome> start(const WorkerSpec& spec, std::unique_ptr<adapters::CoreQuota> quota,
                                     std::int64_t processes, double limit_mib,
                                     const std::vector<std::string>& environment) const {
    std::vector<std::unique_ptr<MeasuredWorker>> workers;
    for (std::int64_t i = 0; i < processes; ++i) {
      TANGRAM_TRY(const auto started, start_worker(config_.program, environment));
      workers.push_back(std::make_unique<MeasuredWorker>(started));
      if (quota != nullptr) {
        // Without its quota the worker would be measured on more cores than the slice has, so a failure is an error
        // here.
        TANGRAM_RETURN_IF_ERROR(quota->add(started.process));
      }
      if (!workers.back()->load(spec)) return Error{ErrorCode::unavailable, "the worker does not read its socket"};
    }
    // First the process with its libraries and no model, then the model, so that the time to load is that of the model.
    // All workers load at the same time; waiting in a second loop keeps the total at the time of the slowest.
    using Refusal = std::optional<engines::LoadOutcome>;
    TANGRAM_TRY(Refusal refused, await_ready(workers, nullptr));
    if (refused) return std::move(*refused);
    const auto begin = std::chrono::steady_clock::now();
    for (const auto& worker : workers) {
      if (!worker->load(config_.model)) return Error{ErrorCode::unavailable, "the worker does not read its socket"};
    }
    engines::LoadFacts facts;
    TANGRAM_TRY(refused, await_ready(workers, &facts));
    if (refused) return std::move(*refused);
    facts.duration = std::chrono::steady_clock::now() - begin;
    // The limit is set only after loading, because only then is it known how much is reserved and never touched.
    for (const auto& worker : workers) {
      if (!worker->limit_memory(limit_mib, spec.config.threads)) return engines::LoadOutcome(engines::OutOfMemory{});
    }
    return engines::LoadOutcome(std::make_unique<WorkerReplica>(config_.model.signature, limit_mib, std::move(quota),
                                                                std::move(workers), facts));
  }

  // Waits until every worker has answered `ready`; `facts`, if there is one, gets the weights that it states. Out of
  // memory is an answer; everything else is an error.
  static Result<std::optional<engines::LoadOutcome>> await_ready(
      const std::vector<std::unique_ptr<MeasuredWorker>>& workers, engines::LoadFacts* facts) {
    using Answer = std::optional<engines::LoadOutcome>;
    for (const auto& worker : workers) {
      const auto received = worker->wait();
      if (!received && received.error().code == ErrorCode::exhausted)
        return Answer(engines::LoadOutcome(engines::OutOfMemory{}));
      if (!received) return received.error();
      if (received->message.kind == WorkerMessageKind::ready) {
        if (facts != nullptr && received->message.bytes > 0)
          facts->weights_mib = static_cast<double>(received->message.bytes) / (1024 * 1024);
        continue;
      }
      if (tells_of_memory(received->text())) return Answer(engines::LoadOutcome(engines::OutOfMemory{}));
      return Error{ErrorCode::invalid, std::string(received->text())};
    }
    return Answer();
  }

  WorkerEngineConfig config_;
};

}  // namespace

std::unique_ptr<engines::Engine> make_worker_engine(WorkerEngineConfig config) {
  return std::make_unique<WorkerEngine>(std::move(config));
}

}  // namespace tangram::worker
