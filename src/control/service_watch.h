// Watches one service and says when its plan no longer fits: the rate rises or falls, its promise breaks, or its input
// sizes change.
//
// Time is divided into windows (five minutes) and each window into looks (ten seconds). A look only meets surges. A
// window also moves the forecast, and may ask for less: more is planned for at once, less only after some quiet
// windows, because a plan that is too small loses requests and one that is too large only costs.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "control/demand.h"
#include "control/observation.h"
#include "control/rate_forecast.h"
#include "control/surge_watch.h"
#include "core/workload.h"

namespace tangram::control {

class ServiceWatch {
 public:
  struct Options {
    RateForecast::Options forecast;
    SurgeWatch::Options surge;
    double rate_step = 0.1;                 // Rates are planned for in steps of this share, rounded up.
    double scale_in_below = 0.85;           // A smaller demand than this share of the planned one is quiet, ...
    int quiet_windows = 3;                  // ... and after so many quiet windows less is planned for.
    double mix_drift = 0.15;                // A mix of sizes this far from the planned one causes a new plan, ...
    std::uint64_t mix_requests_min = 1000;  // ... judged by so many of the newest requests at least: of fewer, chance
                                            // alone moves the shares by several hundredths.
  };
  // `planned` is what the running plan was made for.
  ServiceWatch(const Options& options, const Service& service, ServiceDemand planned);

  // What the service promises and how its bursts look has changed; its forecast goes on.
  void set_service(const Service& service);

  // What is remembered of the service across a restart, beside what is planned for.
  struct Memory {
    RateForecast::Memory forecast = {};
    std::vector<double> surge_peaks = {};
    double demand = 0;
    double boost = 0;
    int quiet = 0;
    double quiet_demand = 0;

    bool operator==(const Memory&) const = default;
  };
  Memory memory() const { return {forecast_.memory(), surges_.peaks(), demand_, boost_, quiet_, quiet_demand_}; }
  void recall(const Memory& memory);

  // A look of `seconds` brought `arrived` requests.
  void look(std::uint64_t arrived, double seconds);
  // A window of `seconds` ends. What its looks found of surges is taken into account and then forgotten.
  void end_window(const ServiceObservation& window, double seconds);

  // Why the plan no longer fits, for people ("rank-answers: rate 12.1 -> 14.6"); empty while it does. surge_reason() is
  // about the looks since the last window, the others about the window that ended.
  std::string surge_reason() const;
  std::string rate_reason() const;
  std::string mix_reason() const;

  const ServiceDemand& planned() const { return planned_; }
  // What to plan for at the end of a window. `remixed`: with the sizes that arrive instead of the planned ones.
  ServiceDemand wanted(bool remixed) const;
  // What the newest window asks for, less or more than is planned; before the first window, what is planned.
  ServiceDemand expected() const;
  // What to plan for within a window: never less than is planned.
  ServiceDemand wanted_in_surge() const;
  // A plan for `demand` comes into force.
  void set_planned(ServiceDemand demand);

 private:
  // Raises or lowers `boost_` by how the promise was kept in a window that ended. `surged`: the window had a surge.
  void adjust_boost(const ServiceObservation& window, double seconds, bool surged);
  // The rate to plan for: more at once, less after quiet windows, otherwise the planned one.
  double next_rate() const;
  // The sizes of the windows in `windows_` together.
  SizeCounts recent_mix() const;
  // Drops windows behind the newest ones that hold `mix_requests_min` requests.
  void forget_old_windows();

  Options options_;
  std::string name_;
  double promised_share_;  // Of requests that must be in time, 0 to 1.
  double burst_ratio_;     // Rate within a burst over the mean, which demands are; 1 without bursts.
  RateForecast forecast_;
  SurgeWatch surges_;
  ServiceDemand planned_;
  bool surged_ = false;                                        // In the window that goes on.
  double surge_demand_ = 0;                                    // What the surge of that window asks for; 0: no surge.
  std::deque<std::map<std::int64_t, std::uint64_t>> windows_;  // Sizes that arrived, oldest window first.
  double demand_ = 0;                                          // What the last window asks for.
  double boost_ = 0;         // Share that is added to the forecast because the promise broke.
  int quiet_ = 0;            // Quiet windows in a row.
  double quiet_demand_ = 0;  // The largest demand of those.
};

}  // namespace tangram::control
