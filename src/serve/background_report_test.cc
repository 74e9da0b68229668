#include "serve/background_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tangram::serve {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// The first thing that stands in the way is told, what will never change before what may.
TEST(BackgroundReport, SaysWhatStandsInTheWay) {
  sched::BackgroundOutlook outlook{.waiting = 3, .run = 40ms, .run_max = 12ms, .run_idle = 40ms, .run_max_idle = 30ms};
  outlook.online_waits = true;
  EXPECT_EQ(why_background_waits(outlook, 0), "no slice serves the model");
  EXPECT_THAT(why_background_waits(outlook, 2), HasSubstr("a run takes 40 ms"));
  EXPECT_THAT(why_background_waits(outlook, 2),
              HasSubstr("background runs of at most 30 ms, even without online traffic"));
  outlook.run = outlook.run_idle = 20ms;
  EXPECT_EQ(why_background_waits(outlook, 2), "online requests are queued for the same slices");
  outlook.online_waits = false;
  EXPECT_EQ(why_background_waits(outlook, 2), "online traffic leaves room for runs of 12 ms, but one run takes 20 ms");
  outlook.run_max = -5ms;
  EXPECT_EQ(why_background_waits(outlook, 2), "online traffic leaves room for runs of 0 ms, but one run takes 20 ms");
  outlook.run_max = 25ms;
  EXPECT_EQ(why_background_waits(outlook, 2), "");
  outlook.waiting = 0;
  EXPECT_EQ(why_background_waits(outlook, 0), "");
}

}  // namespace
}  // namespace tangram::serve
