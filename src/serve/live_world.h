// The World in real time: calls in, batches on slices, answers out.
//
// It owns the scheduler and one executor per slice. Calls and executor reports arrive through the Inbox from any
// thread; everything else happens in step(), on one thread, one event at a time: completions first, then arrivals, then
// wake-ups. It reads no clock: whoever drives it passes the time.
//
// Invariants, whenever no handler runs:
//  - A call that has arrived and is not answered is either in the call table (the scheduler knows it) or held.
//  - A slice is busy exactly while the scheduler waits for the batch that it holds.
//  - restarting_ counts the restarts that the scheduler has asked for and that are not answered yet.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engines/executor.h"
#include "sched/lending.h"
#include "sched/recorded_scheduler.h"
#include "sched/scheduler.h"
#include "serve/call.h"
#include "serve/call_table.h"
#include "serve/device_warmup.h"
#include "serve/event_queue.h"
#include "serve/held_calls.h"
#include "serve/inbox.h"
#include "serve/ledger.h"
#include "serve/slice_runs.h"
#include "serve/slice_speeds.h"

namespace tangram::serve {

struct LiveWorldConfig {
  sched::SchedulerConfig scheduler;
  sched::RecordingSink recording;  // Empty: none is made.
  sched::Watcher* watcher = nullptr;  // Null: none. Outlives the world.
  std::int64_t wall_start_ms = 0;  // The wall clock at time zero, for statistics: milliseconds since 1970.
  // Makes the executor of one slice, when the slice is first used.
  SliceRuns::MakeExecutor make_executor;
  // Makes the executor of a slice that has left serve as another slice, which has the same cut and other models. False:
  // it cannot. May be empty.
  std::function<bool(SliceId, const sched::Place&, engines::Executor&)> change_executor;
  // How long the cutting of a device is to take before its slices start, for fleets that are only emulated. Empty: no
  // time.
  std::function<Duration(const sched::DeployedDevice& before, const Layout& target)> recut_time;
  // Begins to cut a device for real; Inbox::on_cut answers. Empty: nothing has to be cut.
  std::function<void(DeviceId, const sched::DeployedDevice& before, const Layout& target)> cut;
  // Hands an idle slice to training, and asks for it back; Inbox::on_returned answers the second. Empty: there is no
  // training, and a lent slice is back as soon as it is asked for.
  std::function<void(SliceId)> lend;
  std::function<void(SliceId)> recall;
  // Called for each call that arrives and may be served. May be empty.
  std::function<void(const Call&)> on_arrived;
  // Called for each call that ends, before its owner is.
  std::function<void(const Call&, const Outcome&, TimePoint now)> on_resolved;
  // Called for each call that was held and ended before the scheduler saw it, before on_resolved. May be empty.
  std::function<void(const Request&, const Outcome&, TimePoint now)> on_unseen;
  // Called for each call that is answered without the scheduler, before its owner is. May be empty.
  std::function<void(const Call&)> on_refused;
  // Called for each batch that a slice has answered, except those that had to load their model: their time is not that
  // of a run. May be empty.
  std::function<void(SliceId, const ServedModel&, std::int32_t samples, std::int64_t size, Duration took)> on_batch;
  // Called when the batches of a slice begin to take much longer than planned, or no longer do. May be empty.
  std::function<void(SliceId, const ServedModel&, double real_over_planned, bool slow)> on_speed;
  // Called for each batch that its engine could not run. May be empty.
  std::function<void(SliceId, const ServedModel&, std::size_t requests, const std::string& reason)> on_failure;
};

// The class has over 40 methods: eight implement World, a dozen answer questions about the state in one line, and each
// kind of event has a handler. They stay together because they share the invariants above; whatever can be decided
// without the whole state is in the parts (Inbox, CallTable, HeldCalls, SliceRuns, Ledger).
class LiveWorld final : private sched::World {
 public:
  // `models` outlive it.
  LiveWorld(sched::Deployment deployment, const std::vector<ServedModel>& models, LiveWorldConfig config);
  ~LiveWorld() override;

  // Where calls are posted, from any thread.
  Inbox& inbox() { return inbox_; }

  // One thread from here on.
  //
  // Makes the executors of all slices, and starts those that are not ready. Before the first step().
  void open_slices();
  // Takes corrections of run times that were remembered from an earlier run, where the plan has a place for them.
  // Before the first step().
  void recall(const std::vector<sched::CorrectionMemory>& corrections);
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
  const Ledger& ledger() const { return ledger_; }
  const SliceSpeeds& speeds() const { return speeds_; }
  // The process of a slice's worker; 0: there is none.
  std::int64_t process_of(SliceId slice) const { return runs_.process_of(slice); }
  std::size_t in_flight() const { return calls_.count() + held_.count(); }
  void set_loaded(ServiceId service, bool loaded) { loaded_[service.index()] = loaded; }
  // Why the service cannot be used now; empty if it can.
  std::string why_not_ready(ServiceId service) const;
  // There are more models than before: they are known from now on, and served by the next plan.
  void take_models();
  // Requests of the service that are neither answered nor refused.
  std::size_t in_flight(ServiceId service) const { return in_flight_by_[service.index()]; }
  // Moves to another plan, for all services that are known, by their ids. Requests that are here are served meanwhile.
  Result<Nothing> change_plan(const sched::Deployment& next);
  // What decides which slices inference lends. It may be used inside step() only, until the next plan. Null: `plan` is
  // not the one in force. Requires that no plan moves.
  std::unique_ptr<sched::Lending> make_lending(const sched::LendingConfig& config, const sched::LendingPlan& plan);
  // Stops taking work: queued background requests are rejected, everything else in flight is served.
  void begin_drain() { recorded_->on_ending(); }
  std::uint64_t plans_applied() const { return plans_applied_; }
  // For rehearsals: the device is dead from now on, with all that runs on it, or it works again. Its slices cannot be
  // restarted and it cannot be cut while it is dead.
  void set_dead(const std::string& device, bool dead);
  bool is_dead(const std::string& device) const { return dead_.contains(device); }

