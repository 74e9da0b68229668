// What a planner is given, and what it answers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/fleet.h"
#include "core/latency_model.h"
#include "core/plan.h"
#include "core/workload.h"
#include "plan/cover.h"

namespace tangram::plan {

// When a slice counts as fast enough for a bucket.
enum class Rule {
  half,        // The run takes less than 0.9 of half the Slo: the other half is for waiting. ParvaGPU's rule.
  certified,   // The run fits into the Slo, and a simulation with the real scheduler shows that waiting does too.
  no_waiting,  // The run takes less than the Slo, as if nothing ever waited. A bound, not a plan to serve.
};
std::string_view to_string(Rule rule);
std::optional<Rule> parse_rule(std::string_view name);

enum class Objective {
  devices,   // The fewest devices.
  price,     // The lowest price an hour.
  headroom,  // On a fleet of fixed size, the largest factor by which all rates may grow.
};
std::string_view to_string(Objective objective);
std::optional<Objective> parse_objective(std::string_view name);

// How input sizes are put into buckets.
enum class Bucketing {
  chosen,   // Edges that cost least for the sizes that arrive.
  longest,  // One bucket: everything is padded to the longest input.
  fixed,    // The edges of `edges`.
};

// Which services a plan may put on the same slices.
enum class Sharing {
  none,   // None: each has slices of its own.
  model,  // Services of one model.
  all,    // Any that allow it.
};
std::string_view to_string(Sharing sharing);
std::optional<Sharing> parse_sharing(std::string_view name);

struct PlanOptions {
  Rule rule = Rule::certified;
  Objective objective = Objective::devices;
  int processes_max = 1;  // How many processes may share a slice for one replica.
  Bucketing bucketing = Bucketing::chosen;
  std::vector<std::int64_t> edges;  // Ascending; the longest input is added where they end below it.
  int buckets_max = 6;
  std::vector<std::int64_t> batches;  // Batch sizes to consider, ascending; empty: powers of two up to 256.
  // Batches are as large as their own promise permits. Otherwise they are kept to what gathers while a request can
  // wait, and on shared slices to what leaves the neighbours half of their time. Close to full load more gathers.
  bool full_batches = false;
  // Services that run the same copy of a network share batches only where their promises are equal. Otherwise also
  // where they are alike; the batches of all are then as short as the strictest needs.
  bool promises_apart = false;
  double demand_factor = 1;  // All rates are multiplied by it.
  // Share of a slice's memory that runs leave free: allocators fragment, and the peak of another day may be higher.
  // Looked at where the peak of a run and the memory of the slice are known.
  double memory_headroom = 0.08;
  Sharing sharing = Sharing::none;
};

// Replicas of one service on slices of their own.
struct ReplicaGroup {
  std::string device_type;
  std::string mig_profile;
  int compute_slices = 0;
  Replica replica;
  int count = 1;
};

// Equal slices that several services share: each of them holds all of `replicas`.
struct SharedGroup {
  std::string device_type;
  std::string mig_profile;
  int compute_slices = 0;
  std::vector<Replica> replicas;
  int count = 1;
};

// What is known of a promise on certain slices.
struct Verdict {
  bool holds = false;
  double attainment = 0;      // Share of requests in time, in the view that has the least room.
  double attainment_low = 0;  // The ends of its interval: the share lies below the low end with a probability of 5 % at
  double attainment_high = 0;  // most, after allowing for everything that was tried.
  Duration latency{};          // At the Slo's percentile, in the long run.
  std::string view = {};       // "long run", "busiest hour" or "busiest window"; "every window" if these do not hold.
  double horizon_s = 0;        // Simulated time that was counted.
  double cycles = 0;           // Burst cycles, periods, passes of a trace or independent runs in it.
  double noise = 0;            // Spread of run times that was simulated.
  bool too_close = false;      // The promise lies within the interval: nothing was decided, so it does not hold.
  // Where requests are lost most: "a burst", "the busiest minutes"; empty where the rate does not vary.
  std::string busiest = {};
  double busiest_attainment = 1;
  // Of the windows of Slo::window_s at the busiest time, the share that keeps the percentile. Nothing: no window is
  // promised, or none was simulated by itself.
  std::optional<double> windows_kept = {};
};

// Whether replicas keep a service's promise, by whatever means: the simulator, for one. `confirm` asks again with
// other random numbers and at greater length, for the answer that a plan goes out with.
//
// An answer is a function of the question: content_key(service), the groups and `confirm`. The name of the service, the
// questions before and their number do not matter, so a caller may ask in any order and remember answers by content.
class Certifier {
 public:
  virtual ~Certifier() = default;
  virtual Verdict certify(const Service& service, std::span<const ReplicaGroup> groups, bool confirm) = 0;
  // The same for services that share slices, all of them simulated together: a verdict for each, in their order. A
  // replica names its service. The rates of the others are those of their busiest time while one whose rate varies is
  // judged, which is on the safe side. A certifier that cannot judge this says that no promise holds.
  virtual std::vector<Verdict> certify_together(std::span<const Service> services, std::span<const SharedGroup> groups,
                                                bool confirm);
};

struct Problem {
  Fleet fleet;
  Workload workload;
  const LatencyModel* latency = nullptr;
  PlanOptions options;
  CoverBudget budget;
  Certifier* certifier = nullptr;  // Needed by Rule::certified.
};

enum class PlanStatus { planned, infeasible };

// What is known of the covers of a service that cost less than the one chosen.
enum class SmallerCovers {
  rejected,     // The certifier rejected some of them; see NearestCover.
  no_capacity,  // None of them carries the rate: proved.
  suffices,     // One of them held in the search as well; it would save nothing on the whole.
  not_asked,    // Nothing.
};

// A cover that the certifier rejected: of all that it was asked about and that cost less than the one chosen, the one
// with the largest share in time.
struct NearestCover {
  std::vector<ReplicaGroup> groups;
  Verdict verdict;
};

// What a service got.
struct ServicePlan {
  std::string service;
  std::vector<std::int64_t> edges;  // Of its buckets.
  double rate_per_s = 0;            // Samples that are to be served.
  double load_factor = 0;           // How many times its demand its slices could run, none of them waiting.
  std::vector<ReplicaGroup> groups;
  double price = 0;  // Its part of the bound: what it makes the plan dearer by.
  std::optional<Verdict> verdict;
  std::optional<NearestCover> nearest;  // Where the certifier rejected a cheaper cover of the service.
  SmallerCovers smaller = SmallerCovers::not_asked;
  std::vector<std::string> shares_with;  // The other services on its slices.
};

struct PlanAnswer {
  PlanStatus status = PlanStatus::infeasible;
  std::string reason;   // Why infeasible, and the nearest change that would help.
  std::string service;  // The service that cannot be served, where it is one.
  Plan plan;
  int devices = 0;
  double price = 0;     // In the unit of the objective: devices, or price an hour.
  double bound = 0;     // No plan of those that `among` names costs less under the same rule.
  bool proved = false;  // Nothing costs less than this plan.
  std::string among;    // Further limits of what bound and proof are about: "plans without cuts". See among_text().
  double headroom = 1;  // For Objective::headroom: the factor reached.
  std::vector<ServicePlan> services;
  std::int64_t certifications = 0;  // How often the certifier was asked.
  // Whether bound and proof are about plans in which services may share slices, too.
  bool with_sharing = false;
  std::optional<double> price_alone;  // Of the best plan found in which each service has slices of its own.
  std::string binds;                  // What makes the bound as high as it is: "work", "memory" or "blocking".
  std::vector<std::string> notes;     // What the user should know of the search: who could not share, and why.
};

// The group of the fleet that a planned device was taken from: its name is the group's with a number. Null: none.
const DeviceGroup* group_of_device(const Fleet& fleet, const PlannedDevice& device);

// One way of making plans.
class Planner {
 public:
  virtual ~Planner() = default;
  virtual PlanAnswer plan(const Problem& problem) const = 0;
};

struct PlannerInfo {
  std::string_view name;
  std::string_view summary;
  std::unique_ptr<Planner> (*make)();
};

// In the order of planners.def.
std::span<const PlannerInfo> planners();
const PlannerInfo* find_planner(std::string_view name);

}  // namespace tangram::plan
