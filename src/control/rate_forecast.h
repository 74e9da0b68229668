// The forecast of one service's request rate, one window ahead.
//
// Holt's method follows a level and a trend. The forecast is multiplied by what earlier forecasts fell short by,
// because a plan must hold for nearly every window and not for the average one.
//
// Example, with the default options and windows of 300 s. The service is known at 10 requests/s.
//   Window 1 brings 3,000 requests, 10/s.  Forecast was 10.    Shortfall 10 / 10 = 1.0. Level 10,   trend 0.
//   Window 2 brings 3,600 requests, 12/s.  Forecast was 10.    Shortfall 12 / 10 = 1.2.
//     Level = 0.6 * 12 + 0.4 * 10 = 11.2.  Trend = 0.4 * (11.2 - 10) + 0.6 * 0 = 0.48 a window.
//   For window 3: level + trend = 11.68, and half a trend more for the growth within the window = 11.92.
//     The 95 % quantile of the shortfalls {1.0, 1.2} is 1.2, so demand_per_s() = 11.92 * 1.2 = 14.3 requests/s.
// A fall to less than 0.7 of the forecast that chance does not explain ends a surge: the forecast begins anew there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace tangram::control {

class RateForecast {
 public:
  struct Options {
    double level_weight = 0.6;     // Share of the newest window in the level.
    double trend_weight = 0.4;     // Share of the newest change of level in the trend.
    double quantile = 0.95;        // Of the shortfalls: observed rate over forecast rate, ...
    std::size_t windows_max = 24;  // ... in so many of the last windows: two hours of five minutes.
    double factor_max = 1.5;       // Of shortfall and of demand over the level: one jump must not hold devices for
                                   // hours, and it is not a trend.
  };
  RateForecast(const Options& options, double first_rate_per_s) : options_(options), level_(first_rate_per_s) {}

  // A window of `seconds` brought `requests`. `surged`: the rate jumped within it. The shortfall of such a window is
  // not remembered, because surges are met as they come (SurgeWatch) and are no reason to hold devices for hours.
  void observe(std::uint64_t requests, double seconds, bool surged = false);
  // Requests a second to be ready for in the next window. O(windows_max log windows_max).
  double demand_per_s() const;
  double level_per_s() const { return level_; }

  // What is remembered across a restart.
  struct Memory {
    double level = 0;
    double trend = 0;
    double newest = 0;
    std::vector<double> shortfalls = {};

    bool operator==(const Memory&) const = default;
  };
  Memory memory() const { return {level_, trend_, newest_, {shortfalls_.begin(), shortfalls_.end()}}; }
  void recall(const Memory& memory);

 private:
  // Level and trend, carried one window on; never negative.
  double forecast_per_s() const;

  Options options_;
  double level_;
  double trend_ = 0;               // Change of the level in a window.
  double newest_ = 0;              // Rate of the newest window.
  std::deque<double> shortfalls_;  // Observed over forecast, oldest first.
};

}  // namespace tangram::control
