// The link of one slice is a state machine: cold, pausing, loading, ready, running. It has a process in the last three
// and in no other; whatever ends the process passes through end_process().
#include "worker/worker_link.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/check.h"
#include "worker/worker_channel.h"

namespace tangram::worker {
namespace {

constexpr Duration kReapEvery = std::chrono::milliseconds(20);

}  // namespace

class WorkerLink final : public engines::Executor, private host::Readiness {
 public:
  // What a link shares with the others of its gateway. All of it outlives the link.
  struct Shared {
    engines::LinkList<WorkerLink>& links;
    EndedWorkers& ended;
    FirstStart& first_start;
  };

  WorkerLink(engines::LinkContext context, Shared shared, SliceId slice, WorkerConfig config,
             engines::ExecutorEvents& events)
      : context_(context), shared_(shared), slice_(slice), config_(std::move(config)), events_(events) {
    shared_.links.add(this);
    make_quota();
  }
  ~WorkerLink() override {
    end_process();
    if (quota_ != nullptr) shared_.ended.remove_later(std::move(quota_));
    shared_.links.remove(this);
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

  // A slice that cannot have its quota runs without, and the log says so.
  void make_quota();
  // Requires no process. Ends in `loading`, or in `cold` if the kernel starts none; then the scheduler is told.
  void begin_process();
  // Ends in `cold`, without telling anybody.
  void end_process();
  // Requires a process. Ends it and tells the scheduler, as the answer to a restart or as a loss.
  void lose(std::string reason);
  void on_ready(bool readable, bool writable, bool broken) override;
  // These answer false for a message that makes no sense now.
  bool handle(const ReceivedMessage& received);
  bool handle_loading(const ReceivedMessage& received);
  bool handle_running(const ReceivedMessage& received);
  void enter_ready();
  void ping();
  const Signature* signature_of(ServiceId service) const;
  void log(host::LogLevel level, std::string_view event, std::string_view reason) const;

  engines::LinkContext context_;
  Shared shared_;
  SliceId slice_;
  WorkerConfig config_;
  engines::ExecutorEvents& events_;
  std::unique_ptr<adapters::CoreQuota> quota_;
  State state_ = State::cold;
  TimePoint due_ = kTimeNever;
  StartedWorker process_;
  SharedTensors tensors_;
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
  if (state_ == State::running)
    log(host::LogLevel::warning, "worker_lost", "it does not answer: its batch takes too long");
  end_process();
  const TimePoint now = context_.clock.now();
  const WorkerPatience& patience = config_.patience;
  const Duration pause = engines::pause_before_attempt(starts_in_vain_, patience.pause_min, patience.pause_max);
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
  context_.loop.add(process_.socket, host::Interest::read, this);
  state_ = State::loading;
  due_ = context_.clock.now() + config_.patience.start;
  if (quota_ != nullptr) {
    if (const auto added = quota_->add(process_.process); !added) {
      log(host::LogLevel::warning, "worker_quota_missing", added.error().message);
    }
  }
  if (!send_spec(process_.socket, config_.spec)) lose("it does not listen");
}

void WorkerLink::end_process() {
  state_ = State::cold;
  due_ = kTimeNever;
  pinged_ = false;
  if (process_.process < 0) return;
  context_.loop.remove(process_.socket, this);
  close(process_.socket);
  shared_.ended.end(process_.process, context_.clock.now());
  process_ = {};
  tensors_.reset();
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

bool WorkerLink::handle(const ReceivedMessage& received) {
  if (received.message.kind == WorkerMessageKind::pong && pinged_) {
    pinged_ = false;
    if (state_ == State::ready) due_ = context_.clock.now() + config_.patience.ping_every;
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
  FirstStart& first = shared_.first_start;
  if (first.under_way && !ever_ready_ && first.unrecoverable.empty()) {
    first.unrecoverable = fmt::format("{}: {}", config_.title, reason);
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
  // A batch is the proof that it works. A worker that gets ready and dies again must not be started without a pause.
  starts_in_vain_ = 0;
  enter_ready();
  events_.on_done(slice_, batch_, std::string(received.text()));
  return true;
}

// A ready worker is asked now and then whether it lives; one that runs a batch is not, because it answers only after
// it.
void WorkerLink::enter_ready() {
  state_ = State::ready;
  due_ = context_.clock.now() + config_.patience.ping_every;
}

void WorkerLink::ping() {
  WorkerMessage message;
  message.kind = WorkerMessageKind::ping;
  if (!send_message(process_.socket, message)) return lose("it does not listen");
  pinged_ = true;
  due_ = context_.clock.now() + config_.patience.ping_answer;
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
  // A worker that does not hear of new memory is noticed when the batch is started, and so is that there is none.
  return tensors_.prepare(*signature, job, process_.socket);
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
  context_.log.write(line);
}

// ---- All workers ----

void EndedWorkers::end(pid_t process, TimePoint now) {
  reaper_.kill_and_reap(process);
  if (!reaper_.empty()) due_ = now + kReapEvery;
}

void EndedWorkers::work(TimePoint now) {
  if (now < due_) return;
  reaper_.work();
  due_ = reaper_.empty() ? kTimeNever : now + kReapEvery;
  if (reaper_.empty()) quotas_.clear();
}

std::unique_ptr<engines::Executor> Workers::make(SliceId slice, WorkerConfig config, engines::ExecutorEvents& events) {
  return std::make_unique<WorkerLink>(context_, WorkerLink::Shared{links_, ended_, first_start_}, slice,
                                      std::move(config), events);
}

void Workers::work(TimePoint now) {
  // Nobody comes or goes while links work: they only report, and the world acts on reports later.
  links_.work(now);
  ended_.work(now);
}

TimePoint Workers::next_due() const { return std::min(links_.next_due(), ended_.next_due()); }

}  // namespace tangram::worker
