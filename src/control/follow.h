// What happens to the plans of a controller in a running system: they are put in force, proposed or only mentioned, and
// a bad one is taken back.
//
// A state machine without a clock or a thread. The system tells it what happened; it answers what to do. Whoever drives
// it puts a Move in force, gives the controller the standing of it, and calls on_moved when the devices are cut.
//
//   watching -- a plan, mode act --> moving --> guarding -- all is well --> watching
//      |                               ^            |
//      |-- a plan, mode ask --> proposed            '-- worse than before --> moving back --> held
//
// In `held` nothing is done without a person, unless a device is lost: the plan came back once, and the reason is not
// known here. `paused` was asked for, and holds after a loss, too.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "control/controller.h"
#include "control/move_guard.h"

namespace tangram::control {

enum class FollowMode : std::uint8_t { act, advise, ask };
std::string_view to_string(FollowMode mode);
std::optional<FollowMode> parse_follow_mode(std::string_view text);

enum class FollowState : std::uint8_t { watching, moving, guarding, proposed, paused, held };
inline constexpr std::array<std::string_view, 6> kFollowStates{"watching", "moving", "guarding",
                                                               "proposed", "paused", "held"};
std::string_view to_string(FollowState state);

// A part of every day in which nothing moves unless a device is lost; may pass midnight, as 22:00 to 06:00 does.
struct FreezeWindow {
  Duration from{};  // Since midnight, UTC.
  Duration until{};
};
// "22:00-06:00". Nothing: not of that form.
std::optional<FreezeWindow> parse_freeze(std::string_view text);

struct FollowOptions {
  FollowMode mode = FollowMode::act;
  MoveGuard::Options guard;
  int moves_max = 20;  // In `moves_in`; 0: no limit.
  Duration moves_in = std::chrono::hours(1);
  std::vector<FreezeWindow> freezes;
  Duration day_at_zero{};  // Time zero, since midnight, UTC.
};

// A plan with what the controller must take for the running one while it is in force.
//
// A plan for hundreds of services takes a millisecond to copy and as long to free, and several threads have it at once:
// the one that made it, the one that serves, the one that saves it. So they share what never changes.
struct RunningPlan {
  std::shared_ptr<const sched::Deployment> deployment;
  std::shared_ptr<const Standing> standing = std::make_shared<const Standing>();
  PlanStep step;
};
RunningPlan make_running_plan(sched::Deployment deployment, Standing standing, PlanStep step);

// What to put in force.
struct FollowMove {
  RunningPlan plan;
  bool undo = false;  // It is the plan before.
};

class Follow {
 public:
  // `running` is the plan at the start.
  Follow(const FollowOptions& options, const std::vector<Service>& services, RunningPlan running);

  // What was before a restart.
  struct Past {
    std::uint64_t moves = 0;
    std::uint64_t moves_undone = 0;
    bool paused = false;
    bool held = false;
    std::string last_reason;
    std::optional<RunningPlan> previous;  // What the last move can be taken back to.
    std::vector<Duration> moves_ago;      // How long before time zero the moves of the last hour began.
  };
  void set_past(Past past);

  // ---- What happened ----

  // Counts of a look. Answers the way back if the guard says that the last move made a service worse.
  std::optional<FollowMove> on_observed(const Observation& seen);
  // The controller made a plan; answers it if it is to be put in force now. `urgent`: a device is lost, so that the
  // limit of moves does not count.
  std::optional<FollowMove> on_planned(RunningPlan planned, TimePoint now, bool urgent = false);
  // The move that was answered last has begun, or could not.
  void on_begun(const FollowMove& move, TimePoint now);
  void on_failed(const FollowMove& move, const std::string& reason);
  // The move that was answered or begun last is to a plan for other services, by ServiceId. There is no way back from
  // it, because the plan before does not have them.
  void on_services_changed(const std::vector<Service>& services);
  // It has ended: every device is cut.
  void on_moved(TimePoint now);
  // The plan before needs a device that is lost: there is no way back to it, neither for the guard nor for people.
  void on_way_back_lost();
  // Slices are down without a move. What is missed meanwhile is no fault of the plan.
  void on_slices_down() { guard_.end(); }

  // ---- What people want ----

  // Whether a plan may be asked for now. Errors: paused or held.
  Result<Nothing> may_ask() const;
  Result<Nothing> pause();
  Result<Nothing> resume();
  Result<FollowMove> approve();
  Result<FollowMove> undo();

  // ---- How things stand ----

  // True if the controller should plan: nothing moves, and nobody has to decide first. Cheap.
  bool wants_plans(TimePoint now) const;
  FollowMode mode() const { return options_.mode; }
  bool paused() const { return paused_; }
  bool held() const { return held_; }
  FollowState state() const;
  const RunningPlan& running() const { return running_; }
  const std::optional<RunningPlan>& previous() const { return previous_; }
  // How long ago the moves that the pace counts began.
  std::vector<Duration> recent_moves(TimePoint now) const;
  const std::optional<RunningPlan>& proposal() const { return proposal_; }
  // The standing that the controller must have: that of the running plan.
  const Standing& standing() const { return *running_.standing; }
  std::uint64_t moves() const { return moves_; }
  std::uint64_t moves_undone() const { return moves_undone_; }
  // In a sentence: why the running plan is in force, or why nothing is done.
  const std::string& last_reason() const { return last_reason_; }

 private:
  bool frozen(TimePoint now) const;
  // True if one move more is allowed at `now`.
  bool pace_allows(TimePoint now) const;

  FollowOptions options_;
  MoveGuard guard_;
  RunningPlan running_;
  std::optional<RunningPlan> previous_;  // What a move can be taken back to.
  std::optional<RunningPlan> proposal_;
  std::deque<TimePoint> recent_;  // When the moves within `moves_in` began.
  bool moving_ = false;
  bool undoing_ = false;  // The move that goes on is one back.
  bool changes_ = true;  // It loads, cuts or gives back something; otherwise it only changes limits and is not counted.
  bool paused_ = false;
  bool held_ = false;
  std::uint64_t moves_ = 0;
  std::uint64_t moves_undone_ = 0;
  std::string last_reason_ = "the start";
};

}  // namespace tangram::control
