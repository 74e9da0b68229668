// A cluster in virtual time.
//
// Drives the scheduler that also serves for real: draws arrivals, keeps the event queue, answers what the scheduler
// asks of its World, breaks things on request, and counts. The same configuration and seed give the same bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "control/observation.h"
#include "core/workload.h"
#include "sched/deployment.h"
#include "sched/scheduler.h"
#include "sim/metrics.h"

namespace tangram::sim {

// How reality differs from the predictions.
struct NoiseModel {
  double spread =
      0;  // Run times are multiplied by a log-normal of mean 1 and this standard deviation of its logarithm.
  double factor = 1;  // All run times are multiplied by this: the model is wrong by as much.
  bool exponential =
      false;  // Run times are exponential with the predicted mean instead, as queueing formulas have them.
};

struct FaultModel {
  double slow_probability = 0;  // A batch takes `slow_factor` as long.
  double slow_factor = 5;
  double fail_probability = 0;   // A batch ends with an error.
  double stuck_probability = 0;  // A batch is never answered.
  double slice_lost_mean_s = 0;  // Mean time between losses of a slice, over the whole cluster; 0: none.
  double restart_s = 5;
  double reshape_s = 6;  // A re-cut with the loading of models.
  double reshape_fail_probability = 0;
  double recall_s = 1;  // Until a lent slice is back.
};

// A plan that comes into force while the simulation runs.
struct PlanChange {
  TimePoint at;
  sched::Deployment deployment;
};

// What a controller is told: what happened since it was last told.
using control::Observation;
using control::ServiceObservation;

// Watches a run and may answer a new plan for the same services. It is told of the traffic every `interval` of virtual
// time. An answer that comes while another plan is moving waits its turn.
struct Controller {
  Duration interval = std::chrono::minutes(5);
  std::function<std::optional<sched::Deployment>(const Observation&)> decide;  // Unset: nobody watches.
};

// Training beside inference: told of time and traffic, it asks the scheduler to lend slices and to recall them, which
// goes through the World like everything else.
class Lessee {
 public:
  virtual ~Lessee() = default;
  // Before the first event; the scheduler outlives the run.
  virtual void on_start(sched::Scheduler& scheduler) = 0;
  virtual void on_arrival(ServiceId service) = 0;
  // Every SimulationConfig::lessee_tick of virtual time. `traffic`: requests come or are under way still.
  virtual void on_tick(TimePoint now, bool traffic) = 0;
  // The run goes on while it is, also after the last request. It ends with every slice returned.
  virtual bool busy() const = 0;
};

// How long a device takes to be re-cut, with the loading of models.
using ReshapeTime = std::function<Duration(const sched::DeployedDevice& before, const Layout& target)>;

// What services hold from an instant on. A slice counts from when a plan asks for it until it is drained, its device
// until it is cut back.
struct FleetUse {
  TimePoint at;
  std::size_t devices = 0;  // With at least one replica.
  std::size_t slices = 0;
  int compute_slices = 0;
};

// An offline job beside the traffic: so many of its rows wait or run at any time, until the last request has come.
struct BackgroundJob {
  ServiceId service;
  std::size_t under_way = 64;
};

struct SimulationConfig {
  sched::SchedulerConfig scheduler;
  NoiseModel noise;
  FaultModel faults;
  std::uint64_t seed = 1;
  Duration duration = Duration::max();      // Arrivals after it are not made; what is under way ends.
  std::uint64_t requests_max = UINT64_MAX;  // Nor beyond this number.
  std::uint64_t warmup_requests = 0;        // The first ones are served and not counted.
  double rate_scale = 1;
  std::size_t tenants = 1;         // Requests are dealt to them at random.
  std::size_t timeline_steps = 0;  // 0: no time line. Needs a finite duration.
  std::size_t batches_recorded_max = 0;
  bool log_decisions = false;
  std::vector<PlanChange> plan_changes;  // Ascending.
  Controller controller;
  std::vector<BackgroundJob> background;  // Metrics of services leave it out.
  Lessee* lessee = nullptr;               // Outlives the run; with its own memory, so one for each run.
  Duration lessee_tick = std::chrono::seconds(1);
  ReshapeTime reshape_time;              // Unset: FaultModel::reshape_s for each.
  std::function<bool(double)> progress;  // Told the share that is done now and then; false stops the run.
};

struct SimulationResult {
  Metrics metrics;
  TimePoint end;               // When the last request was resolved; rows of offline jobs may end later.
  Duration counted{};          // In which the counted requests came: what a rate is over. What is under way after the
                               // last arrival does not lengthen it.
  std::uint64_t requests = 0;  // All, those of the warm-up included.
  std::uint64_t batches = 0;
  std::uint64_t events = 0;
  std::uint64_t queue_at_middle = 0;  // Waiting requests when half of the arrivals had come, and when the last had.
  std::uint64_t queue_at_end = 0;
  std::uint64_t digest = 0;               // Of every outcome and its instant.
  std::vector<std::string> decisions;     // One line each, if asked for.
  std::vector<FleetUse> fleet_use;        // Ascending in time; the first is at the start.
  std::uint64_t reshapes = 0;             // Devices that were re-cut or loaded anew.
  std::uint64_t leases = 0;               // Slices lent to training; every one has ended.
  std::uint64_t background_answered = 0;  // Rows of offline jobs, until `end`.
  bool stopped = false;                   // By `progress`.
};

// `workload` outlives the run. Services of the deployment stand in the order of the workload.
SimulationResult simulate(const sched::Deployment& deployment, const Workload& workload,
                          const SimulationConfig& config);

}  // namespace tangram::sim
