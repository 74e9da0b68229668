// The command runs below a launcher, which ends the whole process group when the gateway dies: the kernel's
// parent-death signal reaches one process only, and servers start others.
#include "worker/command_launcher.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <deque>

#include "adapters/cpu_host/core_share.h"
#include "base/text.h"
#include "host/mutex.h"
#include "worker/worker_process.h"

namespace tangram::worker {
namespace {

// In single quotes, which the shell takes as they are.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

// Of a launcher: how many SIGTERM of its own are under way to it.
volatile std::sig_atomic_t own_terms = 0;

void end_group(int) {
  if (own_terms > 0) {
    own_terms = own_terms - 1;
  } else {
    kill(0, SIGKILL);
  }
}

// Passes SIGTERM on. The signal comes back to this process as one of the group, before kill() returns.
void ask_group(int) {
  own_terms = own_terms + 1;
  kill(0, SIGTERM);
}

// Of about 28,000 that the kernel chooses from, so nearly every attempt finds another one.
constexpr std::size_t kPortsRemembered = 1024;
constexpr int kPortAttempts = 64;

struct GivenPorts {
  host::Mutex mutex;
  std::deque<std::uint16_t> latest GUARDED_BY(mutex);
};

Result<std::uint16_t> any_free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  const bool found = socket >= 0 && bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
                     getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  const std::string reason = found ? "" : std::strerror(errno);
  if (socket >= 0) close(socket);
  if (!found) return Error{ErrorCode::exhausted, "no free port: " + reason};
  return ntohs(address.sin_port);
}

}  // namespace

Result<std::string> fill_command(std::string_view command, const CommandPlace& place) {
  std::string filled;
  while (!command.empty()) {
    const auto open = command.find('{');
    filled += command.substr(0, open);
    if (open == std::string_view::npos) break;
    const auto close = command.find('}', open);
    // Of the shell: ${HOME}, { a; b; }, an unclosed one.
    const std::string_view name =
        close == std::string_view::npos ? std::string_view() : command.substr(open + 1, close - open - 1);
    const bool of_shell = name.empty() || (open > 0 && command[open - 1] == '$') ||
                          name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") != std::string_view::npos;
    if (of_shell) {
      filled += '{';
      command.remove_prefix(open + 1);
      continue;
    }
    if (name == "port") {
      filled += fmt::to_string(place.port);
    } else if (name == "model") {
      filled += quoted(place.model);
    } else if (name == "slice") {
      filled += quoted(place.slice);
    } else if (name == "cores") {
      filled += fmt::format("{}", fmt::join(place.cores, ","));
    } else {
      return invalid_input(
          fmt::format("the command has {{{}}}; expected {{port}}, {{model}}, {{slice}} or {{cores}}", name));
    }
    command.remove_prefix(close + 1);
  }
  return filled;
}

// The kernel chooses at random, and may choose a port again.
Result<std::uint16_t> free_port() {
  static GivenPorts given;
  const host::MutexLock lock(given.mutex);
  std::uint16_t port = 0;
  for (int attempt = 0; attempt < kPortAttempts; ++attempt) {
    TANGRAM_TRY(port, any_free_port());
    if (std::ranges::find(given.latest, port) == given.latest.end()) break;
  }
  given.latest.push_back(port);
  if (given.latest.size() > kPortsRemembered) given.latest.pop_front();
  return port;
}

Result<pid_t> start_command(const std::string& program, const std::string& command, const std::vector<int>& cores,
                            const std::vector<std::string>& environment, const std::string& control_group) {
  std::string name = program;
  std::string mode = "--run";
  std::string where = fmt::format("{}", fmt::join(cores, ","));
  std::string text = command;
  std::string group = control_group;
  std::array<char*, 6> arguments{name.data(), mode.data(), where.data(), text.data(), group.data(), nullptr};
  return spawn_in_group(program, arguments.data(), environment);
}

void ask_command_to_end(pid_t group) { kill(group, SIGUSR1); }

int run_command(const char* cores, const char* command, const std::string& control_group) {
  // Of the group that the parent has made for this process.
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  signal(SIGTERM, end_group);
  signal(SIGUSR1, ask_group);
  std::vector<int> list;
  for (const auto part : text::split(cores, ',')) {
    if (const auto core = text::parse_integer(part)) list.push_back(static_cast<int>(*core));
  }
  if (const auto pinned = adapters::run_on_cores(list); !pinned) {
    std::fprintf(stderr, "%s\n", pinned.error().message.c_str());
    return 1;
  }
  // Before the fork: what a process has started when it joins a group stays outside of it.
  if (!control_group.empty()) {
    if (const auto joined = adapters::CoreQuota::join(control_group); !joined) {
      std::fprintf(stderr, "%s\n", joined.error().message.c_str());
      return 1;
    }
  }
  const pid_t child = fork();
  if (child == 0) {
    // If the launcher is killed, at least the shell goes with it.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGTERM, SIG_DFL);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    close_range(3, ~0U, 0);
    execl("/bin/sh", "sh", "-c", command, nullptr);
    _exit(127);
  }
  int status = 0;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (child < 0) return 1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace tangram::worker
