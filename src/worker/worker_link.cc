// The gateway's end of one worker process, as a state machine.
//
//   cold --restart()--> pausing --pause over--> loading --ready--> ready <--run/done--> running
//                                               loading <--change_models()-- ready <--done-- stopping <--restart()--
//                                               running
//
// A process exists in `loading`, `ready` and `running` and in no other state; everything that ends the process goes
// through end_process(). A restart() is answered by one on_restarted() and a batch by one on_done() or on_lost(),
// unless another restart() comes first. No call blocks: a killed process may take a while to end, for example inside a
// driver call, so it is reaped later, and the same thread meanwhile serves every other slice.
//
// The tensors outlive their process: a worker can answer a batch and die before the World has read the answer. They are
// released by restart(), which the World calls only after it has handled everything that the link reported before.
#include "worker/worker_link.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/check.h"
#include "worker/worker_channel.h"

namespace tangram::worker {
namespace {

// Nothing waits for a killed process to be reaped, so a slow poll costs no more than a zombie for a moment.
constexpr Duration kStopAgain = std::chrono::milliseconds(20);
constexpr Duration kReapEvery = std::chrono::milliseconds(20);

}  // namespace

// The executor of one slice. It is registered in `links` for as long as it lives, so Workers can drive its timers.
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
    // The killed process may still be in the control group, which the kernel removes only when it is empty.
    if (quota_ != nullptr) shared_.ended.remove_later(std::move(quota_));
    shared_.links.remove(this);
  }

  // Executor.
  Result<engines::BatchMemory*> prepare(const engines::BatchJob& job) override;
  std::optional<Duration> start(const engines::BatchJob& job) override;
  bool stop(BatchId batch, bool must) override;
  bool restart() override;
  bool ready() const override { return state_ == State::ready || state_ == State::running; }

  std::int64_t process() const override { return std::max(process_.process, 0); }
  void unload(ServiceId copy) override;
  bool change_models(SliceId slice, std::vector<engines::ModelSpec> models) override;

  // Starts, pings and time-outs that are due at `now`; next_due() is when this has to be called again.
  void work(TimePoint now);
  TimePoint next_due() const;

 private:
  enum class State : std::uint8_t {
    cold,      // Never started, or lost and not asked for again.
    pausing,   // Started again at `due_`.
    loading,   // Looked at when `due_`, and given up at `start_limit_`.
    ready,     // Asked at `due_` whether it lives, or, if it was, given up.
    running,   // A batch. While stopping_batch_, the worker is asked again at `due_` and killed at `stop_limit_`.
    stopping,  // A batch that was asked to stop, given up at `due_`.
  };

  // Creates the slice's core quota. Without rights to do so the slice runs without a limit, and the log says so.
  void make_quota();
  // Requires no process. Ends in `loading`, or in `cold` with on_restarted(false) if the kernel cannot start one.
  void begin_process();
  // Ends in `cold` and reports nothing. The tensors stay as they are.
  void end_process();
  // Requires a process. Ends it and reports it to the scheduler: as the answer to a restart, or as a loss.
  void lose(std::string reason);
  void on_ready(bool readable, bool writable, bool broken) override;
  // Each returns false for a message that is not expected in the present state; the worker is then given up.
  bool handle(const ReceivedMessage& received);
  bool handle_loading(const ReceivedMessage& received);
  bool handle_running(const ReceivedMessage& received);
  bool handle_stopping(const ReceivedMessage& received);
  // Ensures `ready` with the next ping scheduled.
  void enter_ready();
  // Sends what turns the models of the worker into `models`: loads one by one, and drops. False if the worker does not
  // read. Ensures that changes_ counts the loads.
  bool send_changes(const std::vector<engines::ModelSpec>& models);
  // Requires `ready`. Sends a ping and gives the worker `ping_answer` to reply.
  void ping();
  // Requires `running` with stopping_batch_. Asks the worker to stop, or ends it if its time is over.
  void press_stop(TimePoint now);
  // Requires `loading`. Gives the worker up if it takes too long or stays stopped.
  void watch_start(TimePoint now);
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
  TimePoint start_limit_ = kTimeNever;  // In `loading`.
  StartedWorker process_;
  SharedTensors tensors_;
  BatchId batch_;
  int starts_in_vain_ = 0;  // Since it last ran a batch.
  int changes_ = 0;         // In `loading`: models that were sent one by one and are not answered yet.
  TimePoint stop_limit_ = kTimeNever;
  bool stopping_batch_ = false;  // The World has asked for the end of the batch that runs.
  bool ever_ready_ = false;
  bool can_stop_ = false;  // The process ends a batch early when asked to.
  bool pinged_ = false;
  bool stopped_ = false;  // In `loading`: it was at the last look.
};

