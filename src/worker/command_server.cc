#include "worker/command_server.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "adapters/cpu_host/cpu_host.h"
#include "base/text.h"

namespace tangram::worker {
namespace {

namespace fs = std::filesystem;

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
  TANGRAM_TRY(server->group_, start_command(program, text, place.cores, environment));
  if (server->quota_ != nullptr) TANGRAM_RETURN_IF_ERROR(server->quota_->add(server->group_));
  return server;
}

CommandServer::~CommandServer() {
  if (group_ < 0) return;
  kill(-group_, SIGKILL);
  if (!how_) waitpid(group_, nullptr, 0);
}

std::optional<std::string> CommandServer::ended() {
  int status = 0;
  if (!how_ && waitpid(group_, &status, WNOHANG) == group_) {
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
