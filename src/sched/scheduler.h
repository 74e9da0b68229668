// The brain: admission, queues, bucketed batching, dispatch, moving between plans.
//
// A state machine. Events enter by the functions of Scheduler, one at a time; actions leave through World. It holds no
// thread and reads no clock, so the same code runs a simulated cluster and a real one, and a recording replays byte for
// byte.
//
// The parts call each other in one direction only, from left to right:
//
//   Scheduler -> Move
//             -> Dispatcher -> BackgroundRunner -> BatchRunner -> Resolver -> World
//             all of them  -> State (SliceTable, lanes, store, corrections)
//
// No part calls to the left and the World does not call the scheduler from within its functions, so each event is
// handled to its end before the next one. Three events call another event, as its last or only act: on_returned is
// on_restarted, lend_idle is lend, and on_wake calls on_slice_lost for every slice that it finds stuck. Between events
// the invariants at the top of sched/state.h hold, and the World has been asked for the next wake that is needed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sched/background_runner.h"
#include "sched/batch_runner.h"
#include "sched/deployment.h"
#include "sched/dispatcher.h"
#include "sched/plan_move.h"
#include "sched/policy.h"
#include "sched/resolver.h"
#include "sched/state.h"
#include "sched/world.h"

namespace tangram::sched {

struct SchedulerConfig {
  std::string policy = "tangram";
  PolicyConfig policy_config;
  bool admission = true;                           // Reject a request on arrival if no slice can serve it in time.
  std::size_t requests_max = kRequestsMaxDefault;  // Waiting and running together.
  int retries_max = 1;                             // Further runs of a request whose batch failed.
  double correction_weight = 0.1;  // Share of the newest measurement in a prediction's correction; 0: off.
  double stuck_factor = 10;        // A batch this many times slower than its predicted p99 is stuck, ...
  Duration stuck_min = std::chrono::seconds(2);  // ... but never before this.
  int reshapes_max = 3;                          // Attempts to re-cut a device before it is given up.
  int devices_cut_max = 1;  // Devices under way at once in a move, of those that only gain or only lose slices.
};

// The answer to World::launch.
struct BatchDone {
  SliceId slice;
  BatchId batch;
  bool ok = true;
  // With `ok` false: the server behind the slice rejected the batch (HTTP 429), and another run would not help. Its
  // members are rejected.
  bool rejected_upstream = false;
};

class Scheduler {
 public:
  // `world` outlives the scheduler.
  Scheduler(World& world, Deployment deployment, SchedulerConfig config);
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // ---- Requests ----

  // A request arrives; its id is new, and its `queue` need not be set. When this returns, the request either
  //   - has been rejected: World::resolve was called with the reason, and with the earliest possible answer if only
  //     time was missing;
  //   - waits, in the order of priority, then deadline, then arrival among requests like it; or
  //   - runs: World::launch was called with it.
  // In the last two cases exactly one World::resolve follows in a later event: served or late when its batch ends;
  // rejected if its deadline passes, no slice is left for it, a new plan has no bucket for its size, a remote server
  // rejects its batch, or, in the background, the World is about to end; failed if its runs fail more than
  // retries_max times or it could not end in time when run again.
  // With `admission`, an online request is only admitted if it may end in time by the predictions, or if waiting
  // requests that matter less give way to it; these go back to the shared queues and may be rejected in turn. A
  // background request (see sched/background.h) is admitted whatever its deadline. The scheduler keeps a copy.
  // Costs: the pools of the service, times the logarithm of their slices.
  void on_arrival(const Request& arrived);
  // A batch ended. Its members are resolved, or wait or run again if it failed and they may; the slice gets its next
  // batch if there is one. An answer to a batch that was given up changes nothing.
  void on_batch_done(const BatchDone& done);
  // The time that the scheduler asked for by World::wake_at has come: held batches start, hanging slices are given up,
  // requests whose deadline is over are rejected.
  void on_wake();
  // The World is about to end: background requests are rejected from now on, as are those that wait. Running batches
  // and online requests are served.
  void on_ending();

  // ---- Slices ----

