#include "control/capacity_watch.h"

#include <gtest/gtest.h>

namespace tangram::control {
namespace {

using namespace std::chrono_literals;

// Two slices that run batches of 4 in 100 ms: together 80 requests/s.
sched::Deployment two_slices() {
  sched::Deployment deployment;
  sched::LatencyTable table(1, 4);
  for (int n = 1; n <= 4; ++n) table.set(0, n, {100ms, 100ms});
  deployment.pools.push_back({"x/1g", 1, 1, {{ServiceId(0), {4}, table}}});
  deployment.services.push_back({"ask", {1s, 99}, 0, Padding::bucket, {16}, {sched::PoolId(0)}, 4});
  deployment.places = {{DeviceId(0), sched::PoolId(0), {0, 0}, 0}, {DeviceId(0), sched::PoolId(0), {0, 1}, 0}};
  return deployment;
}

TEST(CapacityWatch, MeasuresWhatTheSlicesThatServeCanTake) {
  sched::State state(two_slices(), 10, 0);
  EXPECT_NEAR(capacity_per_s(state, ServiceId(0), {{8, 1}}), 80, 1e-6);
  state.slices.go_away(SliceId(0), sched::SliceStatus::restarting);
  state.count_capacity();
  EXPECT_NEAR(capacity_per_s(state, ServiceId(0), {{8, 1}}), 40, 1e-6);
}

// 30/s are needed. One slice is enough; for two seconds there is none.
TEST(CapacityWatch, SaysByHowMuchAndForHowLongAServiceFellShort) {
  sched::State state(two_slices(), 10, 0);
  CapacityWatch watch;
  watch.begin({{30, {{8, 1}}}}, kTimeZero);
  state.slices.go_away(SliceId(0), sched::SliceStatus::restarting);
  state.count_capacity();
  watch.note(state, kTimeZero + 1s);
  EXPECT_TRUE(watch.shorts().empty());
  state.slices.go_away(SliceId(1), sched::SliceStatus::restarting);
  state.count_capacity();
  watch.note(state, kTimeZero + 2s);
  watch.note(state, kTimeZero + 3s);
  state.slices.join(SliceId(0), kTimeZero + 4s);
  state.count_capacity();
  watch.note(state, kTimeZero + 4s);
  watch.note(state, kTimeZero + 9s);
  EXPECT_EQ(watch.shorts(), (std::vector<CapacityWatch::Short>{{ServiceId(0), 30, 0, 2s}}));
}

}  // namespace
}  // namespace tangram::control
