// Processes of ours: started, killed, reaped.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"

namespace tangram::worker {

// The program that workers are, beside the one that runs; empty if it is not there.
std::string find_worker_program();

struct StartedWorker {
  pid_t process = -1;
  int socket = -1;  // Ours; the worker has the other end at kWorkerSocket.
};

// Starts `program --serve` in a process group of its own, so that a Ctrl-C for the gateway does not reach it, with
// `environment` added to ours, in place of what has the same name. It has no other descriptor than the socket, standard
// output and standard error. Errors: the kernel says no.
Result<StartedWorker> start_worker(const std::string& program, const std::vector<std::string>& environment = {});

// Children that have ended or are about to, until the kernel has said so.
class Reaper {
 public:
  // Kills the process and waits for it, a little later. Killing one that has ended does nothing.
  void kill_and_reap(pid_t process);
  // Asks the kernel about those that are left, without waiting.
  void work();
  bool empty() const { return processes_.empty(); }
  // Waits for all of them.
  ~Reaper();

 private:
  std::vector<pid_t> processes_;
};

}  // namespace tangram::worker
