#include "control/service_watch.h"

#include <gtest/gtest.h>

namespace tangram::control {
namespace {

constexpr double kWindowS = 300;

Service service_of_99() {
  Service service;
  service.name = "a";
  service.slo = {std::chrono::milliseconds(100), 99};
  return service;
}

// Starts at a rate that is a power of 1.1, as a controller's demand always is, so that a steady rate asks for nothing.
ServiceWatch watch_at(double rate_per_s) {
  return {ServiceWatch::Options{}, service_of_99(), {rounded_up(rate_per_s, 0.1), {{10, 1}}}};
}

// A window in which everything is served in time.
ServiceObservation window_of(double rate_per_s) {
  const auto arrived = static_cast<std::uint64_t>(rate_per_s * kWindowS);
  return {.arrived = arrived, .served = arrived, .sizes = {{10, arrived}}};
}

// 10/s are planned for as 1.1^25 = 10.83. As long as 10/s come, the forecast is 10.83 at most, and the plan fits.
TEST(ServiceWatch, IsContentWithTheRateThatIsPlannedFor) {
  ServiceWatch watch = watch_at(10);
  for (int i = 0; i < 12; ++i) {
    watch.end_window(window_of(10), kWindowS);
    EXPECT_EQ(watch.rate_reason(), "");
    EXPECT_EQ(watch.mix_reason(), "");
  }
}

// The rate doubles. One window is enough to ask for more.
TEST(ServiceWatch, AsksForMoreAtOnce) {
  ServiceWatch watch = watch_at(10);
  watch.end_window(window_of(20), kWindowS);
  EXPECT_NE(watch.rate_reason(), "");
  EXPECT_GT(watch.wanted(false).rate_per_s, 16);
}

// The rate halves. Two quiet windows change nothing, the third asks for less; what is planned for then starts counting
// again.
TEST(ServiceWatch, AsksForLessAfterThreeQuietWindows) {
  ServiceWatch watch = watch_at(10);
  int windows = 0;
  while (watch.rate_reason().empty() && windows < 20) {
    watch.end_window(window_of(5), kWindowS);
    ++windows;
  }
  // The level needs a window or so to come below 0.85 of the plan, and then three windows have to be quiet.
  EXPECT_GE(windows, 3);
  EXPECT_LE(windows, 6);
  const ServiceDemand less = watch.wanted(false);
  EXPECT_LT(less.rate_per_s, 0.85 * watch.planned().rate_per_s);
  watch.set_planned(less);
  EXPECT_EQ(watch.rate_reason(), "");
}

// The rate is as planned, but 3 % of the requests are late where 1 % may be: a step more is planned for with each
// window.
TEST(ServiceWatch, AsksForMoreWhenThePromiseBreaksAtThePlannedRate) {
  ServiceWatch watch = watch_at(10);
  ServiceObservation window = window_of(10);
  window.late = window.arrived * 3 / 100;
  window.served -= window.late;
  for (int i = 0; i < 3; ++i) watch.end_window(window, kWindowS);
  // Three steps of 10 % on a forecast of 10/s are 13/s.
  EXPECT_GE(watch.wanted(false).rate_per_s, 13);
}

// A look of 300 where 108 are expected is a surge: 1.25 * 30 = 37.5/s, rounded up. It is forgotten when the window
// ends.
TEST(ServiceWatch, AnswersASurgeBetweenWindows) {
  ServiceWatch watch = watch_at(10);
  EXPECT_EQ(watch.surge_reason(), "");
  watch.look(300, 10);
  EXPECT_NE(watch.surge_reason(), "");
  EXPECT_NEAR(watch.wanted_in_surge().rate_per_s, rounded_up(37.5, 0.1), 1e-9);
  watch.end_window(window_of(12), kWindowS);
  EXPECT_EQ(watch.surge_reason(), "");
  // The window that had it still asks for it.
  EXPECT_NEAR(watch.wanted(false).rate_per_s, rounded_up(37.5, 0.1), 1e-9);
}

// A window of 3,000 requests of size 40 where size 10 is planned for: nothing in common, a distance of 1. 900 requests
// are too few to tell.
TEST(ServiceWatch, NoticesOtherSizesInEnoughRequests) {
  ServiceWatch few = watch_at(10);
  few.end_window({.arrived = 900, .served = 900, .sizes = {{40, 900}}}, kWindowS);
  EXPECT_EQ(few.mix_reason(), "");
  ServiceWatch watch = watch_at(10);
  watch.end_window({.arrived = 3000, .served = 3000, .sizes = {{40, 3000}}}, kWindowS);
  EXPECT_EQ(watch.mix_reason(), "a: sizes moved by 1.00, mean 10 -> 40");
  EXPECT_EQ(watch.wanted(true).mix, (SizeCounts{{40, 3000}}));
  EXPECT_EQ(watch.wanted(false).mix, (SizeCounts{{10, 1}}));
}

// Bursts of five times the calm rate, a tenth of the time: 5 / (0.1 * 5 + 0.9) = 3.57 times the mean. The plan for a
// mean of 10.83/s carries bursts of 38.7/s, so looks at 36/s are no surge, and looks at 60/s ask for a mean of
// 1.25 * 60 / 3.57 = 21/s.
TEST(ServiceWatch, TakesABurstOfTheServicesFileForPlanned) {
  Service service = service_of_99();
  service.traffic = BurstTraffic{10, 5, 10, 90};
  ServiceWatch watch(ServiceWatch::Options{}, service, {rounded_up(10, 0.1), {{10, 1}}});
  watch.look(360, 10);
  EXPECT_EQ(watch.surge_reason(), "");
  watch.look(600, 10);
  EXPECT_NE(watch.surge_reason(), "");
  EXPECT_NEAR(watch.wanted_in_surge().rate_per_s, 22, 2);
}

}  // namespace
}  // namespace tangram::control
