// A command of the user's own as a server to measure: started on a slice, ended with it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adapters/cpu_host/core_share.h"
#include "worker/command_launcher.h"

namespace tangram::worker {

class CommandServer {
 public:
  // `command` as fill_command takes it; `quota_cores` as in WorkerConfig. Errors: it cannot be started, or not limited.
  static Result<std::unique_ptr<CommandServer>> start(const std::string& program, const std::string& command,
                                                      CommandPlace place, double quota_cores,
                                                      const std::vector<std::string>& environment);
  // Waits up to five seconds for the end of its processes: the next measurement must not share cores with a server that
  // ends.
  ~CommandServer();
  CommandServer(const CommandServer&) = delete;
  CommandServer& operator=(const CommandServer&) = delete;

  std::uint16_t port() const { return port_; }
  // How it ended; nothing while it runs. What it has started and left behind is ended, too.
  std::optional<std::string> ended();
  // The sum of the peaks of its processes.
  std::optional<double> memory_mib() const;

 private:
  CommandServer() = default;

  // Ends all of the group and waits for it; returns how the leader ended. Requires that the leader has not been reaped:
  // its number may be given away again afterwards.
  int end_group() const;

  pid_t group_ = -1;
  std::uint16_t port_ = 0;
  std::optional<std::string> how_;
  std::unique_ptr<adapters::CoreQuota> quota_;
};

}  // namespace tangram::worker
