// Elastic training on what inference lends, in a simulated fleet: jobs, leases, and the ownership of GPUs over time.
//
// The fleet is that of a plan. Its devices are grouped into nodes, in the order of the plan. A device that is lent
// whole, or that holds no replica, is a GPU for the allocator. Where slices are lent too, a job that got no GPU runs on
// one slice.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control/lease_decisions.h"
#include "control/round_pace.h"
#include "control/training_slots.h"
#include "formats/jobs_file.h"
#include "lab/job_table.h"
#include "lab/ownership.h"
#include "lab/ownership_timeline.h"
#include "lab/synthetic_training.h"
#include "lab/training_slices.h"
#include "sched/lending.h"
#include "sim/simulation.h"
#include "train/allocator.h"

namespace tangram::lab {

struct TrainingSetup {
  train::Applications applications;
  std::map<std::string, train::RestartCost> restart_costs;  // By application; `restart_cost` for the others.
  std::vector<formats::ClusterJob> jobs;                    // Of kind training.
  std::optional<SyntheticJobs> synthetic_jobs;              // Set: each run draws its jobs from its own seed.
  std::string allocator = "tangram";
  LendMode lend = LendMode::slices;
  int gpus_per_node = 4;
  double interval_s = 60;  // Between rounds of the allocator, at most.
  train::RestartKind restart = train::RestartKind::fast;
  train::RestartCost restart_cost{.full_s = 30, .fast_s = 3};
  std::map<int, double> slice_speeds;  // By compute slices, in parts of a whole GPU; empty: as the share of them.
  double overtime_s = 86400;           // Training goes on for so long after the last request, at most.
  sched::LendingConfig lending;
  std::uint64_t seed = 1;
};

struct TrainingResult {
  std::vector<double> jcts_s;  // Of the jobs that ended, in their order: from submission to completion.
  std::size_t jobs = 0;
  double jct_mean_s = 0;  // Of those that ended, as are the quantiles; 0 where none did.
  double jct_p50_s = 0;
  double jct_p99_s = 0;
  struct Unfinished {
    std::string name;
    std::int64_t gpus_asked = 0;
  };
  std::vector<Unfinished> unfinished;  // The other jobs, in their order.
  double restarts_per_job = 0;
  std::int64_t rounds = 0;
  std::int64_t leases = 0;    // Slices lent, those of whole GPUs one by one.
  std::int64_t reclaims = 0;  // Leases that inference ended while a job used them.
  double lease_mean_s = 0;    // How long a lease lasts.
  double gpus = 0;            // Of the fleet.
  std::vector<Ownership> timeline;
  Ownership gpu_hours;  // Over the whole run.
};

// Drives training in a simulation: advances the jobs, asks what to decide (control/lease_decisions.h, the allocator),
// and applies it to the jobs and to the scheduler's leases.
//
// The order of a tick matters. Jobs first use the time that has passed with the GPUs that they had; then leases that
// inference ended are closed and their jobs give up those GPUs; then leases are asked for; then, if it is due, the
// allocator divides the GPUs again.
class TrainingFleet final : public sim::Lessee {
 public:
  // `plan` is the one that is simulated and outlives this; `needs` says what its services keep. `step_s` is that of the
  // time line.
  TrainingFleet(const TrainingSetup& setup, const Plan& plan, std::vector<sched::ServiceNeeds> needs, double step_s);

  void on_start(sched::Scheduler& scheduler) override;
  void on_arrival(ServiceId service) override { lending_->on_arrival(service); }
  void on_tick(TimePoint now, bool traffic) override;
  bool busy() const override;

  TrainingResult result() const;

 private:
  // Closes the leases that inference ended since the last tick. Ensures that no job runs on what it took back.
  void end_leases();
  // Gives a slot back to inference. Requires that no job is on it; nothing happens for an uncut slot.
  void give_back(std::size_t slot);
  // Takes the job off its slot; it then runs nowhere. Nothing happens if it is on none.
  void leave_slot(std::size_t job);
  // Takes GPUs that `node` no longer has from its jobs, least loss first. Ensures that they use no more than it has.
  void shrink(int node);
  // Stops every job and gives everything back, because no job is present or training is over.
  void return_everything();
  // Asks inference for whole GPUs, as many as the jobs could use, then for a slot for each job without one.
  void ask_for_leases();
  // Asks inference for one slot. It may have to be asked again: a slice that runs a batch is lent when it is idle.
  void take(std::size_t slot);
  // By slot: whether inference would lend it now.
  control::MayLend may_lend() const;
  // Whole GPUs that jobs use on each node.
  std::vector<int> used_gpus() const;
  // What the allocator sees of jobs. A job on a slot waits for GPUs as far as allocators are concerned.
  std::vector<train::JobView> views_of(const std::vector<std::size_t>& jobs) const;
  // Whole GPUs that all jobs together could use.
  int wanted_gpus() const;
  // Divides the whole GPUs among the jobs again, returns those that no job wants, and puts the remaining jobs on slots.
  void hold_round();
  // Devices that have been lent completely become GPUs of the allocator; jobs leave their slots.
  void join_whole_gpus();
  // Gives whole GPUs back that no job uses or could use.
  void return_surplus();
  // Puts jobs without GPUs on slots, in the order of `active`, and gives back the slots that are left.
  void fill_slots(const std::vector<std::size_t>& active);
  // How the GPUs are divided now. Ensures that the parts sum to the number of devices.
  Ownership ownership() const;
  // Stops the program if a GPU or slot has two owners.
  void check() const;

  TrainingSetup setup_;
  const Plan& plan_;
  std::vector<sched::ServiceNeeds> needs_;
  std::unique_ptr<train::Allocator> allocator_;
  JobTable jobs_;
  std::optional<sched::Lending> lending_;        // From on_start on.
  std::optional<control::TrainingSlots> slots_;  // From on_start on.
  control::RoundPace pace_;
  OwnershipTimeline timeline_;
  double now_s_ = 0;
  double traffic_end_s_ = 0;   // The last tick with requests.
  bool over_ = false;          // Nothing more is to be done.
  std::int64_t reclaims_ = 0;  // Leases that inference ended while a job used them.
};

// A time of the jobs that ended, for people: "1991 s", or "-" where none did.
std::string completion_text(const TrainingResult& training, double seconds);
// "of the 4 that ended" where others did not, else nothing.
std::string ended_text(const TrainingResult& training);
// "a (asks for 90 GPUs of 8), b and 3 more"; nothing where all ended.
std::string unfinished_text(const TrainingResult& training);

// What is simulated: a plan, the services on it, and their run times.
struct TrainedFleet {
  const Plan& plan;
  const Workload& workload;
  const sched::Deployment& deployment;
  const LatencyModel& latency;
};

// Finds what the services need, then simulates them and the training beside them. The plan does not change on the way.
sim::SimulationResult simulate_with_training(const TrainingSetup& setup, const TrainedFleet& fleet,
                                             sim::SimulationConfig config, TrainingResult* training);

}  // namespace tangram::lab
