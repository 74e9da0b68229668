// The executor of a slice with a server of the user's own: a process group, and a connection to it.
//
//   cold --restart()--> pausing --pause over--> starting --ready--> serving
//
// A process group exists in `starting` and `serving` and in no other state. The connection is that of a remote server
// (engines/remote); its reports pass through here, because while the server starts, "not ready" only means "ask again".
#include "serve/command_link.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "worker/command_launcher.h"

namespace tangram::serve {
namespace {

// How often a server is looked at: whether its process has ended.
constexpr Duration kWatchEvery = std::chrono::milliseconds(250);
// Between questions to a server that starts.
constexpr Duration kAskMax = std::chrono::seconds(1);

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) return fmt::format("the command was ended by signal {}", WTERMSIG(status));
  return fmt::format("the command exited with code {}", WEXITSTATUS(status));
}

}  // namespace

class CommandLink final : public engines::Executor, private engines::ExecutorEvents {
 public:
  CommandLink(engines::LinkContext context, engines::Remotes& remotes, worker::EndedWorkers& ended,
              engines::LinkList<CommandLink>& all, SliceId slice, CommandConfig config, engines::ExecutorEvents& events)
      : context_(context),
        remotes_(remotes),
        ended_(ended),
        all_(all),
        slice_(slice),
        config_(std::move(config)),
        events_(events) {
    all_.add(this);
    make_quota();
  }
  ~CommandLink() override {
    end_process();
    if (quota_ != nullptr) ended_.remove_later(std::move(quota_));
    all_.remove(this);
  }

  // Executor.
  Result<engines::BatchMemory*> prepare(const engines::BatchJob& job) override {
    if (connection_ == nullptr) return Error{ErrorCode::unavailable, "the server of the slice has ended"};
    return connection_->prepare(job);
  }
  std::optional<Duration> start(const engines::BatchJob& job) override {
    if (state_ == State::serving) return connection_->start(job);
    events_.on_lost(slice_, fmt::format("the server of {} has ended", config_.title));
    return std::nullopt;
  }
  bool restart() override;
  bool ready() const override { return state_ == State::serving; }
  std::int64_t process() const override { return std::max(group_, 0); }

  void work(TimePoint now);
  TimePoint next_due() const { return due_; }

 private:
  enum class State : std::uint8_t { cold, pausing, starting, serving };

  // As of a worker: without rights to set one, the slice runs without a limit, and the log says so.
  void make_quota();
  // Starts the command. Ends in `starting`, or in `cold` with on_restarted(false).
  void begin_process();
  // Ends in `cold` and reports nothing. The connection stays until the next start: its tensors may still be read.
  void end_process();
  // Ends the process group and reports it: as the answer to a restart, or as a loss.
  void lose(const std::string& reason);
  void log(host::LogLevel level, std::string_view event, std::string_view reason) const;

  // What the connection reports. Beyond `serving` nobody waits for it: a restart has given the batch up, and its pause
  // must not be ended by the loss of the old server.
  void on_done(SliceId, BatchId batch, std::string failure) override {
    if (state_ != State::serving) return;
    if (failure.empty()) starts_in_vain_ = 0;
    events_.on_done(slice_, batch, std::move(failure));
  }
  void on_lost(SliceId, std::string reason) override {
    if (state_ != State::serving) return;
    log(host::LogLevel::warning, "command_lost", reason);
    end_process();
    events_.on_lost(slice_, std::move(reason));
  }
  void on_restarted(SliceId, bool ok) override;
  void on_rejected_upstream(SliceId, Duration retry_after) override {
    if (state_ != State::serving) return;
    events_.on_rejected_upstream(slice_, retry_after);
  }

  engines::LinkContext context_;
  engines::Remotes& remotes_;
  worker::EndedWorkers& ended_;
  engines::LinkList<CommandLink>& all_;
  SliceId slice_;
  CommandConfig config_;
  engines::ExecutorEvents& events_;
  std::unique_ptr<adapters::CoreQuota> quota_;
  std::unique_ptr<engines::Executor> connection_;
  State state_ = State::cold;
  TimePoint due_ = kTimeNever;
  TimePoint start_limit_ = kTimeNever;  // In `starting`.
  pid_t group_ = -1;
  int starts_in_vain_ = 0;  // Since it last ran a batch.
};