// ---- The life of the process ----

void WorkerLink::make_quota() {
  if (config_.quota_cores <= 0) return;
  const auto host = adapters::probe_cpu_host();
  // A gateway that was killed leaves its control groups behind, and they would accumulate.
  if (host.quota) adapters::remove_stale_groups(host.cgroup_directory, "tangram");
  const std::string name = fmt::format("tangram-{}-{}", getpid(), slice_.value());
  auto made = adapters::CoreQuota::make(host, name, config_.quota_cores);
  if (made) {
    quota_ = std::move(*made);
  } else {
    log(host::LogLevel::warning, "worker_quota_missing", made.error().message);
  }
}

// The process and its models stay, if the engine ends the batch in time.
bool WorkerLink::stop(BatchId batch, bool must) {
  if (state_ != State::running || batch_ != batch || (!can_stop_ && !must)) return false;
  const TimePoint now = context_.clock.now();
  stopping_batch_ = true;
  if (must) stop_limit_ = std::min(stop_limit_, now + config_.patience.stop);
  press_stop(now);
  return false;
}

// More than once, because a worker that has not begun the batch yet ignores the signal.
void WorkerLink::press_stop(TimePoint now) {
  if (now >= stop_limit_) {
    log(host::LogLevel::info, "worker_ended", "its slice is needed, and its batch takes too long");
    end_process();
    return events_.on_stopped(slice_, batch_);
  }
  if (can_stop_) send_stop(process_.process, batch_);
  due_ = can_stop_ ? std::min(stop_limit_, now + kStopAgain) : stop_limit_;
}

bool WorkerLink::restart() {
  // The scheduler restarts a slice in the middle of a batch only after the batch has exceeded its time limit.
  if (state_ == State::running && can_stop_) {
    // The process and its models stay, if the engine ends the batch in time.
    send_stop(process_.process, batch_);
    state_ = State::stopping;
    due_ = context_.clock.now() + config_.patience.stop;
    return false;
  }
  if (state_ == State::running || state_ == State::stopping)
    log(host::LogLevel::warning, "worker_lost", "it does not answer: its batch takes too long");
  end_process();
  // A killed process still has the memory mapped and might write to it, so the next worker gets new memory. Memory that
  // was prepared while there was no process goes, too: the next worker has not been told of it.
  tensors_.reset();
  const TimePoint now = context_.clock.now();
  const WorkerPatience& patience = config_.patience;
  // The pause doubles with each start that ran no batch: a model that crashes on load must not keep a core busy for
  // ever.
  const Duration pause = engines::pause_before_attempt(starts_in_vain_, patience.pause_min, patience.pause_max);
  ++starts_in_vain_;
  state_ = State::pausing;
  due_ = now + pause;
  // A first start begins now; it does not wait for the next turn of the event loop.
  if (pause == Duration::zero()) begin_process();
  // False: not ready yet. The answer arrives as on_restarted().
  return false;
}

void WorkerLink::begin_process() {
  auto started = start_worker(config_.program, config_.environment, config_.user);
  if (!started) {
    log(host::LogLevel::error, "worker_failed", started.error().message);
    state_ = State::cold;
    due_ = kTimeNever;
    return events_.on_restarted(slice_, false);
  }
  process_ = *started;
  context_.loop.add(process_.socket, host::Interest::read, this);
  state_ = State::loading;
  // Set before the spec is sent, so that a worker that never answers is given up, too.
  const TimePoint now = context_.clock.now();
  start_limit_ = now + config_.patience.start;
  due_ = std::min(start_limit_, now + config_.patience.ping_every);
  // Before the spec is sent: everything that the worker does with it, such as starting threads, falls under the quota.
  if (quota_ != nullptr) {
    if (const auto added = quota_->add(process_.process); !added) {
      log(host::LogLevel::warning, "worker_quota_missing", added.error().message);
    }
  }
  if (!send_spec(process_.socket, config_.spec)) lose("it does not read its socket");
}

void WorkerLink::end_process() {
  state_ = State::cold;
  due_ = kTimeNever;
  pinged_ = false;
  stopped_ = false;
  changes_ = 0;
  // A link in `cold` or `pausing` has no process; ending it again must do nothing.
  if (process_.process < 0) return;
  // The loop has to forget the descriptor before close(), since the kernel may give the same number to the next file.
  context_.loop.remove(process_.socket, this);
  close(process_.socket);
  shared_.ended.end(process_.process, context_.clock.now());
  process_ = {};
}

