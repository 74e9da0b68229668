#include "control/move_guard.h"

#include <gtest/gtest.h>

namespace tangram::control {
namespace {

using namespace std::chrono_literals;

// One service that promises 99 % in time, watched for ten minutes before and after a move.
struct Guarded {
  MoveGuard guard{{}, services()};
  TimePoint now = kTimeZero;

  static std::vector<Service> services() {
    Service service;
    service.name = "ask";
    service.slo = {1s, 99};
    return {service};
  }

  // A look of ten seconds.
  void look(std::uint64_t kept, std::uint64_t missed, bool moving = false) {
    now += 10s;
    Observation seen{now, moving, {{.arrived = kept + missed, .served = kept, .late = missed, .sizes = {}}}};
    guard.observe(seen);
  }
};

// 0.5 % missed before, 2.5 % after, of 200 in a look: after some looks that is no chance any more.
TEST(MoveGuard, NamesAServiceThatDoesWorse) {
  Guarded bench;
  for (int i = 0; i < 60; ++i) bench.look(199, 1);
  EXPECT_EQ(bench.guard.verdict(), "");
  bench.guard.begin(bench.now, {{25, {}}});
  bench.look(195, 5);
  EXPECT_EQ(bench.guard.verdict(), "");
  for (int i = 0; i < 10; ++i) bench.look(195, 5);
  EXPECT_EQ(bench.guard.verdict(), "ask: 97.5 % in time since the move, 99.5 % before, 99 % promised");
}

TEST(MoveGuard, IsSilentWhereThePromiseIsKept) {
  Guarded bench;
  for (int i = 0; i < 60; ++i) bench.look(200, 0);
  bench.guard.begin(bench.now, {{25, {}}});
  for (int i = 0; i < 30; ++i) bench.look(199, 1);
  EXPECT_EQ(bench.guard.verdict(), "");
}

// A service that missed as much before the move is not made better by going back.
TEST(MoveGuard, IsSilentWhereItWasNoBetterBefore) {
  Guarded bench;
  for (int i = 0; i < 60; ++i) bench.look(195, 5);
  bench.guard.begin(bench.now, {{25, {}}});
  for (int i = 0; i < 30; ++i) bench.look(195, 5);
  EXPECT_EQ(bench.guard.verdict(), "");
}

// A stall broke the promise before the move, and its queue after it: the plan before would have done no better.
TEST(MoveGuard, IsSilentWhereThePromiseWasBrokenBefore) {
  Guarded bench;
  for (int i = 0; i < 60; ++i) bench.look(196, 4);
  bench.guard.begin(bench.now, {{25, {}}});
  for (int i = 0; i < 30; ++i) bench.look(120, 80);
  EXPECT_EQ(bench.guard.verdict(), "");
}

// 20 requests/s where 15 are planned for: the traffic is at fault.
TEST(MoveGuard, DoesNotBlameThePlanForMoreTraffic) {
  Guarded bench;
  for (int i = 0; i < 60; ++i) bench.look(199, 1);
  bench.guard.begin(bench.now, {{15, {}}});
  for (int i = 0; i < 30; ++i) bench.look(190, 10);
  EXPECT_EQ(bench.guard.verdict(), "");
}

TEST(MoveGuard, DoesNotCountTheMoveItself) {
  Guarded bench;
  for (int i = 0; i < 60; ++i) bench.look(199, 1);
  for (int i = 0; i < 5; ++i) bench.look(100, 100, true);
  bench.guard.begin(bench.now, {{25, {}}});
  for (int i = 0; i < 30; ++i) bench.look(199, 1);
  EXPECT_EQ(bench.guard.verdict(), "");
}

TEST(MoveGuard, StopsAfterItsTime) {
  Guarded bench;
  for (int i = 0; i < 60; ++i) bench.look(200, 0);
  bench.guard.begin(bench.now, {{25, {}}});
  for (int i = 0; i < 60; ++i) bench.look(200, 0);
  EXPECT_FALSE(bench.guard.watching());
  for (int i = 0; i < 60; ++i) bench.look(150, 50);
  EXPECT_EQ(bench.guard.verdict(), "");
}

// Inputs of 512 where 64 were planned for: the traffic is at fault.
TEST(MoveGuard, DoesNotBlameThePlanForLargerInputs) {
  for (const std::int64_t size : {64, 512}) {
    Guarded bench;
    for (int i = 0; i < 60; ++i) bench.look(200, 0);
    bench.guard.begin(bench.now, {{25, {{64, 1}}}});
    for (int i = 0; i < 30; ++i) {
      bench.now += 10s;
      bench.guard.observe({bench.now, false, {{.arrived = 200, .served = 180, .late = 20, .sizes = {{size, 200}}}}});
    }
    EXPECT_EQ(bench.guard.verdict().empty(), size == 512) << size;
  }
}

}  // namespace
}  // namespace tangram::control
