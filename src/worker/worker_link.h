// The gateway's end of its workers: one process a slice, started, fed, watched and replaced.
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
#include "host/event_loop.h"
#include "host/log.h"
#include "worker/shared_memory.h"
#include "worker/worker_process.h"
#include "worker/worker_protocol.h"

namespace tangram::worker {

// A worker is started at once when it is first lost, then after pauses that double, until it has run a batch.
struct WorkerPatience {
  Duration pause_min = std::chrono::milliseconds(100);
  Duration pause_max = std::chrono::seconds(10);
  Duration start = std::chrono::minutes(5);        // To load and warm up.
  Duration ping_every = std::chrono::seconds(1);   // While it is idle. How long a batch may take is the scheduler's
  Duration ping_answer = std::chrono::seconds(2);  // to judge: it knows what to expect.
};

struct WorkerConfig {
  std::string program;  // As find_worker_program() says.
  std::string title;    // The slice, for logs: "host-0/2c@0".
  WorkerSpec spec;
  double quota_cores = 0;  // Of processor time, by a control group; 0: no limit.
  std::vector<std::string> environment;
  WorkerPatience patience;
};

class WorkerLink;

// All workers of a gateway.
class Workers {
 public:
  // All outlive it.
  Workers(host::EventLoop& loop, const host::LiveClock& clock, host::LogWriter& log) : loop_(loop), clock_(clock), log_(log) {}
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // The executor of a slice. Its process is started by the first restart(). It goes before this does.
  std::unique_ptr<engines::Executor> make(SliceId slice, WorkerConfig config, engines::ExecutorEvents& events);
  // Starts whose pause is over, pings that are due, children that have ended.
  void work(TimePoint now);
  // When work() is due again if nothing happens.
  TimePoint next_due() const;

  // The reason of the first worker that could not load, once all hope is gone: a worker of the first start that never
  // was ready said that its models cannot be loaded. Empty: none.
  const std::string& hopeless() const { return hopeless_; }
  // From now on workers that cannot load are tried again and again: others serve meanwhile.
  void end_first_start() { first_start_ = false; }

 private:
  friend class WorkerLink;

  host::EventLoop& loop_;
  const host::LiveClock& clock_;
  host::LogWriter& log_;
  // Of links that have gone: a group can be removed only when its processes have been reaped.
  std::vector<std::unique_ptr<adapters::CoreQuota>> quotas_going_;
  Reaper reaper_;  // Goes before them, and waits.
  TimePoint reap_at_ = kTimeNever;
  std::vector<WorkerLink*> links_;
  std::string hopeless_;
  bool first_start_ = true;
};

}  // namespace tangram::worker
