#include "serve/tally.h"

#include <gtest/gtest.h>

namespace tangram::serve {
namespace {

using namespace std::chrono_literals;

// A thousand values from 1 us to 1 ms: the median is 500 us and the 99th of a hundred 990 us, each up to a sixteenth.
TEST(SharedDurations, KnowsQuantilesUpToASixteenth) {
  SharedDurations durations;
  EXPECT_EQ(durations.quantile(0.5), 0ns);
  for (int i = 1; i <= 1000; ++i) durations.add(std::chrono::microseconds(i));
  EXPECT_EQ(durations.count(), 1000u);
  for (const auto& [q, exact] : {std::pair{0.5, 500us}, std::pair{0.99, 990us}, std::pair{1.0, 1000us}}) {
    EXPECT_GE(durations.quantile(q), exact);
    EXPECT_LE(durations.quantile(q), exact * 17 / 16);
  }
}

TEST(SharedDurations, TakesWhatIsBeyondItsEnds) {
  SharedDurations durations;
  durations.add(-1s);
  durations.add(0s);
  durations.add(1h);
  EXPECT_EQ(durations.count(), 3u);
  EXPECT_LE(durations.quantile(0.5), 1us);
  EXPECT_GE(durations.quantile(1), 4s);
}

}  // namespace
}  // namespace tangram::serve