void WorkerLink::lose(std::string reason) {
  log(host::LogLevel::warning, "worker_lost", reason);
  // Read before end_process(), which resets the state.
  const bool asked_for = state_ == State::loading || state_ == State::stopping;
  end_process();
  if (asked_for) {
    events_.on_restarted(slice_, false);
  } else {
    events_.on_lost(slice_, fmt::format("the worker of {} was lost: {}", config_.title, reason));
  }
}

// ---- Messages ----

void WorkerLink::on_ready(bool, bool, bool) {
  // Reads until the socket is empty. Any message may end the process (see lose()), hence the condition.
  while (process_.process >= 0) {
    const ReceivedMessage received = receive_message(process_.socket, false);
    // Workers send no descriptors. One that arrives anyway is closed, or a faulty worker could exhaust our descriptors.
    if (received.descriptor >= 0) close(received.descriptor);
    if (received.kind == ReceivedMessage::Kind::nothing) return;
    if (received.kind == ReceivedMessage::Kind::closed) return lose(how_it_ended(process_.process));
    if (received.kind == ReceivedMessage::Kind::rubbish || !handle(received)) return lose("it sent an invalid message");
  }
}

bool WorkerLink::handle(const ReceivedMessage& received) {
  // Accepted in any state: a batch may have been started between the ping and its answer.
  if (received.message.kind == WorkerMessageKind::pong && pinged_) {
    pinged_ = false;
    if (state_ == State::ready) due_ = context_.clock.now() + config_.patience.ping_every;
    return true;
  }
  if (state_ == State::loading) return handle_loading(received);
  if (state_ == State::stopping) return handle_stopping(received);
  return state_ == State::running && handle_running(received);
}

