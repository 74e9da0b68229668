// Sees what the recorder sees, as values: the events of a scheduler and its actions. It changes nothing.
//
// Simulation, serving and replay tell a watcher the same, so that what is built from it (control/fleet_history.h) is
// the same for live, simulated and recorded time.
#pragma once

#include "base/time.h"
#include "core/ids.h"
#include "core/request.h"
#include "sched/deployment.h"
#include "sched/world.h"

namespace tangram::sched {

class Scheduler;
struct BatchDone;

class Watcher {
 public:
  virtual ~Watcher() = default;

  // ---- Events. Each is told before the scheduler handles it ----

  // Before any of the events below, with the scheduler as the event before has left it. Times do not go back.
  virtual void on_event(const Scheduler& scheduler, TimePoint now) = 0;
  virtual void on_arrival(const Request& request) = 0;
  virtual void on_batch_done(const BatchDone& done) = 0;
  virtual void on_slice_lost(SliceId slice) = 0;
  virtual void on_restarted(SliceId slice, bool ok) = 0;
  virtual void on_reshaped(DeviceId device, bool ok) = 0;
  virtual void on_plan_ready(const Deployment& next) = 0;
  virtual void on_returned(SliceId slice) = 0;

  // ---- Actions ----

  virtual void launched(const Batch& batch) = 0;
  // These two may come between two events: whoever lends asks the scheduler directly.
  virtual void lent(SliceId slice, TimePoint now) = 0;
  virtual void recalled(SliceId slice, TimePoint now) = 0;
  // `batch` as in World::resolve.
  virtual void resolved(const Request& request, const Outcome& outcome, const Batch* batch) = 0;
};

}  // namespace tangram::sched
