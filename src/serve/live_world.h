// The World in real time: calls in, batches on slices, answers out.
//
// It owns the scheduler and one executor a slice. Calls and completions may be posted from any thread; everything else
// happens in step(), on one thread, one event at a time, in the order of the house: completions, then arrivals, then
// wakes. It reads no clock: whoever drives it says what time it is.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "engines/executor.h"
#include "sched/recorded_scheduler.h"
#include "sched/scheduler.h"
#include "serve/call.h"
#include "serve/tally.h"

namespace tangram::serve {

// Calls in the gateway at one time; one more is refused.
inline constexpr std::size_t kCallsMax = std::size_t{1} << 20;

struct LiveWorldConfig {
  sched::SchedulerConfig scheduler;
  sched::RecordingSink recording;  // Empty: none is made.
  std::int64_t wall_start_ms = 0;  // The wall clock at time zero, for statistics: milliseconds since 1970.
  // Makes the executor of one slice, when the slice is first used.
  std::function<std::unique_ptr<engines::Executor>(SliceId, const sched::Place&, engines::ExecutorEvents&)>
      make_executor;
  // Told of every call that ends, before its owner is.
  std::function<void(const Call&, const Outcome&, TimePoint now)> on_resolved;
  // Told of every call that is answered without the scheduler, before its owner is. May be empty.
  std::function<void(const Call&)> on_refused;
  // Told of every batch that a slice has answered. May be empty.
  std::function<void(SliceId, const ServedModel&, std::int32_t samples, std::int64_t size, Duration took)> on_batch;
  // Told of every batch whose engine answered that it cannot be run. May be empty.
  std::function<void(SliceId, const ServedModel&, std::size_t requests, const std::string& reason)> on_failure;
};

// The services of a deployment as clients see them. `engine` is what they are told runs the models.
std::vector<ServedModel> served_models(const sched::Deployment& deployment, const Workload& workload,
                                       const std::string& engine);
// What clients and workers know of services does not change while they are served. Errors: a service of `next` has
// another model, other tensors, or another priority or size of its own than the one of the same name and place.
Result<Nothing> check_served_alike(const Workload& served, const Workload& next);

class LiveWorld final : private sched::World, public engines::ExecutorEvents {
 public:
  // `models` outlive it.
  LiveWorld(sched::Deployment deployment, const std::vector<ServedModel>& models, LiveWorldConfig config);
  ~LiveWorld() override;

  // Any thread. The waker is called when something was posted to an empty inbox; set it before the first post. Who
  // posts without waking calls wake_for_posted() afterwards, or is the one that steps next.
  void set_waker(std::function<void()> waker) { waker_ = std::move(waker); }
  void post(Call* call, bool wake = true);
  void wake_for_posted();
  void on_done(SliceId slice, BatchId batch, std::string failure) override;
  void on_lost(SliceId slice, std::string reason) override;
  void on_restarted(SliceId slice, bool ok) override;
  void on_turned_away(SliceId slice, Duration retry_after) override;

  // One thread from here on.
  //
  // Makes the executors of all slices, and starts those that are not ready. Before the first step().
  void open_slices();
  // Slices of the first plan that have not been ready yet.
  std::size_t slices_starting() const { return starting_.size(); }
  // Handles everything that is due at `now`, which never goes back.
  void step(TimePoint now);
  // When step() is due again if nothing is posted.
  TimePoint next_due() const;

  // For control calls, which run inside step().
  TimePoint time() const { return now_; }
  const sched::Scheduler& scheduler() const { return recorded_->scheduler(); }
  const std::vector<ServedModel>& models() const { return models_; }
  const std::vector<ServiceTally>& service_tallies() const { return services_; }
  const std::vector<SliceServed>& slice_tallies() const { return slices_; }
  // The process of a slice's worker; 0: there is none.
  std::int64_t process_of(SliceId slice) const;
  std::size_t in_flight() const { return calls_used_ + held_.size(); }
  bool loaded(ServiceId service) const { return loaded_[service.index()]; }
  void set_loaded(ServiceId service, bool loaded) { loaded_[service.index()] = loaded; }
  // Why the service cannot be used now; empty if it can.
  std::string why_not_ready(ServiceId service) const;
  // Moves to another plan for the same services, in the same order. Requests that are here are served meanwhile.
  Result<Nothing> change_plan(const sched::Deployment& next);
  // No more comes but what is under way: what waits in the background is refused.
  void begin_drain() { recorded_->on_ending(); }
  std::uint64_t plans_applied() const { return plans_applied_; }

