// The gateway's end of its workers: one process for each slice, which is started, fed, watched and replaced.
//
// Everything here happens on the thread that drives the event loop and the world.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "adapters/cpu_host/core_share.h"
#include "engines/executor.h"
#include "engines/executor_links.h"
#include "worker/worker_process.h"
#include "worker/worker_protocol.h"

namespace tangram::worker {

// A worker that is lost is restarted at once, then after pauses that double, until it has run a batch.
struct WorkerPatience {
  Duration pause_min = std::chrono::milliseconds(100);
  Duration pause_max = std::chrono::seconds(10);
  Duration start = std::chrono::minutes(5);  // To load and warm up.
  // While it is idle. How long a batch may take is the scheduler's to judge: it knows what to expect. A worker that
  // starts is looked at as often, and given up if it is stopped (SIGSTOP) for as long.
  Duration ping_every = std::chrono::seconds(1);
  Duration ping_answer = std::chrono::seconds(2);
  // To a request to stop the batch that runs, where the engine can; then the worker is killed.
  Duration stop = std::chrono::milliseconds(150);
};

struct WorkerConfig {
  std::string program;  // As find_worker_program() says.
  std::string title;    // The slice, for logs: "host-0/2c@0".
  WorkerSpec spec;
  double quota_cores = 0;  // Of processor time, by a control group; 0: no limit.
  std::vector<std::string> environment;
  std::optional<WorkerUser> user;  // Whom it becomes; nothing: it stays who we are.
  WorkerPatience patience;
};

class WorkerLink;

// Cleans up after workers whose links have released them: reaps their processes and removes their core quotas.
class EndedWorkers {
 public:
  // Kills the process. It is reaped now if it has ended, otherwise by work().
  void end(pid_t process, TimePoint now);
  // Removes the quota's control group once all processes are reaped: before, the kernel would refuse.
  void remove_later(std::unique_ptr<adapters::CoreQuota> quota) { quotas_.push_back(std::move(quota)); }
  void work(TimePoint now);
  // When work() is due; kTimeNever if no process is left.
  TimePoint next_due() const { return due_; }

 private:
  std::vector<std::unique_ptr<adapters::CoreQuota>> quotas_;
  Reaper reaper_;  // Destroyed before the quotas, and waits for the processes.
  TimePoint due_ = kTimeNever;
};

// Whether the gateway's first workers can load their models at all.
struct FirstStart {
  bool under_way = true;
  std::string unrecoverable = {};  // "SLICE: REASON" of the first worker that could not; empty: none.
};

// All workers of a gateway.
class Workers {
 public:
  // All outlive it.
  Workers(host::EventLoop& loop, const host::LiveClock& clock, host::LogWriter& log) : context_{loop, clock, log} {}

  // The executor of a slice. Its process is started by the first restart(). It is destroyed before this is.
  std::unique_ptr<engines::Executor> make(SliceId slice, WorkerConfig config, engines::ExecutorEvents& events);
  // Handles starts whose pause is over, pings that are due and children that have ended.
  void work(TimePoint now);
  // When work() is due again if nothing happens.
  TimePoint next_due() const;

  // Why the gateway cannot start: a worker of the first start that was never ready reported that its models cannot be
  // loaded. The first such reason; empty if there is none.
  const std::string& unrecoverable() const { return first_start_.unrecoverable; }
  // From now on, workers that cannot load are tried again and again, because others serve meanwhile.
  void end_first_start() { first_start_.under_way = false; }

 private:
  engines::LinkContext context_;
  EndedWorkers ended_;
  FirstStart first_start_;
  engines::LinkList<WorkerLink> links_;
};

}  // namespace tangram::worker
