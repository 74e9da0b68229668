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
    bool emulated = false;                    // Devices may be lost and restored by command.
    std::vector<std::string> devices = {};    // All of the fleet; empty: there is no limit to them.
    std::optional<SavedFollowing> past = {};  // Of the run before; its plan is `first`.
    SavedWriter::Write save = {};  // Keeps what a next run needs, on a thread of its own. Empty: nothing is kept.
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
  // A device is broken, or works again: it is planned around at once, or used again. Inside step().
  void on_device_news(LiveWorld& world, const DeviceNews& news);

  void on_controlled(ControlCall* call) override;

 private:
  // What the planning thread has to do, and what came of it.
  struct Mail {
    std::optional<control::Observation> seen;  // Not looked at yet; several looks add up.
    bool now = false;                          // Plan in any case.
    std::optional<control::Standing> standing;
    std::optional<std::set<std::string>> lost;  // Devices that cannot be used, if that has changed.
    TimePoint lost_at;                          // When `lost` changed.
    bool awaits_world = false;                  // A plan was posted and is not answered yet.
    bool stopping = false;
    std::uint64_t plans_refused = 0;
    std::string refusal;
  };

  // A look, inside step(): counts go to the guard and to the planning thread.
  void look(LiveWorld& world);
  // The plan of the planning thread, inside step().
  void take_plan(LiveWorld& world);
  void begin(LiveWorld& world, const control::FollowMove& move) EXCLUDES(mutex_);
  // What was counted since the last time, which starts again.
  control::Observation take_observation(const LiveWorld& world);
  // Devices of which a slice is not ready, or of which the plan in force wants slices and there are none.
  std::set<std::string> devices_down(const LiveWorld& world) const;
  // Devices that are lost, or back; the planning thread is told of a change.
  void watch_devices(LiveWorld& world) EXCLUDES(mutex_);
  // Hands what a next run needs to the writer.
  void save(const LiveWorld& world);
  // Whether a lost device may be used again.
  bool may_return(const LiveWorld& world, const std::string& device, TimePoint lost_at) const;
  // A move that has ended is reported to `follow_`.
  void notice_end_of_move(const LiveWorld& world);
  // The last plan of the planning thread is answered. It goes on from the plan that runs, whichever that is.
  void answer_planner() EXCLUDES(mutex_);
  void send(const control::Observation& seen, bool now) EXCLUDES(mutex_);
  // The body of the planning thread.
  void plan() EXCLUDES(mutex_);

  Inbox& inbox_;
  host::LogWriter& log_;
  PutInForce put_in_force_;
  std::vector<std::string> names_;       // Of the services.
  std::vector<std::int64_t> size_max_;   // Their largest inputs.
  std::vector<std::string> devices_;     // Of the fleet; empty: there is no limit to them.
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
  control::Observation since_;  // Counts since the last look.
  Duration look_every_;
  TimePoint next_look_;
  TimePoint next_watch_;  // Of the devices.
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
  control::Controller controller_;  // The planning thread's, once it runs.
  std::thread thread_;
};

}  // namespace tangram::serve
