#include "lab/traffic_design.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace tangram::lab {
namespace {

using namespace std::chrono_literals;

Service service_with(Traffic traffic, double window_s = 0) {
  Service service;
  service.name = service.model = "a";
  service.slo = {.latency = 100ms, .percentile = 99, .window_s = window_s};
  service.traffic = std::move(traffic);
  return service;
}

double sum(const std::vector<double>& weight) { return std::accumulate(weight.begin(), weight.end(), 0.0); }

const TrafficView* find_view(const TrafficDesign& design, const std::string& name) {
  const auto found = std::ranges::find(design.views(), name, &TrafficView::name);
  return found == design.views().end() ? nullptr : &*found;
}

// Bursts of 60 s at ten times the rate of calms of 600 s bring 600 / 1200 of all requests.
TEST(TrafficDesign, WeighsBurstsByTheirShareOfTheRequests) {
  const TrafficDesign design(service_with(BurstTraffic{1000, 10, 60, 600}), 1);
  ASSERT_EQ(design.parts(), 4u);
  const auto& weight = design.views()[0].weight;
  EXPECT_NEAR(sum(weight), 1, 1e-12);
  EXPECT_NEAR(weight[2] + weight[3], 0.5, 1e-9);
  ASSERT_NE(find_view(design, "bursts"), nullptr);
  EXPECT_FALSE(find_view(design, "bursts")->binding);
  EXPECT_EQ(find_view(design, "busiest window"), nullptr);
}

// A window of 30 s lies within some burst, and only bursts count in it.
TEST(TrafficDesign, HoldsAWindowAgainstABurst) {
  const TrafficDesign design(service_with(BurstTraffic{1000, 10, 60, 600}, 30), 1);
  const TrafficView* view = find_view(design, "busiest window");
  ASSERT_NE(view, nullptr);
  EXPECT_TRUE(view->binding);
  EXPECT_EQ(view->weight[0] + view->weight[1], 0);
  EXPECT_NEAR(sum(view->weight), 1, 1e-12);
}

// Of a trace with fewer but larger inputs in its second half, that half is the busiest.
TEST(TrafficDesign, RanksTheWindowsOfATraceByWork) {
  TraceTraffic replay;
  for (int i = 0; i < 100'000; ++i) {
    const bool second = i >= 60'000;
    const double at = second ? 1800 + (i - 60'000) * 0.045 : i * 0.03;
    replay.trace.push_back({kTimeZero + from_seconds(at), second ? 512 : 16, 1});
  }
  Service service = service_with(replay);
  service.input_size = TraceSize{};
  const SlicePower power{{16, 512}, {0.001, 0.02}, 0.008};
  const TrafficDesign design(service, 1, power);
  const TrafficRun run = design.draw(Rng(1), 0, 1);
  const auto& drawn = std::get<TraceTraffic>(run.traffic).trace;
  const auto at_busiest =
      static_cast<std::size_t>(std::ranges::find(run.parts.by_step, static_cast<std::uint8_t>(design.busiest_part())) -
                               run.parts.by_step.begin());
  const auto first = std::ranges::lower_bound(drawn, kTimeZero + run.parts.step * static_cast<std::int64_t>(at_busiest),
                                              {}, &TraceEntry::at);
  ASSERT_NE(first, drawn.end());
  EXPECT_EQ(first->size, 512);
}

// Slices that are nearly full forget more slowly.
TEST(TrafficDesign, WaitsLongerNearFullLoad) {
  Service service = service_with(PoissonTraffic{1000});
  service.slo.latency = 2s;
  const auto lasts = [&](double request_s) {
    return TrafficDesign(service, 1, {{1}, {request_s}, request_s}).draw(Rng(1), 0, 4).duration;
  };
  EXPECT_GT(lasts(0.00095), 4 * lasts(0.0005));
  EXPECT_GT(lasts(0.00102), 4 * lasts(0.0005));
}

// A cycle of bursts of minutes takes seconds to simulate, whatever its length is.
TEST(TrafficDesign, ShortensLongCycles) {
  const TrafficDesign design(service_with(BurstTraffic{1000, 10, 60, 6000}), 1);
  const TrafficRun run = design.draw(Rng(1), 0, 1);
  EXPECT_LT(to_seconds(run.duration), 120);
  EXPECT_EQ(run.replicates, 1u);
  const auto& steps = run.parts.by_step;
  EXPECT_EQ(steps.front(), sim::TrafficParts::kUncounted);
  EXPECT_NE(std::ranges::find(steps, 3), steps.end());
}

// A day at 100/s with a peak of 190/s: the busiest hour has nearly the rate of the peak, which is 1 / 12.7 of the day.
TEST(TrafficDesign, JudgesTheBusiestHourOfADay) {
  const TrafficDesign design(service_with(DiurnalTraffic{100, 0.9, 86400, 43200}), 1);
  const TrafficView* hour = find_view(design, "busiest hour");
  ASSERT_NE(hour, nullptr);
  EXPECT_TRUE(hour->binding);
  double of_day = 0;
  for (std::size_t p = 0; p < design.parts(); ++p) {
    if (hour->weight[p] > 0) of_day += design.views()[0].weight[p];
  }
  EXPECT_NEAR(of_day, 1.8975 / 24, 1e-3);
  EXPECT_LT(to_seconds(design.draw(Rng(1), 0, 1).duration), 3600);
}

// A curve of half an hour is judged as a whole only.
TEST(TrafficDesign, HasNoBusiestHourInAShortCurve) {
  CurveTraffic curve;
  curve.step_s = 60;
  curve.rate_per_s.assign(30, 100);
  const TrafficDesign design(service_with(curve), 1);
  EXPECT_EQ(design.views().size(), 1u);
}

// One step of ten thousand is ten times as high. Its window is among the first four, all of which the first four
// replicates simulate.
TEST(TrafficDesign, SimulatesTheBusiestWindowsFirst) {
  CurveTraffic curve;
  curve.step_s = 10;
  curve.rate_per_s.assign(10000, 100);
  curve.rate_per_s[7777] = 1000;
  const TrafficDesign design(service_with(curve), 1);
  double highest = 0;
  for (std::size_t replicate = 0; replicate < 4; ++replicate) {
    const TrafficRun run = design.draw(Rng(5), replicate, 1);
    highest = std::max(highest, std::ranges::max(std::get<CurveTraffic>(run.traffic).rate_per_s));
  }
  EXPECT_NEAR(highest, 1000, 1e-6);
}

// 100,000 requests in a trace with one busy minute: every window is a part, and the shares are those of the requests.
TEST(TrafficDesign, CutsALongTraceIntoWindows) {
  TraceTraffic replay;
  double at = 0;
  for (int i = 0; i < 100000; ++i) {
    at += i >= 50000 && i < 56000 ? 0.01 : 0.05;
    replay.trace.push_back({kTimeZero + from_seconds(at), 7, 1});
  }
  const Service service = service_with(replay);
  const TrafficDesign design(service, 1);
  ASSERT_GT(design.parts(), 1u);
  EXPECT_NEAR(sum(design.views()[0].weight), 1, 1e-12);
  const TrafficRun run = design.draw(Rng(1), 0, 1);
  const auto& trace = std::get<TraceTraffic>(run.traffic).trace;
  EXPECT_LT(trace.size(), 60000u);
  EXPECT_TRUE(std::ranges::is_sorted(trace, {}, &TraceEntry::at));
  EXPECT_EQ(trace.front().size, 7);
}

// Bursts of a tenth of a second come as described: nothing can be left out of so short a cycle. A window of half a
// second may lie within a burst, so it is judged by the rate of the burst.
TEST(TrafficDesign, LeavesShortCyclesAsTheyAre) {
  const TrafficDesign design(service_with(BurstTraffic{200, 5, 0.1, 0.4}), 1);
  EXPECT_TRUE(std::holds_alternative<BurstTraffic>(design.draw(Rng(1), 0, 1).traffic));
  const TrafficDesign windowed(service_with(BurstTraffic{200, 5, 0.1, 0.4}, 0.5), 1);
  const auto traffic = windowed.draw(Rng(1), 0, 1).traffic;
  ASSERT_TRUE(std::holds_alternative<PoissonTraffic>(traffic));
  EXPECT_NEAR(std::get<PoissonTraffic>(traffic).rate_per_s, 200 * 5 / 1.8, 1e-9);
  EXPECT_EQ(windowed.views()[0].name, "busiest window");
}

// A short trace with a window is cut into windows, too: the busiest ten seconds are judged apart.
TEST(TrafficDesign, JudgesTheBusiestWindowOfAShortTrace) {
  TraceTraffic replay;
  for (int i = 0; i < 2000; ++i) {
    const double at = i < 1000 ? 0.1 * i : i < 1500 ? 100 + 0.02 * (i - 1000) : 110 + 0.1 * (i - 1500);
    replay.trace.push_back({kTimeZero + from_seconds(at), 1, 1});
  }
  const Service service = service_with(replay, 10);
  const TrafficDesign design(service, 1);
  ASSERT_NE(find_view(design, "busiest window"), nullptr);
  EXPECT_TRUE(find_view(design, "busiest window")->binding);
}

// The design is the same for the same seed, and another seed draws other windows or lengths.
TEST(TrafficDesign, RepeatsItselfForASeed) {
  const TrafficDesign design(service_with(BurstTraffic{200, 5, 10, 90}), 1);
  const auto steps = [&](std::uint64_t seed) { return design.draw(Rng(seed), 0, 4).parts.by_step; };
  EXPECT_EQ(steps(1), steps(1));
  EXPECT_NE(steps(1), steps(2));
}

}  // namespace
}  // namespace tangram::lab