 private:
  // World. Called by the scheduler, inside step().
  TimePoint now() const override { return now_; }
  void wake_at(TimePoint when) override { wake_at_ = when; }
  void launch(const sched::Batch& batch) override;
  void stop(SliceId slice, bool must) override;
  void restart(SliceId slice) override;
  void reshape(DeviceId device, const Layout& target) override;
  void lend(SliceId slice) override;
  void recall(SliceId slice) override;
  void resolve(const Request& request, const Outcome& outcome, const sched::Batch* batch) override;

  // Takes what was posted: reports become events of now, calls are kept in `posted_` for this step.
  void take_inbox();
  // Passes one event to the scheduler. Requires that it is due.
  void handle(const WorldEvent& event);
  // A batch has ended. Its members are answered by the scheduler, or run again; ignores a batch that was given up.
  enum class BatchEnd : std::uint8_t { done, failed, stopped };
  void complete(SliceId slice, BatchId batch, BatchEnd how);
  // A slice has stopped working.
  void lost(SliceId slice);
  // The answer to restart(), or to the start of a slice of the device that is being re-cut.
  void restarted(SliceId slice, bool ok);
  bool is_dead(DeviceId device) const {
    return !dead_.empty() && dead_.contains(scheduler().state().deployment.devices[device.index()].name);
  }
  // A device is cut: its new slices start.
  void start_slices(DeviceId device);
  // The slices of a device are ready, except those that failed to start or were lost since; these are reported as lost.
  void reshaped(DeviceId device);
  // Releases the executors of slices of the device that are gone and that `target` does not have: they must have ended
  // before it is cut.
  void close_slices_to_cut(DeviceId device, const Layout& target);
  // Releases the executors of slices that the plan no longer has, except of devices on which slices are still to come:
  // one of these may take the executor over.
  void close_gone_slices(DeviceId device);
  // Of the device of a slice. Null: it is not cut, or its slices do not start yet.
  DeviceWarmup* warmup_of(SliceId slice);
  // All slices of the device have answered, and the scheduler is told with the next event.
  void finish_warmup(DeviceId device);
  // Lets a new slice go on with the executor of a slice that left the same cut, if the executor can change its models.
  // True: it will be ready when on_restarted says so.
  bool take_over(SliceId slice);
  // A call arrives: it is answered with a problem, held, or admitted.
  void arrive(Call* call);
  // The caller of a call has gone: it is dropped, unless it was answered before.
  void arrive(Inbox::Abandoned gone);
  // Does the work of a control call and gives it back.
  void arrive(ControlCall* call);
  // Tells the scheduler the weight of the call's tenant, where that has changed.
  void note_tenant(const Call& call);
  // Hands the call to the scheduler, which resolves it at once or later.
  void admit(Call* call);
  // True if no slice serves the call now, but one will soon.
  bool must_wait(const Call& call) const;
  // Keeps the call until slices come back, at most until its deadline.
  void hold(Call* call);
  // Admits the held calls that a slice can serve now.
  void release_held();
  // Rejects the held calls whose deadline has passed.
  void refuse_held();
  // Answers a call that the scheduler never sees.
  void answer_problem(Call* call, CallStatus status, std::string message);
  // Ends a call that was held: the scheduler has never seen it.
  void end_held(Call* call, const Outcome& outcome);
  // The last step of every call that the scheduler or a deadline ended: explains, counts, reports, and returns it to
  // its owner.
  void end(Call* call, const Request& request, const Outcome& outcome);
  // The slice with its executor, which is made at the first use.
  SliceRun& run_of(SliceId slice);
  // The latency of the Slo of the call's service, by the plan in force.
  Duration promise_to(const Call& call) const;

  const std::vector<ServedModel>& models_;
  LiveWorldConfig config_;
  Inbox inbox_;
  Inbox::Contents posted_;  // Taken from the inbox, and handled before the step ends.
  Ledger ledger_;
  SliceSpeeds speeds_;
  SliceRuns runs_;
  std::unique_ptr<sched::RecordedScheduler> recorded_;
  TimePoint now_;
  TimePoint wake_at_ = kTimeNever;
  EventQueue events_;
  CallTable calls_;
  HeldCalls held_;
  std::map<DeviceId, DeviceWarmup> warmups_;  // Of devices that are cut, until their slices join.
  std::size_t restarting_ = 0;
  std::vector<SliceId> starting_;          // Of the first plan, and not ready yet.
  std::vector<bool> loaded_;               // By service.
  std::vector<std::size_t> in_flight_by_;  // By service: requests that are held or in the call table.
  std::uint64_t plans_applied_ = 0;
  std::set<std::string> dead_;             // Names of devices; see set_dead().
  std::vector<std::int64_t> weights_ppm_;  // By tenant, as the scheduler knows them; 0: it has not been told.
};

}  // namespace tangram::serve
