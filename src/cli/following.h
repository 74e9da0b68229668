// What `tangram serve --follow` needs beyond a server: a fleet to plan for, a first plan, and a controller.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/plan_inputs.h"
#include "cli/program.h"
#include "control/recut_clock.h"
#include "lab/certify.h"
#include "serve/follower.h"

namespace tangram::cli {

struct FollowingOptions {
  std::string fleet;  // Empty: the server does not follow.
  std::string mode = "act";
  std::string cuts = "none";
  std::string recut_times;
  double load_s = to_seconds(plan::TransitionOptions{}.load_default);
  double speed = 1;
  std::optional<double> begin_s;
  double interval_s = to_seconds(control::ControllerOptions{}.interval);
  double guard_s = to_seconds(control::MoveGuard::Options{}.watch);
  int moves_per_hour = control::FollowOptions{}.moves_max;
  std::string rule = "certified";
  std::string sharing = "none";

  bool wanted() const { return !fleet.empty(); }
};

void add_following_options(Program& program, Arguments& verb, FollowingOptions& options);
// Errors: options that only make sense with --follow, without it.
Result<Nothing> check_following_options(const FollowingOptions& options);
// How long emulated cuts take; nothing unless they are wanted.
Result<std::optional<control::RecutClock>> emulated_cuts(const FollowingOptions& options);

// What the planning thread uses. Outlives the server.
struct Following {
  std::shared_ptr<const LatencyModel> latency;
  std::unique_ptr<lab::SimulatedCertifier> certifier;
  std::unique_ptr<serve::Follower::Setup> setup;  // The server takes it.
};

// Plans for the start. Errors: a file is wrong, a service has no rate to plan for, or the fleet is too small.
Result<Following> start_following(const FollowingOptions& options, const Workload& workload,
                                  std::shared_ptr<const LatencyModel> latency);

}  // namespace tangram::cli
