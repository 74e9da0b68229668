#include "control/rate_forecast.h"

#include <algorithm>
#include <cmath>

#include "base/statistics.h"

namespace tangram::control {

namespace {

// A rate below this share of the forecast, and by more deviations than chance explains, is the end of a surge and not a
// trend: the forecast begins anew there. Following it as a trend holds the devices of the surge for several windows
// more.
constexpr double kFall = 0.7;
constexpr double kFallDeviations = 4;  // As many as begin a surge.

bool falls(double rate, double expected, double seconds) {
  return rate < kFall * expected &&
         rate * seconds < expected * seconds - kFallDeviations * std::sqrt(expected * seconds);
}

}  // namespace

void RateForecast::observe(std::uint64_t requests, double seconds, bool surged) {
  const double rate = static_cast<double>(requests) / seconds;
  const double expected = forecast_per_s();
  // How much the last forecast fell short; surges are handled by SurgeWatch and must not raise every later forecast.
  if (expected > 0 && !surged) shortfalls_.push_back(rate / expected);
  if (shortfalls_.size() > options_.windows_max) shortfalls_.pop_front();
  newest_ = rate;
  if (falls(rate, expected, seconds)) {
    level_ = rate;
    trend_ = 0;
    return;
  }
  const double before = level_;
  level_ = options_.level_weight * rate + (1 - options_.level_weight) * expected;
  trend_ = options_.trend_weight * (level_ - before) + (1 - options_.trend_weight) * trend_;
}

void RateForecast::recall(const Memory& memory) {
  level_ = memory.level;
  trend_ = memory.trend;
  newest_ = memory.newest;
  shortfalls_.assign(memory.shortfalls.begin(), memory.shortfalls.end());
  while (shortfalls_.size() > options_.windows_max) shortfalls_.pop_front();
}

double RateForecast::forecast_per_s() const { return std::max(0.0, level_ + trend_); }

double RateForecast::demand_per_s() const {
  double shortfall = 1;
  if (!shortfalls_.empty()) {
    const double worst = quantile_nearest_rank({shortfalls_.begin(), shortfalls_.end()}, options_.quantile);
    shortfall = std::clamp(worst, 1.0, options_.factor_max);
  }
  // The rate keeps changing within the window that is planned for, by half a trend on average. A falling rate may stop
  // falling, so the level itself is the minimum.
  const double demand = std::max(level_, forecast_per_s() + std::max(0.0, trend_) / 2) * shortfall;
  return std::min(demand, options_.factor_max * std::max(level_, newest_));
}

}  // namespace tangram::control
