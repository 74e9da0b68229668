#include "worker/worker_link.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "engines/tensor_memory.h"

namespace tangram::worker {
namespace {

constexpr std::size_t kMemoryMin = std::size_t{1} << 20;
constexpr Duration kReapEvery = std::chrono::milliseconds(20);

}  // namespace

class WorkerLink final : public engines::Executor, private host::Readiness {
 public:
  WorkerLink(Workers& workers, SliceId slice, WorkerConfig config, engines::ExecutorEvents& events)
      : workers_(workers), slice_(slice), config_(std::move(config)), events_(events) {
    workers_.links_.push_back(this);
    make_quota();
  }
  ~WorkerLink() override {
    end_process();
    if (quota_ != nullptr) workers_.quotas_going_.push_back(std::move(quota_));
    std::erase(workers_.links_, this);
  }

  // Executor.
  Result<engines::BatchMemory*> prepare(const engines::BatchJob& job) override;
  std::optional<Duration> start(const engines::BatchJob& job) override;
  bool restart() override;
  bool ready() const override { return state_ == State::ready || state_ == State::running; }

  std::int64_t process() const override { return std::max(process_.process, 0); }

  void work(TimePoint now);
  TimePoint next_due() const;

 private:
  enum class State : std::uint8_t {
    cold,     // Never started, or lost and not asked for again.
    pausing,  // Started again at `due_`.
    loading,  // Given up at `due_`.
    ready,    // Asked at `due_` whether it lives, or, if it was, given up.
    running,  // A batch.
  };

  void make_quota();
  void begin_process();
  bool send_spec();
  void end_process();
  void lose(std::string reason);
  void on_ready(bool readable, bool writable, bool broken) override;
  bool handle(const ReceivedMessage& received);
  bool handle_loading(const ReceivedMessage& received);
  bool handle_running(const ReceivedMessage& received);
  void enter_ready();
  void ping();
  bool grow_memory(std::size_t bytes);
  const Signature* signature_of(ServiceId service) const;
  void log(host::LogLevel level, std::string_view event, std::string_view reason) const;

