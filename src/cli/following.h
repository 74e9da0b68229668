// What `tangram serve --follow` needs beyond a server: a fleet to plan for, a first plan, and a controller.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/plan_inputs.h"
#include "cli/program.h"
#include "control/recut_clock.h"
#include "host/log.h"
#include "host/state_store.h"
#include "lab/certify.h"
#include "recut/live_gpus.h"
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
  double lost_after_s = 15;
  int moves_per_hour = control::FollowOptions{}.moves_max;
  std::vector<std::string> freezes;
  std::string state;  // A folder; empty: nothing is remembered.
  bool standby = false;
  std::string objective = "devices";
  std::string rule = "certified";
  std::string sharing = "none";
  recut::GpuChoices gpus;  // Of --gpu.

  bool wanted() const { return !fleet.empty(); }
};

void add_following_options(Program& program, Arguments& verb, FollowingOptions& options);
// Errors: options that contradict each other.
Result<Nothing> check_following_options(const FollowingOptions& options);
// Errors: a service has no rate to plan for.
Result<Nothing> check_traffic(const Workload& workload);
// How long emulated cuts take; nothing unless they are wanted.
Result<std::optional<control::RecutClock>> emulated_cuts(const FollowingOptions& options);

// What the planning thread uses. Outlives the server.
struct Following {
  std::shared_ptr<const LatencyModel> latency;
  std::unique_ptr<lab::SimulatedCertifier> certifier;
  std::unique_ptr<host::StateStore> store;        // Null: nothing is remembered.
  std::unique_ptr<serve::Follower::Setup> setup;  // The server takes it.
  std::string state_not_used;     // Why the plan of the state folder is not; empty: it is, or there is none.
  recut::GpuChoices unreachable;  // Devices of the fleet whose GPU does not answer: the first plan is made around them.
  std::string infeasible;         // Why there is no first plan; then there is no setup. Empty: there is one.
};

// Opens the state folder; with --standby it waits until the server that uses it has ended. Null: there is no --state.
// Errors: another server uses it, it cannot be used, or the wait was interrupted.
Result<std::unique_ptr<host::StateStore>> open_state(Session& session, const FollowingOptions& options);
// Plans for the start, or goes on with the plan of `store`, which may be null. That the fleet is too small is an
// answer. Errors: a file is wrong, or a service has no rate to plan for.
Result<Following> start_following(const FollowingOptions& options, const Workload& workload,
                                  std::shared_ptr<const LatencyModel> latency, std::unique_ptr<host::StateStore> store);
// Cuts the GPUs of this machine for the first plan, and returns the GPU of every device of the fleet: those of --gpu,
// and for the others one of their type each. Errors: there are too few GPUs, or they could not be cut.
Result<recut::GpuChoices> cut_for_start(const FollowingOptions& options, const Following& following);
// Has the server keep its state in the folder, if there is one. `log` outlives the server.
void keep_state(Following& following, host::LogWriter& log);

}  // namespace tangram::cli
