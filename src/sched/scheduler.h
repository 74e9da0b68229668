// The brain: admission, queues, bucketed batching, dispatch.
//
// A state machine. Events enter by the on_ functions, one at a time; actions leave through World. It holds no thread
// and reads no clock, so the same code runs a simulated cluster and a real one, and a recording replays byte for byte.
#pragma once

#include <cstdint>
#include <memory>
#include <queue>
#include <string>
#include <vector>

#include "sched/deployment.h"
#include "sched/policy.h"
#include "sched/state.h"
#include "sched/world.h"

namespace tangram::sched {

class Background;
struct BackgroundOutlook;

struct SchedulerConfig {
  std::string policy = "tangram";
  PolicyConfig policy_config;
  bool admission = true;                           // Refuse at once what no slice can serve in time.
  std::size_t requests_max = kRequestsMaxDefault;  // Waiting and running together.
  int retries_max = 1;                             // Further runs of a request whose batch failed.
  double correction_weight = 0.1;  // Share of the newest measurement in a prediction's correction; 0: off.
  double stuck_factor = 10;        // A batch this many times slower than its predicted p99 is stuck, ...
  Duration stuck_min = std::chrono::seconds(2);  // ... but never before this.
  int reshapes_max = 3;                          // Attempts to re-cut a device before it is given up.
};

// The answer to World::launch.
struct BatchDone {
  SliceId slice;
  BatchId batch;
  bool ok = true;
  // With `ok` false: nobody had room for it, which is nothing that another run would mend. Its members are refused.
  bool turned_away = false;
};

class Scheduler {
 public:
  // `world` outlives the scheduler.
  Scheduler(World& world, Deployment deployment, SchedulerConfig config);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Events.
  void on_arrival(const Request& request);
  void on_batch_done(const BatchDone& done);
  void on_wake();
  // A slice stopped working and its batch is lost; the scheduler asks for a restart.
  void on_slice_lost(SliceId slice);
  void on_restarted(SliceId slice, bool ok);
  void on_reshaped(DeviceId device, bool ok);
  // A new plan for the same services. Slices that stay as they are keep running; the others drain, their devices are
  // re-cut one by one, and what waits is served by whatever is left and whatever comes. Devices keep their order; one
  // plan moves at a time.
  void on_plan_ready(Deployment next);
  // Training wants or returns a slice. `lend_idle` answers the slice that was lent, of those that have been
  // idle longest, or nothing.
  std::optional<SliceId> lend_idle(PoolId pool);
  // The same for one slice; false, and nothing happens, unless it is idle and stays.
  bool lend(SliceId slice);
  void recall(SliceId slice);
  void on_returned(SliceId slice);
  // The World is about to end: what may wait is refused from now on, as is what waits in the background. What runs and
  // what is online is served.
  void on_ending();

  // How things stand.
  const State& state() const { return state_; }
  std::size_t waiting_count() const { return waiting_; }
  std::size_t outstanding_count() const { return state_.store.used(); }
  bool moving() const { return move_ != nullptr; }
  // Requests of `service` that wait in the background, and what keeps them. See sched/background.h.
  BackgroundOutlook background_outlook(ServiceId service) const;
  std::uint64_t batches_started() const { return batches_; }
  // False for a request whose time is shorter than its run on the fastest slice of the plan, were that idle: no load
  // and no wait change that. True where no slice takes it, which is another matter.
  bool could_be_in_time(const Request& request) const;

 private:
  struct Move;  // A plan that is being put in place.

  void begin() { state_.now = world_.now(); }
  void finish();
  bool admit(const Request& request, std::uint32_t* bucket);
  void refuse(const Request& request, RejectReason reason, TimePoint earliest);
  void note_refused(const Request& request, RejectReason reason);
  RejectReason why_never(const Request& request, std::uint32_t bucket) const;
  TimePoint earliest_finish(const Request& request, std::uint32_t bucket) const;
  bool may_end_in_time(const Request& request, std::uint32_t bucket) const;
  bool has_slice_within(const PoolState& slices, Duration wait_max) const;
  void place(Waiting* waiting);
  void place_or_refuse(Waiting* waiting);
  void place_bound(Waiting* waiting, const Binding& binding);
  void place_shared(Waiting* waiting);
  bool unbind(const Displacement& way, std::vector<Waiting*>* displaced);
  void unbind(SliceId slice, Waiting* waiting);
  void recount_batch(SliceState& slice, Waiting* first);
  void serve_lane(LaneId lane);
  void feed(SliceId slice);
  bool apply(const Choice& choice, LaneId asked_for);
  void start(const Choice& choice);
  void start_bound(SliceId slice);
  void take_bound(SliceId from, std::uint32_t take, SliceId to);
  void steal(const Choice& choice);
  void launch(SliceId slice, ServiceId service, std::uint32_t bucket, std::int32_t samples);
  std::vector<const Request*> release(SliceId slice, bool ok);
  bool may_run_again(const Waiting& waiting) const;
  void put_back(const std::vector<const Request*>& requests, bool alone);
  void turn_away(const std::vector<const Request*>& requests);
  void set_free_at(SliceId slice, TimePoint when);
  void hold(LaneId lane, TimePoint until);
  void watch_for_stuck();
  void watch_deadline(const Waiting& waiting);
  void refuse_expired();
  void expire(Waiting* waiting);
  void unbind_all(SliceId slice);
  template <typename Visit>
  void each_waiting(Visit&& visit);
  void bind_waiting();
  void reconsider_waiting();
  void rebuild_lanes(Deployment next);
  void advance_move();
  void retire(SliceId slice);
  void arrive_in_background(const Request& request);
  void place_in_background(Waiting* waiting);
  void run_in_background(SliceId slice);
  std::int32_t fill_up(SliceState& slice, std::uint32_t bucket, std::int32_t samples);
  void look_after_background();
  void refuse_in_background(const std::vector<Waiting*>& waiting, RejectReason reason);

  World& world_;
  SchedulerConfig config_;
  std::unique_ptr<Policy> policy_;
  bool policy_binds_;
  bool policy_gives_up_;
  State state_;
  View view_;
  std::uint64_t batches_ = 0;
  std::size_t waiting_ = 0;
  std::size_t running_ = 0;  // Slices with a batch.

  struct Hold {
    TimePoint when;
    LaneId lane;
    bool operator>(const Hold& other) const { return when != other.when ? when > other.when : lane > other.lane; }
  };
  std::priority_queue<Hold, std::vector<Hold>, std::greater<>> holds_;
  TimePoint watch_at_ = kTimeNever;
  TimePoint expire_at_ = kTimeNever;  // Not after the first deadline of what waits, where the policy gives up.
  TimePoint wake_asked_ = kTimeNever;
  std::unique_ptr<Move> move_;
  bool ending_ = false;
  std::unique_ptr<Background> background_;  // Since the first request that runs in the background.
};

}  // namespace tangram::sched
