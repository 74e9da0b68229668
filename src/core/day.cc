#include "core/day.h"

#include "base/check.h"

namespace tangram {
namespace {

void speed_up(Traffic& traffic, double speed) {
  if (auto* curve = std::get_if<CurveTraffic>(&traffic)) curve->step_s /= speed;
  if (auto* day = std::get_if<DiurnalTraffic>(&traffic)) {
    day->period_s /= speed;
    day->peak_at_s /= speed;
  }
}

}  // namespace

Workload at_speed(Workload workload, double speed) {
  TANGRAM_CHECK(speed > 0, "a day passes at some speed");
  for (auto& service : workload.services) {
    speed_up(service.traffic, speed);
    if (!service.size_drift) continue;
    service.size_drift->begin_s /= speed;
    service.size_drift->end_s /= speed;
  }
  return workload;
}

}  // namespace tangram
