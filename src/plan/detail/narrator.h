// Records steps as they are applied one after the other: their times, and the capacity that each leaves to every
// service.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "plan/transition.h"

namespace tangram::plan {

class Narrator {
 public:
  // `options` outlives it.
  Narrator(LiveFleet fleet, const TransitionOptions& options, const std::map<std::string, double>& floors);

  // Applies steps that may run in parallel, as one phase. Requires that every step is possible.
  void tell(std::vector<Step> steps);

  const LiveFleet& fleet() const { return fleet_; }
  const std::vector<Step>& steps() const { return steps_; }
  std::vector<Step> take_steps() { return std::move(steps_); }
  int phases() const { return phase_; }
  Duration takes() const { return now_ - kTimeZero; }

 private:
  // How long the step takes by the options. Requires the state before the step.
  Duration duration_of(const Step& step) const;
  // The services of other replicas that are loaded on the slice of the step; empty for create and destroy.
  std::vector<std::string> neighbours_of(const Step& step) const;
  // Ensures that below_ holds the service exactly if its total is below its floor.
  void judge(const std::string& service);
  // Updates the totals after the step, given the capacity of its slice `before`, and records them in the step.
  void count(Step& step, const std::map<std::string, double>& before);

  LiveFleet fleet_;
  const TransitionOptions& options_;
  std::map<std::string, double> floors_;
  Capacity capacity_;
  std::map<std::string, double> totals_;
  std::set<std::string> below_;
  std::vector<Step> steps_;
  int phase_ = 0;
  TimePoint now_ = kTimeZero;
};

// The capacity that is used where the options set none.
double compute_slices_shared(const PlannedDevice& device, const PlannedSlice& slice, const Replica& replica);

}  // namespace tangram::plan
