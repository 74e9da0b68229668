// When the plan of one service no longer fits.
//
// The watch is asymmetric: more is planned for at once, less only after `quiet_windows` windows, because too small a
// plan rejects requests while too large a plan only costs devices. Rates are rounded up to steps of 10 %, so that small
// changes do not replan.

#include "control/service_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tangram::control {
namespace {

// The boost grows by a step (10 %) with each window that breaks the Slo and falls by a quarter of a step with each that
// keeps it: too little capacity is corrected in minutes, and the correction is withdrawn slowly.
constexpr double kBoostMax = 0.5;          // Beyond half as much again, the rate is not what is wrong.
constexpr double kBoostTolerance = 0.002;  // Below the promise by less than this share is chance.
constexpr double kBoostDecay = 0.25;       // In steps, for each window that keeps the promise.

// Two rates that a plan cannot tell apart: the rounding of powers, not traffic, makes them differ.
bool exceeds(double rate, double planned) { return rate > planned * (1 + 1e-9); }

}  // namespace

ServiceWatch::ServiceWatch(const Options& options, const Service& service, ServiceDemand planned)
    : options_(options),
      name_(service.name),
      promised_share_(service.slo.percentile / 100),
      burst_ratio_(burst_ratio(service)),
      forecast_(options.forecast, planned.rate_per_s),
      surges_(options.surge),
      planned_(std::move(planned)) {}

void ServiceWatch::set_service(const Service& service) {
  promised_share_ = service.slo.percentile / 100;
  burst_ratio_ = burst_ratio(service);
}

void ServiceWatch::recall(const Memory& memory) {
  forecast_.recall(memory.forecast);
  surges_.recall(memory.surge_peaks);
  demand_ = memory.demand;
  boost_ = memory.boost;
  quiet_ = memory.quiet;
  quiet_demand_ = memory.quiet_demand;
}

void ServiceWatch::look(std::uint64_t arrived, double seconds) {
  // The plan carries the bursts that the services file describes, so only more than such a burst is a surge.
  const auto demand = surges_.look(arrived, seconds, burst_ratio_ * planned_.rate_per_s);
  if (!demand) return;
  surged_ = true;
  // The highest look of the window: a plan that is raised twice costs two changes.
  surge_demand_ = std::max(surge_demand_, rounded_up(*demand / burst_ratio_, options_.rate_step));
}

void ServiceWatch::end_window(const ServiceObservation& window, double seconds) {
  const double surge = std::exchange(surge_demand_, 0);
  const bool surged = std::exchange(surged_, false);
  forecast_.observe(window.arrived, seconds, surged);
  adjust_boost(window, seconds, surged);
  windows_.push_back(window.sizes);
  forget_old_windows();
  demand_ = std::max(surge, rounded_up(forecast_.demand_per_s() * (1 + boost_), options_.rate_step));
  // A demand that is not quiet starts the count again. The largest demand of the quiet windows is planned for, not the
  // last one.
  quiet_ = demand_ < options_.scale_in_below * planned_.rate_per_s ? quiet_ + 1 : 0;
  quiet_demand_ = quiet_ <= 1 ? demand_ : std::max(quiet_demand_, demand_);
}

void ServiceWatch::adjust_boost(const ServiceObservation& window, double seconds, bool surged) {
  // If the Slo is missed although the rate is as planned and there was no surge, the rate is not the cause: the plan
  // was made with latencies that are too short. More capacity than the forecast asks for compensates that.
  const std::uint64_t resolved = window.served + window.late + window.lost;
  const double kept = resolved == 0 ? 1 : static_cast<double>(window.served) / static_cast<double>(resolved);
  const bool as_planned = static_cast<double>(window.arrived) / seconds <= planned_.rate_per_s;
  if (as_planned && !surged && kept < promised_share_ - kBoostTolerance) {
    boost_ = std::min(kBoostMax, boost_ + options_.rate_step);
  } else {
    boost_ = std::max(0.0, boost_ - options_.rate_step * kBoostDecay);
  }
}

std::string ServiceWatch::surge_reason() const {
  if (!exceeds(surge_demand_, planned_.rate_per_s)) return {};
  return fmt::format("{}: surge, rate {:.4g} -> {:.4g}", name_, planned_.rate_per_s, surge_demand_);
}

std::string ServiceWatch::rate_reason() const {
  const double next = next_rate();
  if (next == planned_.rate_per_s) return {};
  return fmt::format("{}: rate {:.4g} -> {:.4g}", name_, planned_.rate_per_s, next);
}

std::string ServiceWatch::mix_reason() const {
  const SizeCounts mix = recent_mix();
  double requests = 0;
  for (const auto& [size, count] : mix) requests += count;
  // Of few requests chance alone moves the mix.
  if (requests < static_cast<double>(options_.mix_requests_min)) return {};
  const double distance = mix_distance(mix, planned_.mix);
  if (distance <= options_.mix_drift) return {};
  return fmt::format("{}: sizes moved by {:.2f}, mean {:.0f} -> {:.0f}", name_, distance, mean_size(planned_.mix),
                     mean_size(mix));
}

ServiceDemand ServiceWatch::wanted(bool remixed) const { return {next_rate(), remixed ? recent_mix() : planned_.mix}; }

ServiceDemand ServiceWatch::expected() const {
  return {std::max(demand_ > 0 ? demand_ : planned_.rate_per_s, surge_demand_), planned_.mix};
}

ServiceDemand ServiceWatch::wanted_in_surge() const {
  return {std::max(planned_.rate_per_s, surge_demand_), planned_.mix};
}

void ServiceWatch::set_planned(ServiceDemand demand) {
  planned_ = std::move(demand);
  quiet_ = 0;
}

double ServiceWatch::next_rate() const {
  if (exceeds(demand_, planned_.rate_per_s)) return demand_;
  return quiet_ >= options_.quiet_windows ? quiet_demand_ : planned_.rate_per_s;
}

SizeCounts ServiceWatch::recent_mix() const {
  SizeCounts mix;
  for (const auto& window : windows_) {
    for (const auto& [size, count] : window) mix[size] += static_cast<double>(count);
  }
  return mix;
}

// Keeps as few windows as hold mix_requests_min requests, so that a busy service is judged by its newest traffic.
void ServiceWatch::forget_old_windows() {
  const auto requests_without_oldest = [&] {
    std::uint64_t sum = 0;
    for (std::size_t i = 1; i < windows_.size(); ++i) {
      for (const auto& [size, count] : windows_[i]) sum += count;
    }
    return sum;
  };
  while (windows_.size() > 1 && requests_without_oldest() >= options_.mix_requests_min) windows_.pop_front();
}

}  // namespace tangram::control
