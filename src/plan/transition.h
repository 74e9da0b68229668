// How to move from one plan to another while requests are served.
//
// Slices and replicas that both plans have are never touched. The rest is changed in an order in which no service
// falls below the capacity that it needs, if there is such an order: new slices are cut and loaded first where there
// is room, and a replica is drained only while the others can carry its share. Where that is not possible, temporary
// copies of replicas run on spare room. If a service must fall below its floor, the transition reports it, with the
// step.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plan/difference.h"
#include "plan/live_fleet.h"

namespace tangram::plan {

// How long it takes to cut one device, by the number of slices that are made or taken away in one go. The defaults are
// medians of 300 runs on each of 18 layouts of an A100 (the measurements published with the thesis on gpuless), rounded
// to milliseconds.
struct RecutTimes {
  std::vector<double> create_ms{52,  104, 107, 114,
                                122, 125, 132};  // At index slices - 1; more take as long as the last.
  std::vector<double> destroy_ms{120, 159, 158, 161, 165, 163, 164};

  Duration create(std::size_t slices) const;
  Duration destroy(std::size_t slices) const;
};

// How long a model takes to load onto a slice.
using LoadTime = std::function<Duration(const PlannedDevice&, const PlannedSlice&, const Replica&)>;

struct TransitionOptions {
  DifferenceOptions match;
  Capacity capacity;                     // Unset: the compute slices of the slice, shared by what runs on it.
  std::map<std::string, double> demand;  // Requests a second that a service needs. Not named: see floors below.
  RecutTimes recut;
  LoadTime load;                             // Unset: `load_default` for each.
  Duration load_default = from_seconds(10);  // An assumption: no loading times are published.
  Duration drain = from_seconds(1);          // An assumption, too: the longest that a batch runs.
  bool temporaries = true;                   // Replicas may be copied to spare room for a while.
  std::vector<PlannedDevice> spares;         // Devices that neither plan uses and that may help out. No slices on them.
  std::size_t states_max = 20'000;           // States that the exact search for an order looks at.
};

struct Transition {
  Difference difference;
  std::map<std::string, double> capacity_before;  // By service.
  std::map<std::string, double> capacity_after;
  // What no service may fall below: its demand, but no more than both plans give it.
  std::map<std::string, double> floors;
  // Services with a demand that one of the plans does not carry: their floor is below what they need.
  std::vector<std::string> underserved;
  std::vector<Step> steps;
  std::optional<std::size_t> first_below;  // The first step after which a service is below its floor.
  // With first_below: every order was tried, and without more room none avoids it.
  bool exhaustive = false;
  int temporaries = 0;  // Replicas that were copied to spare room.
  int phases = 0;
  Duration takes{};  // With the steps of each phase at once.
};

// Errors are those of diff, and a name that both a spare and a plan use. The same arguments give the same steps.
Result<Transition> transition(const Plan& before, const Plan& after, const TransitionOptions& options = {});

// The way back to `before` once the first `done` steps are done: their inverses, the last first, with times and
// capacities. `done` <= steps.size().
std::vector<Step> rollback(const Plan& before, const Transition& transition, std::size_t done,
                           const TransitionOptions& options = {});

// The fleet on which the steps run: the devices of `before`, those that are new, and the spares.
LiveFleet fleet_for(const Plan& before, const Difference& difference, const TransitionOptions& options);

}  // namespace tangram::plan