  // A slice stopped working and its batch is lost. World::restart was called when this returns, unless the slice is
  // not in service; members of its batch and requests bound to it wait elsewhere, run, or are resolved.
  void on_slice_lost(SliceId slice);
  // The answer to World::restart. The slice serves again, or is asked to restart once more, or is gone if the plan in
  // force does not have it.
  void on_restarted(SliceId slice, bool ok);
  // Lends the slice of the pool that has been idle longest to training, and returns it; nothing if none is idle.
  std::optional<SliceId> lend_idle(PoolId pool);
  // The same for one slice; false, and nothing happens, unless it is idle and stays. World::lend was called if true.
  bool lend(SliceId slice);
  // Asks for a lent slice back, once; nothing happens if it is not lent. on_returned answers.
  void recall(SliceId slice);
  // A recalled slice is back, empty: it serves again.
  void on_returned(SliceId slice);

  // A correction of run times that was remembered from an earlier run. False: there is no such place.
  bool on_correction(const CorrectionPlace& place, std::int64_t factor_ppb, std::int64_t spread_ppb);

  // ---- Plans ----

  // A new plan for the same services, by their ids, and perhaps further ones. One that the plan has no replica of
  // (it was removed) loses its slices, and its waiting requests are rejected. Slices that stay as they are keep
  // running; the others drain, their devices are re-cut one by one, and requests are served by the slices that are
  // there. Devices keep their order; one plan moves at a time: requires !moving().
  void on_plan_ready(Deployment next);
  // The answer to World::reshape. New slices serve at once; a device that failed `reshapes_max` times is given up.
  void on_reshaped(DeviceId device, bool ok);

  // ---- How things stand ----

  const State& state() const { return state_; }
  std::size_t waiting_count() const { return state_.waiting_count; }
  // Waiting and running.
  std::size_t outstanding_count() const { return state_.store.used(); }
  bool moving() const { return move_.has_value(); }
  // Requests of `service` that wait in the background, and what keeps them. See sched/background.h.
  BackgroundOutlook background_outlook(ServiceId service) const;
  std::uint64_t batches_started() const { return runner_.batches_started(); }
  // As in sched/admission.h.
  bool could_be_in_time(const Request& asked) const;

 private:
  // Every event begins with this: state_.now does not change until the next one.
  void begin() { state_.now = world_.now(); }
  // Every event ends with this: asks the World for the next wake that is needed, if that has changed.
  void finish();
  // Decides about an online arrival. True: it is admitted, and `*bucket` is its bucket. False: it has been rejected.
  bool admit(const Request& request, std::uint32_t* bucket);
  // The predicted run of the largest sample of the service, on the slowest kind of slice that takes it.
  Duration longest_run(const DeployedService& service) const;
  // The batch of these requests failed or was lost; they are in no queue. Each waits, runs or has failed afterwards.
  // `alone`: its engine refused the batch, so each shares no further one.
  void run_again(const std::vector<Waiting*>& requests, bool alone);
  // The batch of a slice has failed; if it was to load its model, the model is not loaded.
  void forget_failed_load(SliceId id);
  // Whether a request whose batch failed has attempts left and may end in time. While all slices that take it are away,
  // its deadline decides.
  bool may_run_again(const Waiting& waiting) const;
  // Does what the move needs next until it has to wait. Nothing if there is none.
  void advance_move();
  // The slices that leave with this step serve no more; requests bound to them are placed elsewhere.
  void drain(const MoveStep& step);
  // The buckets of `next`, which is not in force yet, for the batches that run and their members.
  void translate_running(const Deployment& next);
  // Places requests that are in no queue but counted as waiting under the plan in force, in the order of arrival;
  // rejects those that are too large for it.
  void place_again(std::vector<Waiting*> requests);

  World& world_;
  SchedulerConfig config_;
  State state_;
  View view_;
  Resolver resolver_;
  BatchRunner runner_;
  BackgroundRunner background_;
  Dispatcher dispatcher_;
  std::optional<Move> move_;         // A plan that is being put in place.
  TimePoint watch_at_ = kTimeNever;  // When to look for stuck slices; never while none is busy.
  TimePoint wake_asked_ = kTimeNever;
};

}  // namespace tangram::sched
