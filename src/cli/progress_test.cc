#include "cli/progress.h"

#include <gtest/gtest.h>

#include <sstream>

namespace tangram::cli {
namespace {

using namespace std::chrono_literals;

constexpr Terminal kWatched{.interactive = true, .colour = false, .width = 60};

class ProgressTest : public testing::Test {
 protected:
  Progress bar(const Terminal& terminal, std::uint64_t total, bool wanted = true) {
    return Progress(out_, terminal, {.label = "work", .total = total, .wanted = wanted}, [this] { return now_; });
  }

  std::ostringstream out_;
  Progress::Clock::time_point now_{};
};

// A quarter in 10 s leaves three quarters, 30 s. The label takes 4 of 60 columns and the numbers 28, so 28 are
// left for the bar, of which a quarter is 7.
TEST_F(ProgressTest, ShowsTheShareAndTheTimeLeft) {
  Progress progress = bar(kWatched, 100);
  now_ += 10s;
  progress.set(25);
  EXPECT_EQ(out_.str(), "\r\x1b[Kwork  ███████                       25%  about 30 s left");
}

TEST_F(ProgressTest, StaysSilentForHalfASecond) {
  Progress progress = bar(kWatched, 100);
  now_ += 499ms;
  progress.set(10);
  EXPECT_EQ(out_.str(), "");
  now_ += 1ms;
  progress.set(11);
  EXPECT_NE(out_.str(), "");
}

TEST_F(ProgressTest, DrawsAtMostTenTimesASecond) {
  Progress progress = bar(kWatched, 1000);
  now_ += 1s;
  progress.set(1);
  const auto once = out_.str();
  now_ += 99ms;
  progress.set(2);
  EXPECT_EQ(out_.str(), once);
}

TEST_F(ProgressTest, RemovesItselfAtTheEnd) {
  {
    Progress progress = bar(kWatched, 10);
    now_ += 1s;
    progress.set(5);
  }
  EXPECT_TRUE(out_.str().ends_with("\r\x1b[K"));
}

TEST_F(ProgressTest, ShowsNothingWhereNobodyWatchesOrWants) {
  {
    Progress piped = bar({}, 10);
    Progress quiet = bar(kWatched, 10, false);
    now_ += 10s;
    piped.set(5);
    quiet.set(5);
  }
  EXPECT_EQ(out_.str(), "");
}

}  // namespace
}  // namespace tangram::cli
