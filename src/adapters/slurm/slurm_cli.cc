// Runs sbatch, squeue, sinfo and scancel.
#include "adapters/slurm/slurm_cli.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>

#include "base/text.h"
#include "host/descriptor.h"

extern char** environ;

namespace tangram::adapters {
namespace {

using Steady = std::chrono::steady_clock;

struct Pipe {
  host::Descriptor read;
  host::Descriptor write;
};

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return Error{ErrorCode::unavailable, fmt::format("cannot make a pipe: {}", std::strerror(errno))};
  }
  Pipe pipe;
  pipe.read.reset(ends[0]);
  pipe.write.reset(ends[1]);
  return pipe;
}

// A started program with the ends of its pipes that are ours.
struct Running {
  pid_t pid = -1;
  host::Descriptor in;
  host::Descriptor out;
  host::Descriptor err;
};

Result<Running> start(const std::vector<std::string>& words) {
  TANGRAM_TRY(Pipe in, make_pipe());
  TANGRAM_TRY(Pipe out, make_pipe());
  TANGRAM_TRY(Pipe err, make_pipe());
  std::vector<char*> arguments;
  for (const auto& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.read.get(), 0);
  posix_spawn_file_actions_adddup2(&actions, out.write.get(), 1);
  posix_spawn_file_actions_adddup2(&actions, err.write.get(), 2);
  // Signals that this process ignores or blocks are none of the child's business.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  sigset_t usual;
  sigemptyset(&usual);
  for (const int signal : {SIGPIPE, SIGINT, SIGTERM}) sigaddset(&usual, signal);
  posix_spawnattr_setsigdefault(&attributes, &usual);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  Running running;
  const int failed = posix_spawnp(&running.pid, arguments.front(), &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    return Error{failed == ENOENT ? ErrorCode::not_found : ErrorCode::unavailable,
                 fmt::format("{}: {}", words.front(),
                             failed == ENOENT ? "not found in the PATH; is Slurm installed here?" : std::strerror(failed))};
  }
  running.in = std::move(in.write);
  running.out = std::move(out.read);
  running.err = std::move(err.read);
  return running;
}

// Appends what has come. False: the other side has closed.
bool drain(const host::Descriptor& from, std::string& into) {
  std::array<char, 64 << 10> buffer;
  const ssize_t got = ::read(from.get(), buffer.data(), buffer.size());
  if (got < 0) return errno == EINTR || errno == EAGAIN;
  into.append(buffer.data(), static_cast<std::size_t>(got));
  return got > 0;
}

// The first line of what a program said, without its own name.
std::string first_line(std::string_view text) {
  const auto line = text::trim(text.substr(0, text.find('\n')));
  return std::string(line.substr(0, 300));
}

Duration since(Steady::time_point begin) { return Steady::now() - begin; }

// One keeper at work.
class KeepLoop {
 public:
  KeepLoop(const SlurmKeepOptions& options, const SlurmSurroundings& around)
      : options_(options), around_(around), keeper_(options.keeper), budget_(options.call_every, options.calls_in_a_row) {}

  Result<Nothing> run() {
    while (!around_.stop()) {
      if (around_.changed) take_plan();
      if (around_.joined) ask_gateway();
      TANGRAM_RETURN_IF_ERROR(act());
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
    return Nothing{};
  }

 private:
  Duration now() const { return since(begin_); }

  void take_plan() {
    auto kinds = around_.changed();
    if (!kinds) return;
    options_.keeper.kinds = *kinds;
    keeper_.want(std::move(*kinds));
    around_.say("the plan has changed");
  }

  // Costs Slurm nothing. Once a second is enough to miss a task within the promised time.
  void ask_gateway() {
    if (gateway_asked_ && now() - *gateway_asked_ < std::chrono::seconds(1)) return;
    gateway_asked_ = now();
    const auto joined = around_.joined();
    if (joined.ok()) {
      keeper_.on_gateway(now(), *joined);
    } else {
      keeper_.on_gateway_away(now());
    }
    if (joined.ok() == gateway_answers_) return;
    gateway_answers_ = joined.ok();
    around_.say(joined.ok() ? "the gateway answers again" : joined.error().message);
  }

  // At most one call of Slurm: a command if one is due, or else a look at the queue.
  Result<Nothing> act() {
    if (queue_read_) {
      if (const auto command = keeper_.decide(now())) return carry_out(*command);
    }
    return look();
  }

  Result<Nothing> carry_out(const SlurmCommand& command) {
    if (!budget_.take(now())) return Nothing{};
    if (command.what == SlurmCommand::What::cancel) {
      const auto cancelled = slurm_cancel(command.tasks);
      if (!cancelled) return failed("cannot cancel", cancelled.error());
      budget_.on_answer();
      keeper_.on_cancelled(now(), command);
      around_.say(fmt::format("cancelled {}: {}", text::join(command.tasks, " "), command.why));
      return Nothing{};
    }
    const auto kind = std::ranges::find(options_.keeper.kinds, command.kind, &SlurmKind::name);
    const auto job = slurm_submit(options_.job, *kind, command.count, command.exclude);
    if (!job) {
      // Slurm may have taken it all the same.
      if (job.error().code == ErrorCode::exhausted) keeper_.on_unknown(now());
      keeper_.on_submit_failed(now(), command);
      return failed(fmt::format("cannot submit {} x {}", command.count, command.kind), job.error());
    }
    budget_.on_answer();
    keeper_.on_submitted(now(), command, *job);
    const std::vector<std::string> exclude(command.exclude.begin(), command.exclude.end());
    around_.say(fmt::format("submitted {} x {} as job {}{}: {}", command.count, command.kind, *job,
                            exclude.empty() ? "" : ", not on " + text::join(exclude, ","), command.why));
    return Nothing{};
  }

  // Reads the queue when something is expected of it, and half as often while all is well.
  Result<Nothing> look() {
    const Duration pause = !queue_read_ || keeper_.wants_queue() ? Duration::zero() : options_.call_every * (keeper_.settled() ? 2 : 1);
    if (queue_read_ && now() - *queue_read_ < pause) return Nothing{};
    // Each third look is at the nodes. One call is kept for a command.
    const auto nodes = keeper_.nodes_of_interest();
    if (queue_read_ && ++looks_ % 3 == 0 && !nodes.empty()) {
      if (!budget_.take(now(), 1)) return Nothing{};
      const auto printed = run_slurm(sinfo_arguments(nodes));
      if (!printed) return failed("cannot ask for the nodes", printed.error());
      const auto health = read_sinfo(*printed);
      if (!health) return failed("cannot ask for the nodes", health.error());
      keeper_.on_nodes(now(), *health);
    }
    if (!budget_.take(now(), queue_read_ ? 1 : 0)) return Nothing{};
    const auto tasks = slurm_queue(options_.job);
    if (!tasks) return failed("cannot read the queue", tasks.error());
    budget_.on_answer();
    silent_ = false;
    keeper_.on_queue(now(), *tasks);
    queue_read_ = now();
    if (around_.show) around_.show(keeper_);
    return Nothing{};
  }

  // Slurm's controller may be away for minutes: everything waits, and the same complaint is made once.
  Result<Nothing> failed(const std::string& what, const Error& error) {
    budget_.on_error(now());
    if (error.code == ErrorCode::not_found) return error;
    const std::string line = what + ": " + error.message;
    if (!silent_ || line != last_complaint_) around_.say(line);
    silent_ = true;
    last_complaint_ = line;
    return Nothing{};
  }

  SlurmKeepOptions options_;
  const SlurmSurroundings& around_;
  SlurmKeeper keeper_;
  SlurmCallBudget budget_;
  Steady::time_point begin_ = Steady::now();
  std::optional<Duration> queue_read_;
  std::optional<Duration> gateway_asked_;
  bool gateway_answers_ = true;
  bool silent_ = false;
  std::string last_complaint_;
  int looks_ = 0;
};

}  // namespace

