// A day of lending, played fast.
//
// Lending reacts within seconds while traffic changes over hours, so a day can be compressed as long as an hour stays
// long beside the times of lending. A day with too many requests is compressed further, and then the times of lending
// shrink by the same factor `pace`. Training is counted in hours of the day, not of the simulation.

#include "experiments/slice_lending.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/check.h"
#include "lab/certify.h"
#include "lab/needs.h"
#include "lab/replan_comparison.h"
#include "plan/demand.h"
#include "sched/lending.h"
#include "sim/simulation.h"

namespace tangram::experiments {
namespace {

constexpr double kHours = 24;

// The services with a sine between low_share and peak_share of the planned rates; the peak is at noon.
Workload with_a_day(const Workload& workload, const LendingDay& day) {
  Workload varied = workload;
  for (auto& service : varied.services) {
    const double peak = plan::planning_rate_per_s(service);
    DiurnalTraffic traffic;
    traffic.rate_per_s = peak * (day.peak_share + day.low_share) / 2;
    traffic.amplitude = (day.peak_share - day.low_share) / (day.peak_share + day.low_share);
    traffic.period_s = kHours * day.hour_s;
    traffic.peak_at_s = traffic.period_s / 2;
    service.traffic = traffic;
  }
  return varied;
}

// The usual times of lending, `pace` times as long.
sched::LendingConfig paced(double pace) {
  sched::LendingConfig config;
  for (Duration* time : {&config.window, &config.window_burst, &config.guard, &config.lead}) {
    *time = from_seconds(to_seconds(*time) * pace);
  }
  return config;
}

// Takes whatever may be lent, and counts what training makes of it.
class SliceTrainer final : public sim::Lessee {
 public:
  SliceTrainer(std::vector<sched::ServiceNeeds> needs, const std::map<int, double>& speeds, lab::LendMode mode,
               const LendingDay& day, const sched::LendingConfig& lending)
      : needs_(std::move(needs)), speeds_(speeds), mode_(mode), day_(day), config_(lending) {}

  void on_start(sched::Scheduler& scheduler) override {
    lending_.emplace(scheduler, config_, needs_);
    const auto& devices = scheduler.state().deployment.devices;
    for (std::size_t u = 0; u < lending_->units().size(); ++u) {
      if (mode_ == lab::LendMode::slices) {
        leases_.push_back(
            {{u}, lab::speed_of(speeds_, lending_->units()[u].compute_slices), lending_->units()[u].weight});
      }
    }
    for (std::uint32_t d = 0; mode_ == lab::LendMode::whole_gpu && d < devices.size(); ++d) {
      // A whole GPU is one lease of all its slices. Training may cut it as it cuts a GPU of its own.
      leases_.push_back({{}, lab::best_cut_speed(devices[d].geometry, speeds_), 1});
      for (std::size_t u = 0; u < lending_->units().size(); ++u) {
        if (lending_->units()[u].device == DeviceId(d)) leases_.back().units.push_back(u);
      }
    }
  }

  void on_arrival(ServiceId service) override { lending_->on_arrival(service); }

  void on_tick(TimePoint now, bool traffic) override {
    count(now);
    lending_->on_tick(now);
    for (auto& lease : leases_) traffic ? use(lease) : end(lease);
  }

  // The simulation goes on until everything that was lent is back.
  bool busy() const override {
    return std::ranges::any_of(leases_, [&](const Lease& lease) {
      return std::ranges::any_of(lease.units, [&](std::size_t unit) {
        const auto state = lending_->state(unit);
        return state == sched::LeaseState::lent || state == sched::LeaseState::lending ||
               state == sched::LeaseState::recalling;
      });
    });
  }

  LendingResult result() const { return result_; }

 private:
  // What is lent together: a slice, or all slices of a GPU.
  struct Lease {
    std::vector<std::size_t> units;
    double speed = 0;
    double gpus = 0;
    bool runs = false;
  };

  // Adds what training got since the last tick. Time after the end of the day does not count.
  void count(TimePoint now) {
    const double until_s = std::min(to_seconds(now), kHours * day_.hour_s);
    const double hours = std::max(until_s - last_s_, 0.0) / day_.hour_s;
    last_s_ = until_s;
    for (const auto& lease : leases_) {
      if (!lease.runs) continue;
      result_.lent_training_h += hours * lease.speed;
      result_.lent_gpu_h += hours * lease.gpus;
    }
  }

  // Takes the lease if all of its slices may be lent, and ends it if one of them may not.
  void use(Lease& lease) {
    bool may = !lease.units.empty();
    for (const std::size_t unit : lease.units) may = may && lending_->may_lend(unit);
    if (!may) return end(lease);
    // Every unit is asked, without a short cut: each lends its idle processes at once, and the rest follows.
    bool all = true;
    for (const std::size_t unit : lease.units) all = lending_->lend(unit) && all;
    if (all && !lease.runs) {
      ++result_.leases;
      // A start costs real seconds, however fast the day is played.
      result_.lent_training_h -= lease.speed * day_.lease_start_s / 3600;
    }
    lease.runs = all;
  }

  // Recalls all units. Harmless for units that are not lent.
  void end(Lease& lease) {
    lease.runs = false;
    for (const std::size_t unit : lease.units) lending_->recall(unit);
  }

