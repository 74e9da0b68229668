#include "core/day.h"

#include <gtest/gtest.h>

namespace tangram {
namespace {

using namespace std::chrono_literals;

Workload one(const Traffic& traffic) {
  Service service;
  service.slo = {900ms, 99, 60};
  service.traffic = traffic;
  return {{service}};
}

// 15 minutes / 60 = 15 s, with the same rates.
TEST(AtSpeed, ShortensTheStepsOfACurveAndKeepsItsRates) {
  const auto fast = at_speed(one(CurveTraffic{"", 900, 0.4, {100, 300}}), 60);
  const auto& curve = std::get<CurveTraffic>(fast.services[0].traffic);
  EXPECT_DOUBLE_EQ(curve.step_s, 15);
  EXPECT_EQ(curve.rate_per_s, (std::vector<double>{100, 300}));
  EXPECT_DOUBLE_EQ(mean_rate_per_s(fast.services[0].traffic), 80);
}

TEST(AtSpeed, ShortensThePeriodOfADayWithItsPeakAndItsDrift) {
  Workload workload = one(DiurnalTraffic{15, 0.8, 86400, 43200});
  workload.services[0].size_drift = SizeDrift{ConstantSize{9}, 36000, 50400};
  const auto fast = at_speed(workload, 60);
  const auto& day = std::get<DiurnalTraffic>(fast.services[0].traffic);
  EXPECT_DOUBLE_EQ(day.period_s, 1440);
  EXPECT_DOUBLE_EQ(day.peak_at_s, 720);
  EXPECT_DOUBLE_EQ(day.rate_per_s, 15);
  EXPECT_DOUBLE_EQ(fast.services[0].size_drift->begin_s, 600);
  EXPECT_DOUBLE_EQ(fast.services[0].size_drift->end_s, 840);
}

// What is real: promises, the shape of bursts and recorded requests.
TEST(AtSpeed, LeavesPromisesBurstsAndTracesAlone) {
  const auto bursts = at_speed(one(BurstTraffic{50, 5, 10, 90}), 60);
  EXPECT_EQ(bursts.services[0].slo, one(PoissonTraffic{}).services[0].slo);
  EXPECT_DOUBLE_EQ(std::get<BurstTraffic>(bursts.services[0].traffic).burst_mean_s, 10);
  EXPECT_DOUBLE_EQ(std::get<BurstTraffic>(bursts.services[0].traffic).calm_mean_s, 90);
  const auto replay = at_speed(one(TraceTraffic{"", 1, {{kTimeZero + 2s}, {kTimeZero + 4s}}}), 60);
  EXPECT_DOUBLE_EQ(std::get<TraceTraffic>(replay.services[0].traffic).speed, 1);
}

}  // namespace
}  // namespace tangram