 private:
  // What runs on a slice.
  struct Run {
    BatchId batch;
    bool busy = false;
    std::int64_t size = 1;
    TimePoint started;
    std::vector<Call*> members;
    std::unique_ptr<engines::Executor> executor;
    engines::BatchMemory* memory = nullptr;
    std::string failure;     // Why the last batch was not answered.
    Duration turned_away{};  // As of a call.
  };
  enum class EventKind : std::uint8_t { done, failed, lost, restarted, not_restarted, reshaped, returned };
  // Of executors, from any thread or with a time of its own.
  struct Event {
    TimePoint when;
    std::uint64_t sequence = 0;
    EventKind kind = EventKind::done;
    std::uint32_t index = 0;  // Slice or device.
    std::uint64_t batch = 0;
    bool operator>(const Event& other) const {
      return when != other.when ? when > other.when : sequence > other.sequence;
    }
  };

  // World.
  TimePoint now() const override { return now_; }
  void wake_at(TimePoint when) override { wake_at_ = when; }
  void launch(const sched::Batch& batch) override;
  void restart(SliceId slice) override;
  void reshape(DeviceId device, const Layout& target) override;
  void lend(SliceId) override {}
  void recall(SliceId slice) override;
  void resolve(const Request& request, const Outcome& outcome, const sched::Batch* batch) override;

  void take_inbox();
  void post_event(EventKind kind, SliceId slice, std::uint64_t batch, std::string reason = {});
  void schedule(TimePoint when, EventKind kind, std::uint32_t index, std::uint64_t batch);
  void handle(const Event& event);
  void complete(SliceId slice, BatchId batch, bool ok);
  void fail_members(Run& run, const std::string& reason);
  void restarted(SliceId slice, bool ok);
  void finish_reshape();
  void reshaped(DeviceId device);
  void let_go();
  void arrive(Call* call);
  void admit(Call* call);
  bool must_wait(const Call& call) const;
  bool restarts(sched::PoolId pool) const;
  TimePoint deadline_of(const Call& call) const;
  void hold(Call* call);
  void release_held();
  void refuse_held();
  void answer_problem(Call* call, CallStatus status, std::string message);
  void fill(const Run& run, const sched::Batch& batch, const ServedModel& model);
  void collect(const Run& run);
  Run& run_of(SliceId slice);
  void count(const Call& call, const Request& request, const Outcome& outcome, bool answered);
  bool could_be_in_time(const Call& call, Request request) const;
  void explain(Call& call, const Request& request, const Outcome& outcome) const;

  const std::vector<ServedModel>& models_;
  LiveWorldConfig config_;
  std::unique_ptr<sched::RecordedScheduler> recorded_;
  TimePoint now_;
  TimePoint wake_at_ = kTimeNever;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t sequence_ = 0;
  std::vector<Run> runs_;
  std::vector<Call*> arrivals_;  // Taken from the inbox, in order.
  std::size_t arrivals_at_ = 0;

  // Requests are known by a number that counts up, whose lowest bits say where the call is.
  std::vector<Call*> calls_;
  std::vector<std::uint32_t> calls_free_;
  std::size_t calls_used_ = 0;
  std::vector<Call*> held_;          // Came while the slices for them were being changed or started again.
  TimePoint held_due_ = kTimeNever;  // When the first of them is too late.
  std::size_t restarting_ = 0;       // Slices that the scheduler asked for and that are not back.
  std::uint64_t requests_ = 0;

  std::vector<bool> loaded_;
  std::vector<ServiceTally> services_;
  std::vector<SliceServed> slices_;
  std::uint64_t plans_applied_ = 0;
  std::vector<SliceId> starting_;
  // The device that is being re-cut, its slices that are not ready yet, and those that did not get ready.
  std::optional<DeviceId> reshaping_;
  std::vector<SliceId> warming_;
  std::vector<SliceId> warming_failed_;

  std::mutex inbox_mutex_;
  std::vector<Call*> inbox_calls_;
  std::vector<Event> inbox_events_;
  std::vector<std::pair<SliceId, std::string>> inbox_failures_;  // Why slices failed, before their events are handled.
  std::vector<std::pair<SliceId, Duration>> inbox_turned_away_;  // The same of those who found no room.
  std::function<void()> waker_;
};

}  // namespace tangram::serve