Result<std::string> run_slurm(const std::vector<std::string>& words, const std::string& input) {
  const auto begin = Steady::now();
  TANGRAM_TRY(Running running, start(words));
  std::string out;
  std::string err;
  // A script is smaller than a pipe, so that writing it cannot block.
  TANGRAM_CHECK(input.size() <= 60'000, "the input of a program fits into a pipe");
  struct sigaction ignore {};
  struct sigaction before {};
  ignore.sa_handler = SIG_IGN;
  sigemptyset(&ignore.sa_mask);
  sigaction(SIGPIPE, &ignore, &before);
  if (!input.empty()) [[maybe_unused]] const ssize_t written = ::write(running.in.get(), input.data(), input.size());
  sigaction(SIGPIPE, &before, nullptr);
  running.in.reset();
  bool out_open = true;
  bool err_open = true;
  bool late = false;
  while (out_open || err_open) {
    const Duration left = kSlurmCallMax - since(begin);
    if (left <= Duration::zero() || out.size() > kSlurmOutputMax || err.size() > kSlurmOutputMax) {
      late = true;
      break;
    }
    std::array<pollfd, 2> watched{pollfd{out_open ? running.out.get() : -1, POLLIN, 0},
                                  pollfd{err_open ? running.err.get() : -1, POLLIN, 0}};
    const int ready = ::poll(watched.data(), watched.size(), static_cast<int>(left / std::chrono::milliseconds(1)) + 1);
    if (ready < 0 && errno != EINTR) break;
    if (ready <= 0) continue;
    if (watched[0].revents != 0) out_open = drain(running.out, out);
    if (watched[1].revents != 0) err_open = drain(running.err, err);
  }
  if (late) ::kill(running.pid, SIGKILL);
  int status = 0;
  while (::waitpid(running.pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (late) {
    return Error{ErrorCode::exhausted,
                 fmt::format("{}: no end after {} s or {} MiB of output", words.front(),
                             kSlurmCallMax / std::chrono::seconds(1), kSlurmOutputMax >> 20)};
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    const std::string said = first_line(err.empty() ? out : err);
    return Error{ErrorCode::unavailable,
                 fmt::format("{}: {}", words.front(), said.empty() ? "it failed without a word" : said)};
  }
  return out;
}

Result<std::vector<SlurmTask>> slurm_queue(const SlurmJob& job) {
  TANGRAM_TRY(const auto printed, run_slurm(squeue_arguments(job)));
  return read_squeue(printed, job);
}

Result<std::string> slurm_submit(const SlurmJob& job, const SlurmKind& kind, int count,
                                 const std::set<std::string>& exclude) {
  TANGRAM_TRY(const auto printed, run_slurm(sbatch_arguments(job, kind, count, exclude), sbatch_script(job, kind)));
  return read_sbatch(printed);
}

Result<Nothing> slurm_cancel(const std::vector<std::string>& tasks) {
  std::vector<std::string> words{"scancel"};
  words.insert(words.end(), tasks.begin(), tasks.end());
  TANGRAM_RETURN_IF_ERROR(run_slurm(words));
  return Nothing{};
}

Result<Nothing> keep_slurm(const SlurmKeepOptions& options, const SlurmSurroundings& around) {
  return KeepLoop(options, around).run();
}

}  // namespace tangram::adapters