  std::vector<sched::ServiceNeeds> needs_;
  const std::map<int, double>& speeds_;
  lab::LendMode mode_;
  LendingDay day_;
  sched::LendingConfig config_;
  std::optional<sched::Lending> lending_;
  std::vector<Lease> leases_;
  double last_s_ = 0;
  LendingResult result_;
};

// What the plan gives to no service trains all day. Inference never needs it, so it is not on loan.
void add_unplanned(const Plan& plan, const std::map<int, double>& speeds, LendingResult& result) {
  for (const auto& device : plan.devices) {
    for (const auto& slice : lab::leftover_slices(device, speeds).slices) {
      const MigProfile& profile = device.geometry.profiles[slice.profile];
      result.unplanned_training_h += kHours * lab::speed_of(speeds, profile.compute_slices);
      result.unplanned_gpu_h += kHours * profile.units / device.geometry.units;
    }
  }
}

}  // namespace

LendingResult lend_for_a_day(const Plan& plan, const Workload& workload, const LatencyModel& model,
                             const std::map<int, double>& speeds, lab::LendMode mode, const LendingDay& given) {
  LendingDay day = given;
  double rate_mean = 0;
  for (const auto& service : workload.services) {
    rate_mean += plan::planning_rate_per_s(service) * (day.peak_share + day.low_share) / 2;
  }
  // The length of an hour at which the whole day has about requests_max requests.
  const double affordable_s = std::max(day.requests_max / std::max(rate_mean * kHours, 1.0), day.hour_min_s);
  const double pace = std::min(affordable_s / day.hour_s, 1.0);
  day.hour_s *= pace;
  day.recall_s *= pace;
  const Workload varied = with_a_day(workload, day);
  const auto deployment = sched::compile(plan, varied, model);
  TANGRAM_CHECK(deployment.ok(), "the plan was made for these services");
  lab::NeedsOptions needs;
  // Each mode keeps the slices that suit it, so that the comparison is between the best of both.
  needs.order = mode == lab::LendMode::whole_gpu ? lab::KeepOrder::few_devices : lab::KeepOrder::small_first;
  needs.certify.seed = day.seed;
  SliceTrainer trainer(lab::certified_needs(plan, workload, *deployment, model, needs), speeds, mode, day, paced(pace));
  sim::SimulationConfig config;
  config.seed = day.seed;
  config.duration = from_seconds(kHours * day.hour_s);
  config.noise.spread = lab::noise_spread(*deployment);
  config.faults.recall_s = day.recall_s;
  config.lessee = &trainer;
  config.lessee_tick = from_seconds(to_seconds(config.lessee_tick) * pace);
  const auto run = sim::simulate(*deployment, varied, config);
  LendingResult result = trainer.result();
  result.devices = static_cast<double>(plan.devices.size());
  result.requests = run.requests;
  if (mode == lab::LendMode::slices) add_unplanned(plan, speeds, result);
  for (std::size_t s = 0; s < workload.services.size(); ++s) {
    sim::Tally tally;
    for (const auto& bucket : run.metrics.services[s]) tally.add(bucket);
    const double attained = tally.slo_attainment();
    result.slo_attainment = std::min(result.slo_attainment, attained);
    result.slo_margin = std::min(result.slo_margin, attained - workload.services[s].slo.percentile / 100);
  }
  return result;
}

std::optional<ReplannedDay> replan_for_a_day(const PlanAtRate& plan_at, const std::map<int, double>& speeds,
                                             const LendingDay& day) {
  constexpr double kSteps = 10;  // Rates are planned for in tenths, rounded up.
  LendingDay real = day;
  // Nothing is simulated here, so hours have their real length.
  real.hour_s = 3600;
  Service one;
  one.traffic = PoissonTraffic{1};
  const Service unit = with_a_day({{one}}, real).services.front();
  std::map<int, std::optional<Plan>> plans;
  ReplannedDay answer;
  for (int hour = 0; hour < static_cast<int>(kHours); ++hour) {
    const double share = lab::busiest_rate_per_s(unit, 3600.0 * hour, 3600.0 * (hour + 1));
    // Hours with about the same rate share a plan: certified plans are expensive.
    const int step = std::min(static_cast<int>(std::ceil(share * kSteps - 1e-9)), static_cast<int>(kSteps));
    if (!plans.contains(step)) plans[step] = plan_at(step / kSteps);
    if (!plans.contains(static_cast<int>(kSteps))) plans[static_cast<int>(kSteps)] = plan_at(1);
    const auto& peak = plans[static_cast<int>(kSteps)];
    const auto& now = plans[step];
    // Without a plan for some hour the bound would not be one.
    if (!peak || !now) return std::nullopt;
    answer.devices = static_cast<double>(peak->devices.size());
    answer.whole_h += answer.devices - static_cast<double>(now->devices.size());
    for (const auto& device : now->devices) {
      for (const auto& slice : lab::leftover_slices(device, speeds).slices) {
        answer.parts_h += lab::speed_of(speeds, device.geometry.profiles[slice.profile].compute_slices);
      }
    }
  }
  return answer;
}

}  // namespace tangram::experiments
