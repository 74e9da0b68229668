// Cuts the GPUs of this machine while the server runs, on a thread of its own: one device after the other, in the order
// of asking. One change of cuts at a time has the lock and the checkpoint of a machine; the models of a device that is
// cut load while the next one is cut.
//
// Each cut is one recut::Change, as `tangram apply` makes: the lock, the checkpoint before the first step, slices that
// are right left alone, and slices that a process still uses waited for. A cut that fails or takes too long stops
// between two steps; the next one, forward or back, starts from what there is.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "core/ids.h"
#include "core/plan.h"
#include "host/log.h"
#include "host/mutex.h"
#include "recut/live_gpus.h"
#include "serve/gpu_watch.h"
#include "serve/inbox.h"

namespace tangram::serve {

struct GpuCutOptions {
  recut::GpuChoices choices;                    // The GPU of every device of the fleet, by name.
  std::map<std::string, Layout> reserved = {};  // Slices that others use, by device: none of them is ever cut.
  std::string directory;                        // Of checkpoint and lock; see recut::state_directory().
  double wait_s = 30;  // For processes that still use a slice that must go, and for each cut as a whole.
  // Called after a cut with the device as it is then, on the thread of the cut: finds the new MIG devices. May be
  // empty.
  std::function<Result<Nothing>(const Plan& device)> after;
};

// Cuts the GPUs of `plan` to its layouts and waits for the end. `label` is named in the checkpoint. Errors: it was not
// done, wholly.
Result<Nothing> cut_gpus(const Plan& plan, const GpuCutOptions& options, const std::string& label);

// `goal` with the slices that others use, marked: they stay also on a device that a plan gives up.
PlannedDevice keep_reserved(PlannedDevice goal, const Layout& reserved);

class GpuCuts {
 public:
  // All outlive it. `watch` is suspended during each cut; null: nobody watches.
  GpuCuts(GpuCutOptions options, Inbox& inbox, host::LogWriter& log, GpuWatch* watch)
      : options_(std::move(options)), inbox_(inbox), log_(log), watch_(watch) {}
  ~GpuCuts() { join(); }

  // Has a device cut to the layout of `goal`, which has no replicas. Inbox::on_cut answers.
  void begin(DeviceId device, PlannedDevice goal) EXCLUDES(mutex_);

 private:
  struct Task {
    DeviceId device;
    PlannedDevice goal;
  };

  // The body of the thread: ends when nothing is left to cut.
  void work() EXCLUDES(mutex_);
  Result<Nothing> cut(const PlannedDevice& goal);
  void join() EXCLUDES(mutex_);

  GpuCutOptions options_;
  Inbox& inbox_;
  host::LogWriter& log_;
  GpuWatch* watch_;
  host::Mutex mutex_;
  std::deque<Task> tasks_ GUARDED_BY(mutex_);
  bool working_ GUARDED_BY(mutex_) = false;  // The thread looks at tasks_ again before it ends.
  std::thread thread_;
};

}  // namespace tangram::serve
