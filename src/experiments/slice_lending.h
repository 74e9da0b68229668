// Training on what inference leaves of its GPUs: space that the plan gives to no service, and slices that no service
// needs for now, beside the lending of whole GPUs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/latency_model.h"
#include "core/plan.h"
#include "core/workload.h"
#include "lab/training_slices.h"

namespace tangram::experiments {

// A day of inference on one plan, with all that it does not need lent to training. Rates swing, as a sine, between
// `low_share` and `peak_share` of those that are planned for. The day is played faster than it would pass: an hour in
// `hour_s`, while leases, recalls and the measuring of rates take real seconds, so that traffic changes all the faster
// for who lends. A day of many requests is played faster still; then those times shrink with it.
struct LendingDay {
  double hour_s = 60;
  double low_share = 0.25;
  double peak_share = 0.95;   // At the planned rates themselves some services collapse in a long run, lent from or not.
  double recall_s = 6;        // Until a slice serves again: training leaves, the model is loaded.
  double lease_start_s = 30;  // Real seconds of a lease in which training starts and does not learn yet.
  double requests_max = 5e6;
  double hour_min_s = 15;
  std::uint64_t seed = 1;
};

struct LendingResult {
  double devices = 0;
  // Training, in hours of whole GPUs. Space without replicas needs no lending: it trains all day. Only in mode slices.
  double lent_training_h = 0;
  double unplanned_training_h = 0;
  double lent_gpu_h = 0;       // On loan, in hours of GPUs by memory units.
  double unplanned_gpu_h = 0;  // Without replicas all day, in the same unit.
  double slo_attainment = 1;   // Of the service that keeps its promise least often.
  double slo_margin = 1;       // Of the service whose promise is nearest to being broken: attained less promised.
  std::uint64_t leases = 0;    // Of slices, or of whole GPUs.
  std::uint64_t requests = 0;

  double training_h() const { return lent_training_h + unplanned_training_h; }
};

// `workload` is what `plan` was made for: its rates are the peak of the day.
LendingResult lend_for_a_day(const Plan& plan, const Workload& workload, const LatencyModel& model,
                             const std::map<int, double>& speeds, lab::LendMode mode, const LendingDay& day);

// The same day if a new certified plan came into force every hour, at no cost: what is then idle, whole or in part. A
// bound on both modes, because neither can re-cut for nothing.
struct ReplannedDay {
  double devices = 0;  // Of the plan for the peak.
  double whole_h = 0;  // GPU-hours of devices that the plan of the hour does not use.
  double parts_h = 0;  // Training on what those plans leave of the devices they use, in hours of whole GPUs.
};

// Plans for `rates` times the rates that are planned for; nothing where there is no plan.
using PlanAtRate = std::function<std::optional<Plan>(double rates)>;
std::optional<ReplannedDay> replan_for_a_day(const PlanAtRate& plan_at, const std::map<int, double>& speeds,
                                             const LendingDay& day);

}  // namespace tangram::experiments
