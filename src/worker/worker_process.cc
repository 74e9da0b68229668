// Starts, kills and reaps worker processes.
//
// posix_spawn is used instead of fork: the gateway may have many threads and much memory mapped. fork would copy its
// page tables and could run only async-signal-safe code in the child until exec.

#include "worker/worker_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <string_view>

#include "worker/worker_host.h"

namespace tangram::worker {
namespace {

// The file actions and attributes for posix_spawn.
class SpawnOrders {
 public:
  // A negative socket: none is passed on.
  explicit SpawnOrders(int socket) {
    posix_spawn_file_actions_init(&actions_);
    // A worker must not read the terminal of the gateway.
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    // dup2 clears CLOEXEC on the copy, so this end of the socket survives the exec.
    if (socket >= 0) posix_spawn_file_actions_adddup2(&actions_, socket, kWorkerSocket);
    posix_spawnattr_init(&attributes_);
    // A new program inherits which signals are blocked and ignored, so both are reset to their defaults.
    sigset_t none;
    sigemptyset(&none);
    sigset_t all;
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    // A group of its own: Ctrl-C goes to the whole foreground group and must not kill workers before the gateway
    // drains.
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  ~SpawnOrders() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnOrders(const SpawnOrders&) = delete;
  SpawnOrders& operator=(const SpawnOrders&) = delete;

  int spawn(const std::string& program, char** environment, const std::optional<WorkerUser>& user,
            pid_t* process) const {
    std::string name = program;
    std::string argument = "--serve";
    std::string becomes = user ? fmt::format("--user={}:{}", user->user, user->group) : "";
    std::array<char*, 4> arguments{name.data(), argument.data(), user ? becomes.data() : nullptr, nullptr};
    return spawn(program, arguments.data(), environment, process);
  }
  int spawn(const std::string& program, char* const* arguments, char** environment, pid_t* process) const {
    return posix_spawn(process, program.c_str(), &actions_, &attributes_, arguments, environment);
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

// "NAME=" of "NAME=value".
std::string_view name_in(std::string_view entry) { return entry.substr(0, entry.find('=') + 1); }

// Our environment, as far as `keep` says (null: all of it), in which each entry of `added` replaces the one with the
// same name. The pointers refer to `added` and to `environ`.
std::vector<char*> environment_with(const std::vector<std::string>& added, bool (*keep)(std::string_view) = nullptr) {
  std::vector<char*> environment;
  for (const auto& entry : added) environment.push_back(const_cast<char*>(entry.c_str()));
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const bool replaced =
        std::ranges::any_of(added, [&](std::string_view other) { return name_in(other) == name_in(*entry); });
    if (!replaced && (keep == nullptr || keep(*entry))) environment.push_back(*entry);
  }
  environment.push_back(nullptr);
  return environment;
}

}  // namespace

// Beside our own binary, not on PATH: gateway and worker must come from the same build, because they share a struct.
std::string find_worker_program() {
  std::array<char, PATH_MAX> self{};
  const ssize_t length = readlink("/proc/self/exe", self.data(), self.size() - 1);
  if (length <= 0) return {};
  std::string path(self.data(), static_cast<std::size_t>(length));
  path = path.substr(0, path.rfind('/')) + "/tangram-worker";
  return access(path.c_str(), X_OK) == 0 ? path : std::string();
}

Result<pid_t> spawn_in_group(const std::string& program, char* const* arguments,
                             const std::vector<std::string>& environment) {
  pid_t process = -1;
  const int problem = SpawnOrders(-1).spawn(program, arguments, environment_with(environment).data(), &process);
  if (problem == 0) return process;
  return Error{ErrorCode::unavailable, fmt::format("cannot start {}: {}", program, std::strerror(problem))};
}

Result<StartedWorker> start_worker(const std::string& program, const std::vector<std::string>& environment,
                                   const std::optional<WorkerUser>& user) {
  std::array<int, 2> ends{-1, -1};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return Error{ErrorCode::exhausted, fmt::format("cannot open a socket: {}", std::strerror(errno))};
  }
  // Our end never blocks. A worker that does not read its messages counts as lost.
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  StartedWorker started;
  started.socket = ends[0];
  const int problem = SpawnOrders(ends[1]).spawn(program, environment_with(environment, worker_may_have).data(), user,
                                                 &started.process);
  // Only the worker holds the other end from here on, so its death closes the connection and wakes us.
  close(ends[1]);
  if (problem == 0) return started;
  close(ends[0]);
  return Error{ErrorCode::unavailable, fmt::format("cannot start {}: {}", program, std::strerror(problem))};
}

std::string how_it_ended(pid_t process) {
  for (int tries = 0; tries < 20; ++tries) {
    siginfo_t about{};
    const int asked = waitid(P_PID, static_cast<id_t>(process), &about, WEXITED | WNOHANG | WNOWAIT);
    if (asked != 0) break;
    if (about.si_pid == process) {
      if (about.si_code == CLD_EXITED) return fmt::format("it exited with code {}", about.si_status);
      const char* name = sigabbrev_np(about.si_status);
      return fmt::format("it was ended by signal {} ({})", about.si_status, name == nullptr ? "?" : name);
    }
    usleep(250);
  }
  return "it exited";
}

bool is_stopped(pid_t process) {
  siginfo_t about{};
  // WNOWAIT leaves the state to be asked for again; without it the kernel would tell of each stop only once.
  const int asked = waitid(P_PID, static_cast<id_t>(process), &about, WSTOPPED | WNOHANG | WNOWAIT);
  return asked == 0 && about.si_pid == process && about.si_code == CLD_STOPPED;
}

// SIGKILL and not SIGTERM: a worker has no state to save, and one that hangs would ignore the milder signal.
void Reaper::kill_and_reap(pid_t process) {
  kill(process, SIGKILL);
  processes_.push_back(process);
  work();
}

void Reaper::work() {
  std::erase_if(processes_, [](pid_t process) {
    const pid_t answer = waitpid(process, nullptr, WNOHANG);
    // ECHILD: the process is no child of ours any more. Keeping it would poll for ever.
    return answer == process || (answer < 0 && errno == ECHILD);
  });
}

// Blocks, but only for processes that have already received SIGKILL.
Reaper::~Reaper() {
  for (const pid_t process : processes_) {
    while (waitpid(process, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

}  // namespace tangram::worker
