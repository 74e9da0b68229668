// Elastic training on what inference lends, in a simulated fleet: jobs, leases, and who had the GPUs.
//
// The fleet is that of a plan. Its devices stand in nodes, in the order of the plan. A device that is lent whole, or
// that holds no replica, is a GPU for the allocator. Where slices are lent too, a job that got no GPU runs on one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "formats/jobs_file.h"
#include "lab/job_table.h"
#include "lab/made_training.h"
#include "lab/ownership.h"
#include "lab/training_slices.h"
#include "sched/lending.h"
#include "sim/simulation.h"
#include "train/allocator.h"

namespace tangram::lab {

struct TrainingSetup {
  train::Applications applications;
  std::map<std::string, train::RestartCost> restart_costs;  // By application; `restart_cost` for the others.
  std::vector<formats::Job> jobs;                           // Of kind training.
  std::optional<MadeJobs> made_jobs;                        // Where jobs are made anew for the seed of each run.
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
  // A slice on which a job may run: one that can be lent, or one that the plan leaves uncut and that is always there.
  struct Berth {
    std::optional<std::size_t> unit;  // Of Lending.
    std::size_t device = 0;
    double speed = 0;
    double weight = 0;  // Share of the device.
    std::optional<std::size_t> job;
    std::optional<double> lent_s;  // Since when.
  };
  struct Device {
    int node = 0;
    std::vector<std::size_t> units;  // Its berths that can be lent; none: training's own.
    std::vector<std::size_t> uncut;  // Its other berths.
    bool whole = false;              // It is one of the GPUs of the allocator.
  };

  double speed_of_slice(const MigProfile& profile, const Geometry& geometry) const;
  void add_uncut(std::size_t device);
  void end_leases();
  void close_lease(Berth& berth);
  void give_back(Berth& berth);
  void leave_berth(std::size_t job);
  void shrink(int node);
  void return_everything();
  void ask_for_leases();
  void take(Berth& berth);
  bool all_lent(const Device& device) const;
  bool may_lend_all(const Device& device) const;
  bool usable(const Berth& berth) const;
  std::vector<int> whole_gpus() const;
  std::vector<int> used_gpus() const;
  std::vector<train::JobView> views_of(const std::vector<std::size_t>& jobs) const;
  void hold_round();
  void empty(Berth& berth);
  void return_surplus();
  int wanted_gpus() const;
  void fill_berths(const std::vector<std::size_t>& active);
  Ownership ownership() const;
  static void add_state(sched::LeaseState state, double weight, Ownership& now);
  void count(double until_s);
  void check() const;

  TrainingSetup setup_;
  const Plan& plan_;
  std::vector<sched::ServiceNeeds> needs_;
  std::unique_ptr<train::Allocator> allocator_;
  JobTable jobs_;
  std::vector<Device> devices_;
  std::vector<Berth> berths_;
  std::vector<double> slow_;                          // By job: how much slower than on a whole GPU.
  std::vector<std::optional<std::size_t>> berth_of_;  // By job: the slice on which it runs.
  std::optional<sched::Lending> lending_;
  int nodes_ = 0;
  double now_s_ = 0;
  double last_round_s_ = -1e9;
  double traffic_end_s_ = 0;
  bool dirty_ = false;
  bool over_ = false;  // Nothing more is to be done.
  double step_s_;
  Ownership step_;  // GPU-seconds of the step so far.
  TrainingResult result_;
  double lease_seconds_ = 0;
  std::int64_t leases_ended_ = 0;
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
