// Follows the traffic of a live server: observes, has plans made beside the loop, and moves to them.
//
// Three parts. This class counts what arrives and ends, on the thread of the world, and every look (ten seconds) hands
// the counts to a thread of its own, where control::Controller forecasts and plans: that takes seconds, and must not
// delay a request. A plan comes back to the world as a control call; control::Follow then decides whether it is put in
// force, proposed, or only mentioned.
//
// One plan is under way at a time: while the world has not answered the last one, the planning thread waits, and the
// looks of that time add up to one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "control/capacity_watch.h"
#include "control/controller.h"
#include "control/fleet_use.h"
#include "control/follow.h"
#include "host/log.h"
#include "host/mutex.h"
#include "serve/call.h"
#include "serve/follow_command.h"
#include "serve/gpu_watch.h"
#include "serve/inbox.h"
#include "serve/saved_following.h"

namespace tangram::serve {

// What operators see of it.
struct FollowReport {
  std::string mode;
  std::string state;
  int plan_devices = 0;  // With a replica, by the plan in force.
  double device_hours = 0;
  double slice_hours = 0;
  std::uint64_t moves = 0;
  std::uint64_t moves_undone = 0;
  bool moving = false;
  std::string last_reason;
  std::uint64_t plans_refused = 0;  // The fleet could not carry what was wanted.
  std::string refusal;              // Why, the last time.
  std::vector<std::string> lost;    // Devices that are planned around.
  struct Short {
    std::string service;
    double needed_per_s = 0;
    double lowest_per_s = 0;
    double lasted_s = 0;
  };
  std::vector<Short> shorts;  // Services that fell short of what is needed in the last move.
  control::FleetCost cost;    // And device-hours by type.
  std::string state_problem;  // Why what a restart needs could not be kept; empty: it is, or nothing is to be.
  struct Proposal {
    int devices = 0;
    std::vector<std::string> reasons;
  };
  std::optional<Proposal> proposal;
};

class Follower final : public ControlOwner {
 public:
  struct Setup {
    control::Controller controller;
    control::RunningPlan first;  // The plan that is served at the start.
    control::FollowOptions options;
    std::vector<Service> services;
    // A device of which a slice does not come back within this time is lost. It is tried again after the pause.
    Duration lost_after = std::chrono::seconds(15);
    Duration lost_pause = std::chrono::minutes(10);
    bool emulated = false;                              // Devices may be lost and restored by command.
    Fleet fleet = {};                                   // Whose devices the plans use.
    std::optional<SavedFollowing> past = {};            // Of the run before; its plan is `first`, ...
    std::optional<control::RunningPlan> previous = {};  // ... and this is what its last move can be taken back to.
    SavedWriter::Write save = {};  // Keeps what a next run needs, on a thread of its own. Empty: nothing is kept.
    // What the descriptions of services say to expect of them at this time, for those that a reload brings. Any thread.
    std::function<std::vector<control::ServiceDemand>(const Workload&)> describe = {};
    // A plan comes into force, for these services by ServiceId. The thread of the world, and once in the constructor.
    std::function<void(const control::RunningPlan&, const std::vector<Service>&)> in_force = {};
  };
  // Moves the world to another plan. Errors: it cannot, and nothing has changed.
  using PutInForce = std::function<Result<Nothing>(LiveWorld&, const sched::Deployment&)>;

  // `inbox` and `log` outlive it.
  Follower(Setup setup, Inbox& inbox, host::LogWriter& log, PutInForce put_in_force);
  ~Follower() override;

  // ---- The thread of the world ----

  // A request has arrived, or ended. Background requests do not count: they use what is left.
  void arrived(const Call& call);
  void ended(const Call& call, const Outcome& outcome);
  // Posts the look that is due at `now`. Call it before LiveWorld::step().
  void work(LiveWorld& world, TimePoint now);
  TimePoint next_due() const { return look_posted_ ? next_watch_ : std::min(next_look_, next_watch_); }
  // Answers into `call`: the report, or why it cannot be done.
  void command(LiveWorld& world, FollowCommand command, const std::string& device, ControlCall& call);
  FollowReport report(const LiveWorld& world) const EXCLUDES(mutex_);
  // Why the plan is put in force that PutInForce is called with, as a sentence.
  const std::string& reason() const { return move_reason_; }
  // A device is broken, or works again: it is planned around at once, or used again. Inside step().
  void on_device_news(LiveWorld& world, const DeviceNews& news);
  // Puts the plan of prepare() in force. Errors: it cannot be; nothing has changed then.
  Result<Nothing> put_prepared_in_force(LiveWorld& world, const sched::Roster& roster) EXCLUDES(mutex_);

  // ---- The thread of a reload ----

  // Has a plan made for other services, and waits for it. Errors: the fleet cannot carry them, or the server ends.
  // After a success nothing else is planned until put_prepared_in_force().
  Result<Nothing> prepare(const sched::Roster& roster) EXCLUDES(mutex_);
  // Any thread. From now on prepare() answers at once that the server ends.
  void stop_preparing() EXCLUDES(mutex_);

  void on_controlled(ControlCall* call) override;

