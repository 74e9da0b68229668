#include "core/workload.h"

#include <gtest/gtest.h>

namespace tangram {
namespace {

using namespace std::chrono_literals;

TEST(MeanRate, IsTheStatedRateOfRandomTraffic) {
  EXPECT_DOUBLE_EQ(mean_rate_per_s(PoissonTraffic{5}), 5);
  EXPECT_DOUBLE_EQ(mean_rate_per_s(ConstantTraffic{7}), 7);
  EXPECT_DOUBLE_EQ(mean_rate_per_s(BurstTraffic{.rate_per_s = 3}), 3);
  EXPECT_DOUBLE_EQ(mean_rate_per_s(DiurnalTraffic{.rate_per_s = 4}), 4);
  EXPECT_DOUBLE_EQ(mean_rate_per_s(ClosedLoopTraffic{.clients = 9}), 0);
}

TEST(MeanRate, OfACurveIsItsScaledMean) {
  EXPECT_DOUBLE_EQ(mean_rate_per_s(CurveTraffic{.file = "", .step_s = 60, .scale = 2, .rate_per_s = {1, 2, 6}}), 6);
  EXPECT_DOUBLE_EQ(mean_rate_per_s(CurveTraffic{}), 0);
}

// Four requests in three seconds are three gaps of one second; twice as fast is two a second.
TEST(MeanRate, OfATraceCountsTheGaps) {
  TraceTraffic replay;
  for (int i = 0; i < 4; ++i) replay.trace.push_back({kTimeZero + i * 1s});
  EXPECT_DOUBLE_EQ(mean_rate_per_s(replay), 1);
  replay.speed = 2;
  EXPECT_DOUBLE_EQ(mean_rate_per_s(replay), 2);
  replay.trace.resize(1);
  EXPECT_DOUBLE_EQ(mean_rate_per_s(replay), 0);
  EXPECT_DOUBLE_EQ(mean_rate_per_s(TraceTraffic{.file = "", .speed = 1, .trace = {{kTimeZero}, {kTimeZero}}}), 0);
}

// Calm at 10/s for 90 s and bursts at 50/s for 10 s: the mean is (90 * 10 + 10 * 50) / 100 = 14/s.
TEST(BurstRate, FollowsFromTheMeanOverBothStates) {
  EXPECT_DOUBLE_EQ(burst_rate_per_s({.rate_per_s = 14, .burst_factor = 5, .burst_mean_s = 10, .calm_mean_s = 90}), 50);
}

TEST(LargestSize, IsTheUpperEndOfEachDistribution) {
  Service service;
  service.input_size = ConstantSize{128};
  EXPECT_EQ(largest_size(service), 128);
  service.input_size = LogNormalSize{.median = 50, .sigma = 1, .min = 1, .max = 512};
  EXPECT_EQ(largest_size(service), 512);
  service.input_size = HistogramSize{.file = "", .bins = {{16, 1}, {64, 0.5}}};
  EXPECT_EQ(largest_size(service), 64);
  service.input_size = HistogramSize{};
  EXPECT_EQ(largest_size(service), 1);
}

TEST(LargestSize, OfATraceIsItsLargestEntryWhereverItStands) {
  Service service;
  service.input_size = TraceSize{};
  EXPECT_EQ(largest_size(service), 1);
  service.traffic = TraceTraffic{.file = "", .speed = 1, .trace = {{kTimeZero, 7}, {kTimeZero, 90}, {kTimeZero, 3}}};
  EXPECT_EQ(largest_size(service), 90);
}

TEST(MayShareSlices, OnlyServicesOfOneEngineAndCommand) {
  Service a;
  Service b;
  EXPECT_TRUE(may_share_slices(a, b));
  b.engine = ServiceEngine::onnx;
  EXPECT_FALSE(may_share_slices(a, b));
  a.engine = b.engine = ServiceEngine::command;
  b.command = "serve --port {port}";
  EXPECT_FALSE(may_share_slices(a, b));
  a.command = b.command;
  EXPECT_TRUE(may_share_slices(a, b));
  a.engine = b.engine = ServiceEngine::remote;
  b.remotes = {{"2g.20gb", "triton:8000"}};
  EXPECT_FALSE(may_share_slices(a, b));
}

}  // namespace
}  // namespace tangram
