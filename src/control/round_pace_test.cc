#include "control/round_pace.h"

#include <gtest/gtest.h>

namespace tangram::control {
namespace {

// Rounds every 60 s; a change brings the next one forward, but not within 5 s of the last.
TEST(RoundPace, HoldsARoundSoonerAfterAChange) {
  RoundPace pace(60);
  EXPECT_TRUE(pace.due(0));
  pace.hold(0);
  EXPECT_FALSE(pace.due(59));
  EXPECT_TRUE(pace.due(60));
  pace.mark_changed();
  EXPECT_FALSE(pace.due(4));
  EXPECT_TRUE(pace.due(5));
  pace.hold(5);
  EXPECT_FALSE(pace.due(10));
  EXPECT_EQ(pace.rounds(), 2);
}

}  // namespace
}  // namespace tangram::control
