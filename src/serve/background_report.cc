// Explains why background requests, such as those of an offline job, are not running yet. Reasons are checked from the
// permanent to the temporary: one that will never change must not hide behind one that may pass.

#include "serve/background_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "serve/live_world.h"

namespace tangram::serve {
namespace {

// "4.2 ms". Three digits: a prediction is not more exact.
std::string milliseconds_text(Duration span) { return fmt::format("{:.3g} ms", to_milliseconds(span)); }

}  // namespace

std::string why_background_waits(const sched::BackgroundOutlook& outlook, std::size_t slices) {
  if (outlook.waiting == 0) return "";
  if (slices == 0) return "no slice serves the model";
  // Longer than the slack of its slices even without load: no amount of waiting helps, only another plan or Slo.
  if (outlook.run_idle > outlook.run_max_idle) {
    return fmt::format(
        "a run takes {}, but the promises on its slices allow background runs of at most {}, even without online "
        "traffic: it will never start",
        milliseconds_text(outlook.run_idle), milliseconds_text(std::max(outlook.run_max_idle, Duration::zero())));
  }
  if (outlook.online_waits) return "online requests are queued for the same slices";
  // Temporary: it runs when the traffic declines.
  if (outlook.run > outlook.run_max) {
    return fmt::format("online traffic leaves room for runs of {}, but one run takes {}",
                       milliseconds_text(std::max(outlook.run_max, Duration::zero())), milliseconds_text(outlook.run));
  }
  return "";
}

nlohmann::ordered_json background_report(const LiveWorld& world, ServiceId service) {
  const sched::BackgroundOutlook outlook = world.scheduler().background_outlook(service);
  return {{"waiting", outlook.waiting},
          {"run_ms", to_milliseconds(outlook.run)},
          {"run_max_ms", to_milliseconds(outlook.run_max)},
          {"run_max_idle_ms", to_milliseconds(outlook.run_max_idle)},
          {"why", why_background_waits(outlook, world.scheduler().state().services[service.index()].slices)}};
}

}  // namespace tangram::serve
