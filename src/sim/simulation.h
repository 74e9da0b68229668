// A cluster in virtual time.
//
// Drives the same scheduler that serves real requests: it draws arrivals, keeps the event queue, acts as the
// scheduler's World, injects faults on request, and counts. The same configuration and seed give the same bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/time.h"
#include "core/workload.h"
#include "sched/deployment.h"
#include "sched/recorder.h"
#include "sched/scheduler.h"
#include "sim/disturbances.h"
#include "sim/metrics.h"
#include "sim/offline_rows.h"
#include "sim/plan_feed.h"
#include "sim/slice_places.h"

namespace tangram::sim {

// Training beside inference. It sees time and traffic and asks the scheduler to lend slices and to recall them, which
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

// Sees every request of a run, rows of offline jobs aside. It changes nothing.
class Observer {
 public:
  virtual ~Observer() = default;
  // `waiting`: how many others are queued when it comes.
  virtual void on_arrival(const Request& request, std::size_t waiting) = 0;
  virtual void on_resolved(const Request& request, const Outcome& outcome, TimePoint now) = 0;
};

// How long a device takes to be re-cut, with the loading of models.
using ReshapeTime = std::function<Duration(const sched::DeployedDevice& before, const Layout& target, TimePoint now)>;

struct SimulationConfig {
  sched::SchedulerConfig scheduler;
  NoiseModel noise;
  FaultModel faults;
  std::uint64_t seed = 1;
  Duration duration = Duration::max();      // Arrivals after it are not made; what is under way ends.
  std::uint64_t requests_max = UINT64_MAX;  // Nor beyond this number.
  std::uint64_t warmup_requests = 0;        // The first ones are served and not counted.
  double rate_scale = 1;
  std::size_t tenants = 1;         // Requests are dealt to them at random, ...
  double first_tenant_factor = 1;  // ... this many times as many to the first as to each of the others.
  std::size_t timeline_steps = 0;  // 0: no time line. Needs a finite duration.
  TrafficParts parts;              // Counted apart, as Metrics::parts.
  std::size_t batches_recorded_max = 0;
  bool log_decisions = false;            // As SimulationResult::decisions.
  sched::RecordingSink recording;        // Takes every event and action, for sched::replay; unset: nothing is recorded.
  sched::Watcher* watcher = nullptr;     // Sees every event and action; outlives the run.
  std::vector<PlanChange> plan_changes;  // Ascending.
  Controller controller;
  std::vector<BackgroundJob> background;  // Metrics of services leave it out.
  Lessee* lessee = nullptr;               // Outlives the run; with its own memory, so one for each run.
  Duration lessee_tick = std::chrono::seconds(1);
  Observer* observer = nullptr;          // Outlives the run; for one run.
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
  std::uint64_t digest = 0;            // Of every outcome and its instant.
  std::vector<std::string> decisions;  // One line each, if asked for; see sched/decision_log.h.
  std::vector<FleetUse> fleet_use;     // Ascending in time; the first is at the start.
  std::uint64_t reshapes = 0;          // Devices that were re-cut or loaded again.
  // Batches that had to load their model first, by the service whose queue they came from.
  std::vector<std::uint64_t> cold_starts;
  std::uint64_t leases = 0;               // Slices lent to training; every one has ended.
  std::uint64_t background_answered = 0;  // Rows of offline jobs, until `end`.
  bool stopped = false;                   // By `progress`.
};

// `workload` outlives the run. Services of the deployment are in the order of the workload.
SimulationResult simulate(const sched::Deployment& deployment, const Workload& workload,
                          const SimulationConfig& config);

}  // namespace tangram::sim
