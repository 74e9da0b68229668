// Slices whose batches run in servers of the user's own, which this program starts: Triton, MLServer, a script.
//
// Each slice has one process group, started with the environment, the cores and the quota of the slice, and asked over
// HTTP on a port of the loopback interface. It is ready when it says so of every model; it is started again when it
// ends, hangs or says that it is not ready any more. Used by the thread of the world only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "adapters/cpu_host/core_share.h"
#include "engines/executor.h"
#include "engines/executor_links.h"
#include "engines/remote/remote_link.h"
#include "worker/worker_link.h"

namespace tangram::serve {

struct CommandConfig {
  std::string program;     // As find_worker_program() says: it launches the command.
  std::string command;     // For the shell, with {port}, {model}, {slice}, {cores}.
  std::string title;       // The slice, for logs and {slice}.
  std::vector<int> cores;  // Empty: anywhere.
  double quota_cores = 0;  // As in WorkerConfig.
  std::vector<std::string> environment;
  std::string model;  // {model}
  std::vector<engines::ModelSpec> models;
  worker::WorkerPatience patience;  // `start` is the time until it is ready, the pauses as for workers.
};

class CommandLink;

// All servers that a gateway has started.
class Commands {
 public:
  // All outlive it; `remotes` makes the connections.
  Commands(host::EventLoop& loop, const host::LiveClock& clock, host::LogWriter& log, engines::Remotes& remotes)
      : context_{loop, clock, log}, remotes_(remotes) {}

  // The executor of a slice. Its server is started by the first restart(). It is destroyed before this is.
  std::unique_ptr<engines::Executor> make(SliceId slice, CommandConfig config, engines::ExecutorEvents& events);
  // Handles starts whose pause is over, and servers that have ended.
  void work(TimePoint now);
  // When work() is due again if nothing happens.
  TimePoint next_due() const;

 private:
  engines::LinkContext context_;
  engines::Remotes& remotes_;
  worker::EndedWorkers ended_;
  engines::LinkList<CommandLink> links_;
};

}  // namespace tangram::serve
