// Starts, kills and reaps worker processes.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "worker/confine.h"

namespace tangram::worker {

// The path of the worker program, beside the running program; empty if it does not exist.
std::string find_worker_program();

struct StartedWorker {
  pid_t process = -1;
  int socket = -1;  // Ours; the worker has the other end at kWorkerSocket.
};

// Starts `program --serve` in a process group of its own, so that a Ctrl-C for the gateway does not reach it.
// `environment` is added to ours and replaces variables of the same name. The worker has no descriptors but the socket,
// standard output and standard error. Errors: the kernel refuses.
// Starts a program in a process group of its own, whose number is that of the process. `arguments` ends with null. It
// has our standard output and error and nothing else of ours, and `environment` added to ours.
Result<pid_t> spawn_in_group(const std::string& program, char* const* arguments,
                             const std::vector<std::string>& environment);

// Of our environment the worker gets what worker_may_have() allows (worker/confine.h); it confines itself before it
// reads anything. `user`: whom it becomes; nothing: it stays who we are.
Result<StartedWorker> start_worker(const std::string& program, const std::vector<std::string>& environment = {},
                                   const std::optional<WorkerUser>& user = std::nullopt);

// How a child of ours whose socket has closed came to its end: "it was ended by signal 11 (SEGV)", "it exited with code
// 3". Waits a few milliseconds at most, because the kernel closes the socket just before it tells; "it exited" if it
// has not by then. The child is still to be reaped.
std::string how_it_ended(pid_t process);

// Whether a signal such as SIGSTOP has stopped the process, which is a child of ours. A debugger that holds it does not
// count.
bool is_stopped(pid_t process);

// Children that have ended or are about to end, until they are reaped.
class Reaper {
 public:
  // Kills the process and reaps it, now or in work(). Killing a process that has ended does nothing.
  void kill_and_reap(pid_t process);
  // Reaps those that have ended, without waiting.
  void work();
  bool empty() const { return processes_.empty(); }
  // Waits for all of them.
  ~Reaper();

 private:
  std::vector<pid_t> processes_;
};

}  // namespace tangram::worker
