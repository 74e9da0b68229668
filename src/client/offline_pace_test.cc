#include "client/offline_pace.h"

#include <gtest/gtest.h>

namespace tangram::client {
namespace {

using namespace std::chrono_literals;

// A server that answers each row after 10 ms, but no more than `rate_max` a second: with n rows under way the rate is
// the lesser of 100 n and rate_max.
std::size_t window_after(Duration span, double rate_max, std::size_t limit) {
  RowWindow window(limit);
  TimePoint now = kTimeZero;
  while (now - kTimeZero < span) {
    now += from_seconds(1 / std::min(100.0 * static_cast<double>(window.size()), rate_max));
    window.on_answer(now);
  }
  return window.size();
}

// 16 rows bring 1,600 rows a second and 32 bring no more, so it comes to rest between them; a limit holds anyway.
TEST(RowWindow, GrowsWhileMoreRowsBringMoreAnswers) {
  const std::size_t found = window_after(20s, 1600, 1024);
  EXPECT_GE(found, 16U);
  EXPECT_LE(found, 64U);
  EXPECT_EQ(window_after(20s, 1e9, 128), 128U);
}

TEST(RowWindow, HalvesWhenTheServerRefuses) {
  RowWindow window(256);
  window.on_refusal(kTimeZero);
  EXPECT_EQ(window.size(), RowWindow::kFirst / 2);
  for (int i = 0; i < 10; ++i) window.on_refusal(kTimeZero);
  EXPECT_EQ(window.size(), 1U);
}

// 50 rows a second for a minute; then 100 rows take 2 s.
TEST(RowPace, TellsHowLongTheRestTakes) {
  RowPace pace;
  EXPECT_FALSE(pace.time_for(1).has_value());
  for (int s = 0; s <= 60; ++s) pace.on_progress(kTimeZero + s * 1s, static_cast<std::uint64_t>(50 * s));
  EXPECT_NEAR(pace.rows_per_s(), 50, 0.1);
  EXPECT_NEAR(to_seconds(*pace.time_for(100)), 2, 0.01);
  EXPECT_EQ(pace.time_for(0), Duration::zero());
}

// 95 s of work in 100 s is within the last tenth; 80 s are not.
TEST(RowPace, IsPressedInTheLastTenthOfTheTime) {
  EXPECT_TRUE(is_pressed(100s, 95s));
  EXPECT_FALSE(is_pressed(100s, 80s));
  EXPECT_TRUE(is_pressed(-1s, 1s));
  EXPECT_FALSE(is_pressed(100s, std::nullopt));
}

}  // namespace
}  // namespace tangram::client