  Workers& workers_;
  SliceId slice_;
  WorkerConfig config_;
  engines::ExecutorEvents& events_;
  std::unique_ptr<adapters::CoreQuota> quota_;
  State state_ = State::cold;
  TimePoint due_ = kTimeNever;
  StartedWorker process_;
  SharedMemory memory_;
  engines::BatchMemory tensors_;
  BatchId batch_;
  int starts_in_vain_ = 0;  // Since it last ran a batch.
  bool ever_ready_ = false;
  bool pinged_ = false;
};

// ---- The life of the process ----

void WorkerLink::make_quota() {
  if (config_.quota_cores <= 0) return;
  const auto host = adapters::probe_cpu_host();
  if (host.quota) adapters::remove_stale_groups(host.cgroup_directory, "tangram");
  const std::string name = fmt::format("tangram-{}-{}", getpid(), slice_.value());
  auto made = adapters::CoreQuota::make(host, name, config_.quota_cores);
  if (made) {
    quota_ = std::move(*made);
  } else {
    log(host::LogLevel::warning, "worker_quota_missing", made.error().message);
  }
}

bool WorkerLink::restart() {
  // Whoever asks in the middle of a batch has waited for it long enough.
  if (state_ == State::running) log(host::LogLevel::warning, "worker_lost", "it does not answer: its batch takes too long");
  end_process();
  const TimePoint now = workers_.clock_.now();
  Duration pause{};
  if (starts_in_vain_ > 0) {
    const int doublings = std::min(starts_in_vain_ - 1, 20);
    pause = std::min(config_.patience.pause_min * (std::int64_t{1} << doublings), config_.patience.pause_max);
  }
  ++starts_in_vain_;
  state_ = State::pausing;
  due_ = now + pause;
  // The first start does not wait for the next turn of the loop.
  if (pause == Duration::zero()) begin_process();
  return false;
}

void WorkerLink::begin_process() {
  auto started = start_worker(config_.program, config_.environment);
  if (!started) {
    log(host::LogLevel::error, "worker_failed", started.error().message);
    state_ = State::cold;
    due_ = kTimeNever;
    return events_.on_restarted(slice_, false);
  }
  process_ = *started;
  workers_.loop_.add(process_.socket, host::Interest::read, this);
  state_ = State::loading;
  due_ = workers_.clock_.now() + config_.patience.start;
  if (quota_ != nullptr) {
    if (const auto added = quota_->add(process_.process); !added) {
      log(host::LogLevel::warning, "worker_quota_missing", added.error().message);
    }
  }
  if (!send_spec()) lose("it does not listen");
}

bool WorkerLink::send_spec() {
  const std::string text = write_worker_spec(config_.spec);
  const auto memory = SharedMemory::make(text.size());
  if (!memory) return false;
  std::memcpy(memory->data(), text.data(), text.size());
  WorkerMessage message;
  message.kind = WorkerMessageKind::load;
  message.bytes = text.size();
  return send_message(process_.socket, message, memory->descriptor());
}

// A life has memory of its own, so that a process that is about to die cannot write into its successor's.
void WorkerLink::end_process() {
  state_ = State::cold;
  due_ = kTimeNever;
  pinged_ = false;
  if (process_.process < 0) return;
  workers_.loop_.remove(process_.socket, this);
  close(process_.socket);
  workers_.reaper_.kill_and_reap(process_.process);
  if (!workers_.reaper_.empty()) workers_.reap_at_ = workers_.clock_.now() + kReapEvery;
  process_ = {};
  memory_.reset();
}

void WorkerLink::lose(std::string reason) {
  log(host::LogLevel::warning, "worker_lost", reason);
  const bool loading = state_ == State::loading;
  end_process();
  if (loading) {
    events_.on_restarted(slice_, false);
  } else {
    events_.on_lost(slice_, fmt::format("the worker of {} was lost: {}", config_.title, reason));
  }
}

// ---- Messages ----

void WorkerLink::on_ready(bool, bool, bool) {
  while (process_.process >= 0) {
    const ReceivedMessage received = receive_message(process_.socket, false);
    if (received.descriptor >= 0) close(received.descriptor);
    if (received.kind == ReceivedMessage::Kind::nothing) return;
    if (received.kind == ReceivedMessage::Kind::closed) return lose("it ended");
    if (received.kind == ReceivedMessage::Kind::rubbish || !handle(received)) return lose("it answered rubbish");
  }
}

// False: a message that makes no sense now.
bool WorkerLink::handle(const ReceivedMessage& received) {
  if (received.message.kind == WorkerMessageKind::pong && pinged_) {
    pinged_ = false;
    if (state_ == State::ready) due_ = workers_.clock_.now() + config_.patience.ping_every;
    return true;
  }
  if (state_ == State::loading) return handle_loading(received);
  return state_ == State::running && handle_running(received);
}

bool WorkerLink::handle_loading(const ReceivedMessage& received) {
  if (received.message.kind == WorkerMessageKind::ready) {
    log(host::LogLevel::info, "worker_ready", "");
    ever_ready_ = true;
    enter_ready();
    events_.on_restarted(slice_, true);
    return true;
  }
  if (received.message.kind != WorkerMessageKind::not_loaded) return false;
  const std::string reason(received.text());
  log(host::LogLevel::error, "worker_failed", reason);
  if (workers_.first_start_ && !ever_ready_ && workers_.hopeless_.empty()) {
    workers_.hopeless_ = fmt::format("{}: {}", config_.title, reason);
  }
  end_process();
  events_.on_restarted(slice_, false);
  return true;
}

bool WorkerLink::handle_running(const ReceivedMessage& received) {
  const WorkerMessage& message = received.message;
  const bool done = message.kind == WorkerMessageKind::done;
  const bool failed = message.kind == WorkerMessageKind::failed && message.text_length > 0;
  if ((!done && !failed) || message.batch != batch_.value()) return false;
  starts_in_vain_ = 0;
  enter_ready();
  events_.on_done(slice_, batch_, std::string(received.text()));
  return true;
}

void WorkerLink::enter_ready() {
  state_ = State::ready;
  due_ = workers_.clock_.now() + config_.patience.ping_every;
}

void WorkerLink::ping() {
  WorkerMessage message;
  message.kind = WorkerMessageKind::ping;
  if (!send_message(process_.socket, message)) return lose("it does not listen");
  pinged_ = true;
  due_ = workers_.clock_.now() + config_.patience.ping_answer;
}

void WorkerLink::work(TimePoint now) {
  if (now < due_) return;
  switch (state_) {
    case State::pausing: return begin_process();
    case State::loading: return lose("it took too long to get ready");
    case State::ready: return pinged_ ? lose("it does not answer") : ping();
    case State::cold:
    case State::running: due_ = kTimeNever; return;
  }
}

TimePoint WorkerLink::next_due() const { return due_; }

// ---- Batches ----

const Signature* WorkerLink::signature_of(ServiceId service) const {
  const auto model = std::ranges::find(config_.spec.models, service, &engines::ModelSpec::service);
  return model == config_.spec.models.end() ? nullptr : &model->signature;
}

Result<engines::BatchMemory*> WorkerLink::prepare(const engines::BatchJob& job) {
  const Signature* signature = signature_of(job.service);
  if (signature == nullptr) return Error{ErrorCode::not_found, "the slice does not hold the service"};
  const auto needed = engines::memory_needed(*signature, job);
  if (!needed) return Error{ErrorCode::exhausted, "the batch is larger than any memory"};
  if (*needed > memory_.size() && !grow_memory(*needed)) {
    return Error{ErrorCode::exhausted, fmt::format("no shared memory of {} bytes", *needed)};
  }
  engines::cut_memory(*signature, job, memory_.data(), tensors_);
  return &tensors_;
}

bool WorkerLink::grow_memory(std::size_t bytes) {
  auto made = SharedMemory::make(std::bit_ceil(std::max(bytes, kMemoryMin)));
  if (!made) return false;
  memory_ = std::move(*made);
  if (process_.process < 0) return true;  // Whoever starts the batch hears that there is no worker.
  WorkerMessage message;
  message.kind = WorkerMessageKind::memory;
  message.bytes = memory_.size();
  // A worker that does not listen is noticed when the batch is started.
  send_message(process_.socket, message, memory_.descriptor());
  return true;
}

std::optional<Duration> WorkerLink::start(const engines::BatchJob& job) {
  TANGRAM_CHECK(state_ != State::running, "a worker runs one batch at a time");
  batch_ = job.batch;
  if (state_ != State::ready || !send_message(process_.socket, run_message(job))) {
    if (process_.process >= 0) {
      lose("it does not listen");
    } else {
      events_.on_lost(slice_, fmt::format("the worker of {} was lost", config_.title));
    }
    return std::nullopt;
  }
  state_ = State::running;
  due_ = kTimeNever;
  return std::nullopt;
}

void WorkerLink::log(host::LogLevel level, std::string_view event, std::string_view reason) const {
  host::LogLine line(level, event);
  line.text("slice", config_.title);
  if (process_.process >= 0) line.integer("process", process_.process);
  if (!reason.empty()) line.text("reason", reason);
  workers_.log_.write(line);
}

// ---- All workers ----

Workers::~Workers() { TANGRAM_CHECK(links_.empty(), "executors go before those who made them"); }

std::unique_ptr<engines::Executor> Workers::make(SliceId slice, WorkerConfig config, engines::ExecutorEvents& events) {
  return std::make_unique<WorkerLink>(*this, slice, std::move(config), events);
}

void Workers::work(TimePoint now) {
  // Nobody comes or goes while links work: they only report, and the world acts on reports later.
  for (WorkerLink* link : links_) link->work(now);
  if (now < reap_at_) return;
  reaper_.work();
  reap_at_ = reaper_.empty() ? kTimeNever : now + kReapEvery;
  if (reaper_.empty()) quotas_going_.clear();
}

TimePoint Workers::next_due() const {
  TimePoint due = reap_at_;
  for (const WorkerLink* link : links_) due = std::min(due, link->next_due());
  return due;
}

}  // namespace tangram::worker
