#include "serve/slice_speeds.h"

#include <gtest/gtest.h>

namespace tangram::serve {
namespace {

using namespace std::chrono_literals;

constexpr SliceId kSlice{3};

// Batches of 10 ms by the plan, one every ten seconds, that take `factor` times as long. Seconds until the answer
// changes; 0 if it does not within `limit`.
int seconds_until_news(SliceSpeeds& speeds, int begin, double factor, int limit, bool expected) {
  for (int s = begin; s < begin + limit; s += 10) {
    const auto took = from_milliseconds(10 * factor);
    if (const auto news = speeds.observe(kSlice, kTimeZero + std::chrono::seconds(s), took, 10ms)) {
      EXPECT_EQ(*news, expected);
      return s - begin + 10;
    }
  }
  return 0;
}

// Six times slower than planned is noticed within a minute even at one batch every ten seconds, and so is the end.
TEST(SliceSpeeds, NoticesASlowSliceWithinAMinute) {
  SliceSpeeds speeds;
  EXPECT_EQ(seconds_until_news(speeds, 0, 1.2, 300, false), 0);
  const int noticed = seconds_until_news(speeds, 300, 6, 300, true);
  EXPECT_GT(noticed, 0);
  EXPECT_LE(noticed, 60);
  EXPECT_TRUE(speeds.slow(kSlice));
  EXPECT_EQ(seconds_until_news(speeds, 600, 6, 300, true), 0);  // Said once.
  EXPECT_NEAR(speeds.ratio(kSlice), 6, 0.01);
  const int recovered = seconds_until_news(speeds, 900, 1, 300, false);
  EXPECT_GT(recovered, 0);
  EXPECT_LE(recovered, 60);
  EXPECT_FALSE(speeds.slow(kSlice));
}

// Every third batch stalls for a hundred times its length: a mean would call that slow.
TEST(SliceSpeeds, ForgivesStalls) {
  SliceSpeeds speeds;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(speeds.observe(kSlice, kTimeZero + i * 100ms, i % 3 == 0 ? 1s : 10ms, 10ms)) << i;
  }
}

TEST(SliceSpeeds, SaysNothingOfTwoBatchesOrOfOldOnes) {
  SliceSpeeds speeds;
  for (int i = 0; i < 20; ++i) {
    // Two at a time, with a minute and a half between.
    EXPECT_FALSE(speeds.observe(kSlice, kTimeZero + i / 2 * 90s, 60ms, 10ms)) << i;
  }
  EXPECT_EQ(speeds.ratio(SliceId(9)), 1);
  EXPECT_FALSE(speeds.observe(kSlice, kTimeZero + 1h, 60ms, 0ms));
}

}  // namespace
}  // namespace tangram::serve