void CommandLink::make_quota() {
  if (config_.quota_cores <= 0) return;
  auto made = adapters::CoreQuota::make(adapters::probe_cpu_host(),
                                        fmt::format("tangram-{}-{}", getpid(), slice_.value()), config_.quota_cores);
  if (made) {
    quota_ = std::move(*made);
  } else {
    log(host::LogLevel::warning, "worker_quota_missing", made.error().message);
  }
}

bool CommandLink::restart() {
  end_process();
  const Duration pause =
      engines::pause_before_attempt(starts_in_vain_, config_.patience.pause_min, config_.patience.pause_max);
  ++starts_in_vain_;
  state_ = State::pausing;
  due_ = context_.clock.now() + pause;
  return false;
}

void CommandLink::begin_process() {
  const auto start = [&]() -> Result<host::Endpoint> {
    TANGRAM_TRY(const auto port, worker::free_port());
    TANGRAM_TRY(
        const auto command,
        worker::fill_command(config_.command,
                             {.port = port, .model = config_.model, .slice = config_.title, .cores = config_.cores}));
    // It joins the group itself, before it starts anything: what it has started when it is added from here would stay
    // outside of the quota.
    const std::string control_group = quota_ != nullptr ? quota_->directory() : std::string();
    TANGRAM_TRY(group_,
                worker::start_command(config_.program, command, config_.cores, config_.environment, control_group));
    return host::Endpoint{.port = port};
  };
  const auto server = start();
  if (!server) {
    log(host::LogLevel::error, "command_failed", server.error().message);
    state_ = State::cold;
    due_ = kTimeNever;
    return events_.on_restarted(slice_, false);
  }
  state_ = State::starting;
  const TimePoint now = context_.clock.now();
  start_limit_ = now + config_.patience.start;
  due_ = now + kWatchEvery;
  connection_ = remotes_.make(slice_,
                              {.address = *server,
                               .caller = {},
                               .title = config_.title,
                               .models = config_.models,
                               .pause_max = kAskMax,
                               .starts = true},
                              *this);
  connection_->restart();
}

void CommandLink::end_process() {
  state_ = State::cold;
  due_ = kTimeNever;
  if (group_ < 0) return;
  kill(-group_, SIGKILL);
  ended_.end(group_, context_.clock.now());
  group_ = -1;
}

void CommandLink::lose(const std::string& reason) {
  log(host::LogLevel::warning, "command_lost", reason);
  const bool starting = state_ == State::starting;
  end_process();
  if (starting) {
    events_.on_restarted(slice_, false);
  } else {
    events_.on_lost(slice_, fmt::format("the server of {} was lost: {}", config_.title, reason));
  }
}

void CommandLink::on_restarted(SliceId, bool ok) {
  if (state_ != State::starting) return;
  if (ok) {
    state_ = State::serving;
    log(host::LogLevel::info, "command_ready", "");
    return events_.on_restarted(slice_, true);
  }
  // Not yet: it is asked again, after a pause of the connection's own, until work() finds that it took too long.
  connection_->restart();
}

void CommandLink::work(TimePoint now) {
  if (now < due_) return;
  if (state_ == State::pausing) return begin_process();
  if (state_ == State::cold) {
    due_ = kTimeNever;
    return;
  }
  due_ = now + kWatchEvery;
  int status = 0;
  if (waitpid(group_, &status, WNOHANG) == group_) {
    // Reaped: what is left of its group goes, and nothing waits for it.
    kill(-group_, SIGKILL);
    group_ = -1;
    return lose(how_it_ended(status));
  }
  if (state_ == State::starting && now >= start_limit_) lose("it did not become ready in time");
}

void CommandLink::log(host::LogLevel level, std::string_view event, std::string_view reason) const {
  host::LogLine line(level, event);
  line.text("slice", config_.title);
  if (group_ >= 0) line.integer("process", group_);
  if (!reason.empty()) line.text("reason", reason);
  context_.log.write(line);
}

// ---- All of them ----

std::unique_ptr<engines::Executor> Commands::make(SliceId slice, CommandConfig config,
                                                  engines::ExecutorEvents& events) {
  return std::make_unique<CommandLink>(context_, remotes_, ended_, links_, slice, std::move(config), events);
}

void Commands::work(TimePoint now) {
  links_.work(now);
  ended_.work(now);
}

TimePoint Commands::next_due() const { return std::min(links_.next_due(), ended_.next_due()); }

}  // namespace tangram::serve
