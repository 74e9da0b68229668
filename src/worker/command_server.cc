#include "worker/command_server.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "adapters/cpu_host/cpu_host.h"
#include "base/text.h"

namespace tangram::worker {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kEndMax{5000};
constexpr std::chrono::milliseconds kLookEvery{10};

// A field of /proc/PID/status in MiB; 0 if the process has ended.
double status_mib(const fs::path& process, std::string_view field) {
  std::ifstream status(process / "status");
  for (std::string word; status >> word;) {
    double kib = 0;
    if (word == field && status >> kib) return kib / 1024;
  }
  return 0;
}

}  // namespace

Result<std::unique_ptr<CommandServer>> CommandServer::start(const std::string& program, const std::string& command,
                                                            CommandPlace place, double quota_cores,
                                                            const std::vector<std::string>& environment) {
  std::unique_ptr<CommandServer> server(new CommandServer);
  TANGRAM_TRY(place.port, free_port());
  server->port_ = place.port;
  TANGRAM_TRY(const auto text, fill_command(command, place));
  if (quota_cores > 0) {
    // Control groups need distinct names, also for several servers of one process.
    static int made = 0;
    TANGRAM_TRY(server->quota_,
                adapters::CoreQuota::make(adapters::probe_cpu_host(),
                                          fmt::format("tangram-measure-{}-c{}", getpid(), made++), quota_cores));
  }
  const std::string control_group = server->quota_ != nullptr ? server->quota_->directory() : std::string();
  TANGRAM_TRY(server->group_, start_command(program, text, place.cores, environment, control_group));
  return server;
}

CommandServer::~CommandServer() {
  if (group_ >= 0 && !how_) end_group();
}

int CommandServer::end_group() const {
  kill(-group_, SIGKILL);
  int status = 0;
  while (waitpid(group_, &status, 0) < 0 && errno == EINTR) {
  }
  // The others are no children of ours, so the kernel can only be asked whether they are still there.
  for (auto left = kEndMax; left.count() > 0 && kill(-group_, 0) == 0; left -= kLookEvery) {
    std::this_thread::sleep_for(kLookEvery);
  }
  return status;
}

std::optional<std::string> CommandServer::ended() {
  if (how_) return how_;
  // Asked without reaping it, so that the number of the group is still its own when the rest is ended.
  siginfo_t leader{};
  const int asked = waitid(P_PID, static_cast<id_t>(group_), &leader, WEXITED | WNOHANG | WNOWAIT);
  if (asked == 0 && leader.si_pid == group_) {
    const int status = end_group();
    how_ = WIFSIGNALED(status) ? fmt::format("the command was ended by signal {}", WTERMSIG(status))
                               : fmt::format("the command exited with code {}", WEXITSTATUS(status));
    // The launcher passes the signal of the command on as a code above 128, as a shell does.
    if (WIFEXITED(status) && WEXITSTATUS(status) > 128) {
      how_ = fmt::format("the command was ended by signal {}", WEXITSTATUS(status) - 128);
    }
  }
  return how_;
}

std::optional<double> CommandServer::memory_mib() const {
  double sum = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const auto pid = text::parse_integer(entry.path().filename().string());
    if (pid && getpgid(static_cast<pid_t>(*pid)) == group_) sum += status_mib(entry.path(), "VmHWM:");
  }
  return sum > 0 ? std::optional(sum) : std::nullopt;
}

}  // namespace tangram::worker