bool WorkerLink::handle_loading(const ReceivedMessage& received) {
  if (received.message.kind == WorkerMessageKind::ready) {
    if (changes_ == 0) can_stop_ = received.message.size == 1;
    if (changes_ > 0 && --changes_ > 0) return true;
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
  // A model that cannot be loaded at the very first start is most likely a wrong configuration, so the gateway can stop
  // with this reason. Later, or once this slice has been ready, the same message is a fault that a retry may cure.
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
  // The answer to another batch would give the members of this one wrong results.
  if ((!done && !failed) || message.batch != batch_.value()) return false;
  // Only a batch proves that the worker works. One that becomes ready and dies again is still restarted with growing
  // pauses.
  starts_in_vain_ = 0;
  const bool stopped = failed && stopping_batch_;
  enter_ready();
  if (stopped) {
    events_.on_stopped(slice_, batch_);
  } else {
    events_.on_done(slice_, batch_, std::string(received.text()));
  }
  return true;
}

// The batch has ended, by itself or because it was stopped: nobody asks for its answer any more.
bool WorkerLink::handle_stopping(const ReceivedMessage& received) {
  const WorkerMessage& message = received.message;
  const bool ended = message.kind == WorkerMessageKind::done || message.kind == WorkerMessageKind::failed;
  if (!ended || message.batch != batch_.value()) return false;
  log(host::LogLevel::info, "worker_batch_stopped", "");
  enter_ready();
  events_.on_restarted(slice_, true);
  return true;
}

// An idle worker is pinged periodically. One that runs a batch is not, because it can answer only after the batch;
// there the scheduler's own time limit applies.
void WorkerLink::enter_ready() {
  state_ = State::ready;
  due_ = context_.clock.now() + config_.patience.ping_every;
}

void WorkerLink::ping() {
  WorkerMessage message;
  message.kind = WorkerMessageKind::ping;
  if (!send_message(process_.socket, message)) return lose("it does not read its socket");
  pinged_ = true;
  due_ = context_.clock.now() + config_.patience.ping_answer;
}

// A worker that loads cannot answer pings: its thread is busy, perhaps for minutes, and before that the program itself
// has to be loaded. But the kernel tells its parent whether it is stopped. One that stays so would hold up its slice,
// and a move to another plan with it, until `start_limit_`.
void WorkerLink::watch_start(TimePoint now) {
  if (now >= start_limit_) return lose("it did not become ready in time");
  const bool stopped = is_stopped(process_.process);
  if (stopped && stopped_) return lose("it was stopped while it started");
  stopped_ = stopped;
  due_ = std::min(start_limit_, now + (stopped ? config_.patience.ping_answer : config_.patience.ping_every));
}

void WorkerLink::work(TimePoint now) {
  if (now < due_) return;
  switch (state_) {
    case State::pausing: return begin_process();
    case State::loading: return watch_start(now);
    case State::stopping: restart(); return;
    case State::ready: return pinged_ ? lose("it does not answer") : ping();
    // Nothing is due in these states; the timer is cleared so that it does not fire again.
    case State::running:
      if (stopping_batch_) return press_stop(now);
      [[fallthrough]];
    case State::cold: due_ = kTimeNever; return;
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
  if (signature == nullptr) return Error{ErrorCode::not_found, "the slice has no replica of the service"};
  // Failures to announce new memory are noticed in start(): the worker is then lost or does not read.
  return tensors_.prepare(*signature, job, process_.socket);
}

std::optional<Duration> WorkerLink::start(const engines::BatchJob& job) {
  TANGRAM_CHECK(state_ != State::running, "a worker runs one batch at a time");
  batch_ = job.batch;
  // The worker may have died between dispatch and this call. The batch is reported as lost, so its requests are queued
  // again.
  if (state_ != State::ready || !send_message(process_.socket, run_message(job))) {
    if (process_.process >= 0) {
      lose("it does not read its socket");
    } else {
      events_.on_lost(slice_, fmt::format("the worker of {} was lost", config_.title));
    }
    return std::nullopt;
  }
  state_ = State::running;
  stopping_batch_ = false;
  stop_limit_ = kTimeNever;
  due_ = kTimeNever;
  return std::nullopt;
}

// ---- Models that come and go ----

// A worker that does not read is noticed by the batch that follows.
void WorkerLink::unload(ServiceId copy) {
  if (state_ == State::ready) send_message(process_.socket, unload_message(copy));
}

// The process, its cores and its memory limit stay. A model that cannot be loaded ends the worker like any other start
// that fails, and the next one starts with the new models.
bool WorkerLink::change_models(SliceId slice, std::vector<engines::ModelSpec> models) {
  if (state_ != State::ready) return false;
  if (!send_changes(models)) return false;
  log(host::LogLevel::info, "worker_models_changed", "");
  slice_ = slice;
  config_.spec.models = std::move(models);
  if (changes_ == 0) {
    events_.on_restarted(slice_, true);
    return true;
  }
  state_ = State::loading;
  const TimePoint now = context_.clock.now();
  start_limit_ = now + config_.patience.start;
  due_ = std::min(start_limit_, now + config_.patience.ping_every);
  return true;
}

// Models whose weights are there already come first, then those that go, then the others: weights that are needed
// further on are never freed, and the memory of those that go is free before more is needed. Models on demand are sent
// again, which unloads them: the scheduler counts them as not loaded.
bool WorkerLink::send_changes(const std::vector<engines::ModelSpec>& models) {
  const auto& before = config_.spec.models;
  const auto here = [&](const engines::ModelSpec& model) {
    return !model.on_demand && std::ranges::find(before, model) != before.end();
  };
  const auto has_weights = [&](const engines::ModelSpec& model) {
    return std::ranges::any_of(before, [&](const auto& old) { return !old.on_demand && old.copy == model.copy; });
  };
  std::vector<const engines::ModelSpec*> first;
  std::vector<const engines::ModelSpec*> last;
  for (const auto& model : models) {
    if (!here(model)) (has_weights(model) ? first : last).push_back(&model);
  }
  bool sent = true;
  for (const auto* model : first) sent = sent && send_model(process_.socket, *model);
  for (const auto& old : before) {
    const bool stays = std::ranges::find(models, old.service, &engines::ModelSpec::service) != models.end();
    if (!stays) sent = sent && send_message(process_.socket, drop_message(old.service));
  }
  for (const auto* model : last) sent = sent && send_model(process_.socket, *model);
  changes_ = static_cast<int>(first.size() + last.size());
  return sent;
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
  // A process that had already ended is reaped at once, and then no timer is needed.
  if (!reaper_.empty()) due_ = now + kReapEvery;
}

void EndedWorkers::work(TimePoint now) {
  if (now < due_) return;
  reaper_.work();
  due_ = reaper_.empty() ? kTimeNever : now + kReapEvery;
  // The kernel refuses to remove a control group that holds a process, so this waits until all have ended.
  if (reaper_.empty()) quotas_.clear();
}

std::unique_ptr<engines::Executor> Workers::make(SliceId slice, WorkerConfig config, engines::ExecutorEvents& events) {
  return std::make_unique<WorkerLink>(context_, WorkerLink::Shared{links_, ended_, first_start_}, slice,
                                      std::move(config), events);
}

void Workers::work(TimePoint now) {
  // Links are neither created nor destroyed in here: they only report, and the World acts on reports later.
  links_.work(now);
  ended_.work(now);
}

TimePoint Workers::next_due() const { return std::min(links_.next_due(), ended_.next_due()); }

}  // namespace tangram::worker