 private:
  struct Preparation {
    sched::Roster roster;
    std::vector<std::optional<control::ServiceDemand>> demand;  // Of those that are new or described otherwise.
  };
  // What the planning thread has to do, and what came of it.
  struct Mail {
    std::optional<control::Observation> seen;  // Not looked at yet; several looks add up.
    bool now = false;                          // Plan in any case.
    std::shared_ptr<const control::Standing> standing;
    std::optional<std::set<std::string>> lost;  // Devices that cannot be used, if that has changed.
    TimePoint lost_at;                          // When `lost` changed.
    std::optional<Preparation> preparation;     // Services to plan for instead of those that are known, ...
    std::optional<Result<Nothing>> prepared;    // ... and what came of it.
    bool abandoned = false;                     // The prepared plan was not put in force.
    bool awaits_world = false;                  // A plan was posted or prepared and is not answered yet.
    bool ending = false;                        // See stop_preparing().
    bool stopping = false;
    std::uint64_t plans_refused = 0;
    std::string refusal;
    std::vector<control::ServiceWatch::Memory> memory;  // Of the controller, after its last look.
  };

  // A look, inside step(): counts go to the guard and to the planning thread.
  void look(LiveWorld& world);
  // The plan of the planning thread, inside step().
  void take_plan(LiveWorld& world);
  Result<Nothing> begin(LiveWorld& world, const control::FollowMove& move) EXCLUDES(mutex_);
  // What was counted since the last time, which starts again.
  control::Observation take_observation(const LiveWorld& world);
  // Devices of which a slice is not ready, or of which the plan in force wants slices and there are none.
  std::set<std::string> devices_down(const LiveWorld& world) const;
  // Devices that are lost, or back; the planning thread is told of a change.
  void watch_devices(LiveWorld& world) EXCLUDES(mutex_);
  // Hands what a next run needs to the writer.
  void save(const LiveWorld& world) EXCLUDES(mutex_);
  SavedFollowing saved(const LiveWorld& world) const EXCLUDES(mutex_);
  // What is worse after a loss is so for the loss: the guard must not return to a plan that needs the lost device.
  void forget_lost_way_back();
  // Whether a lost device may be used again.
  bool may_return(const LiveWorld& world, const std::string& device, TimePoint lost_at) const;
  // A move that has ended is reported to `follow_`.
  void notice_end_of_move(const LiveWorld& world);
  // The last plan of the planning thread is answered. It goes on from the plan that runs, whichever that is.
  void answer_planner() EXCLUDES(mutex_);
  void send(const control::Observation& seen, bool now) EXCLUDES(mutex_);
  // The body of the planning thread.
  void plan() EXCLUDES(mutex_);
  // Plans for other services; the planning thread.
  void plan_for(Preparation preparation) EXCLUDES(mutex_);
  // Hands a plan that was made to planned_; the planning thread, or that of a reload while the other one waits.
  void keep(control::NewPlan made);
  // Frees the plans that nobody but the planning thread has any more.
  void free_unused();
  // Takes the names and limits of the services over.
  void set_services(const sched::Roster& roster);
  // Calls in_force_ for the plan that runs.
  void tell_in_force() const;

  Inbox& inbox_;
  host::LogWriter& log_;
  PutInForce put_in_force_;
  std::string move_reason_;
  std::vector<Service> services_;       // By id; filled only where in_force_ wants them.
  std::vector<std::string> names_;      // Of the services.
  std::vector<std::int64_t> size_max_;  // Their largest inputs.
  Fleet fleet_;
  std::vector<std::string> devices_;     // Of the fleet; empty: there is no limit to them.
  std::vector<std::size_t> served_;      // Ids of the services that are not removed.
  std::unique_ptr<SavedWriter> writer_;  // Null: nothing is kept.
  control::Follow follow_;
  Duration lost_after_;
  Duration lost_pause_;
  bool emulated_;
  std::map<std::string, TimePoint> down_since_;  // Devices of which a slice is not ready, by name.
  std::map<std::string, TimePoint> lost_;        // When they were given up.
  std::map<std::string, bool> broken_;  // Devices that the driver gave up, by name: until it says that they work.
  bool retell_lost_ = false;  // The plan around a lost device may have been vetoed: the planner is told again.
  control::FleetHours hours_;
  control::CapacityWatch capacity_;  // Of the move that goes on, or of the last one.
  control::Observation since_;       // Counts since the last look.
  Duration look_every_;
  TimePoint next_look_;
  TimePoint next_watch_;     // Of the devices.
  TimePoint next_capacity_;  // While a plan moves.
  bool look_posted_ = false;
  bool moving_ = true;  // As of the last work(); at the start, so that the first use is noted.
  ControlCall look_call_;
  ControlCall plan_call_;
  double took_s_ = 0;                            // How long it took to make planned_.
  bool urgent_ = false;                          // Of planned_: a device was lost.
  std::optional<control::RunningPlan> planned_;  // Of plan_call_, from its posting until it is answered.

  mutable host::Mutex mutex_;
  host::CondVar changed_;
  Mail mail_ GUARDED_BY(mutex_);
  // Every plan that may still be used somewhere, the planning thread's: freeing one takes about a millisecond, which
  // must not pass on the thread of the world.
  std::vector<control::RunningPlan> kept_;
  control::Controller controller_;             // The planning thread's, once it runs.
  std::optional<control::Controller> before_;  // ... and what it was before prepare(), until that is settled.
  std::function<std::vector<control::ServiceDemand>(const Workload&)> describe_;
  std::function<void(const control::RunningPlan&, const std::vector<Service>&)> in_force_;
  sched::Roster roster_;  // Of the last prepare() that was settled; the thread of a reload.
  std::thread thread_;
};

}  // namespace tangram::serve
