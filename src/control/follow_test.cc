#include "control/follow.h"

#include <gtest/gtest.h>

namespace tangram::control {
namespace {

using namespace std::chrono_literals;

RunningPlan plan_with(int devices, const std::string& reason) {
  RunningPlan plan = make_running_plan({}, {{}, {{25, {{1, 1}}}}}, {});
  plan.step.devices = devices;
  plan.step.reasons = {reason};
  return plan;
}

struct Followed {
  explicit Followed(FollowOptions options = {}) : follow(options, services(), plan_with(2, "the start")) {}

  static std::vector<Service> services() {
    Service service;
    service.name = "ask";
    service.slo = {1s, 99};
    return {service};
  }
  static FollowOptions in(FollowMode mode) {
    FollowOptions options;
    options.mode = mode;
    return options;
  }

  std::optional<FollowMove> look(std::uint64_t kept, std::uint64_t missed, bool moving = false) {
    now += 10s;
    return follow.on_observed({now, moving, {{.arrived = kept + missed, .served = kept, .late = missed, .sizes = {}}}});
  }
  // A plan that is put in force and whose devices are cut at once.
  void move_to(int devices) {
    const auto move = follow.on_planned(plan_with(devices, "ask: rate 10 -> 20"), now);
    ASSERT_TRUE(move);
    follow.on_begun(*move, now);
    follow.on_moved(now);
  }

  Follow follow;
  TimePoint now = kTimeZero;
};

// The same counts that take another move back: the plan before needs a device that is lost, so it never comes back.
TEST(Follow, NeverReturnsToAPlanThatNeedsALostDevice) {
  for (const bool lost : {false, true}) {
    Followed bench;
    for (int i = 0; i < 60; ++i) EXPECT_FALSE(bench.look(200, 0));
    bench.move_to(1);
    if (lost) bench.follow.on_way_back_lost();
    std::optional<FollowMove> back;
    for (int i = 0; i < 30 && !back; ++i) back = bench.look(180, 20);
    EXPECT_EQ(back.has_value(), !lost);
    EXPECT_EQ(bench.follow.undo().ok(), !lost);
  }
}

TEST(Follow, PutsAPlanInForceAndGuardsIt) {
  Followed bench;
  EXPECT_EQ(bench.follow.state(), FollowState::watching);
  const auto move = bench.follow.on_planned(plan_with(3, "ask: rate 10 -> 20"), bench.now);
  ASSERT_TRUE(move);
  EXPECT_FALSE(move->undo);
  bench.follow.on_begun(*move, bench.now);
  EXPECT_EQ(bench.follow.state(), FollowState::moving);
  EXPECT_FALSE(bench.follow.wants_plans(bench.now));
  EXPECT_EQ(bench.follow.last_reason(), "ask: rate 10 -> 20");
  bench.follow.on_moved(bench.now);
  EXPECT_EQ(bench.follow.state(), FollowState::guarding);
  EXPECT_EQ(bench.follow.running().step.devices, 3);
  EXPECT_EQ(bench.follow.moves(), 1u);
}

TEST(Follow, OnlyMentionsAPlanWhenItAdvises) {
  Followed bench(Followed::in(FollowMode::advise));
  EXPECT_FALSE(bench.follow.on_planned(plan_with(3, "ask: rate 10 -> 20"), bench.now));
  EXPECT_EQ(bench.follow.last_reason(), "would move to 3 devices: ask: rate 10 -> 20");
  EXPECT_EQ(bench.follow.running().step.devices, 2);
}

TEST(Follow, WaitsForApprovalWhenItAsks) {
  Followed bench(Followed::in(FollowMode::ask));
  EXPECT_FALSE(bench.follow.approve());
  EXPECT_FALSE(bench.follow.on_planned(plan_with(3, "ask: rate 10 -> 20"), bench.now));
  EXPECT_EQ(bench.follow.state(), FollowState::proposed);
  const auto move = bench.follow.approve();
  ASSERT_TRUE(move);
  EXPECT_EQ(move->plan.step.devices, 3);
  bench.follow.on_begun(*move, bench.now);
  EXPECT_FALSE(bench.follow.proposal());
}

// Once: then nothing happens without a person.
TEST(Follow, TakesABadPlanBackOnceAndHolds) {
  Followed bench;
  for (int i = 0; i < 60; ++i) EXPECT_FALSE(bench.look(200, 0));
  bench.move_to(3);
  std::optional<FollowMove> back;
  for (int i = 0; i < 30 && !back; ++i) back = bench.look(180, 20);
  ASSERT_TRUE(back);
  EXPECT_TRUE(back->undo);
  EXPECT_EQ(back->plan.step.devices, 2);
  bench.follow.on_begun(*back, bench.now);
  bench.follow.on_moved(bench.now);
  EXPECT_EQ(bench.follow.state(), FollowState::held);
  EXPECT_EQ(bench.follow.moves_undone(), 1u);
  EXPECT_NE(bench.follow.last_reason().find("taken back, ask: 90.0 % in time"), std::string::npos)
      << bench.follow.last_reason();
  EXPECT_FALSE(bench.follow.wants_plans(bench.now));
  EXPECT_FALSE(bench.follow.on_planned(plan_with(4, "more"), bench.now));
  for (int i = 0; i < 30; ++i) EXPECT_FALSE(bench.look(180, 20));
  ASSERT_TRUE(bench.follow.resume());
  EXPECT_TRUE(bench.follow.wants_plans(bench.now));
}

TEST(Follow, ReturnsWhenAsked) {
  Followed bench;
  EXPECT_FALSE(bench.follow.undo());
  bench.move_to(3);
  const auto back = bench.follow.undo();
  ASSERT_TRUE(back);
  EXPECT_EQ(back->plan.step.devices, 2);
}

TEST(Follow, DoesNothingWhilePaused) {
  Followed bench;
  ASSERT_TRUE(bench.follow.pause());
  EXPECT_EQ(bench.follow.state(), FollowState::paused);
  EXPECT_FALSE(bench.follow.on_planned(plan_with(3, "more"), bench.now));
  ASSERT_TRUE(bench.follow.resume());
  EXPECT_FALSE(bench.follow.resume());
  EXPECT_TRUE(bench.follow.on_planned(plan_with(3, "more"), bench.now));
}

// Time zero is 21:30. Nothing moves between 22:00 and 06:00, unless a device is lost.
TEST(Follow, MovesNothingInAFreeze) {
  EXPECT_FALSE(parse_freeze("22:00"));
  EXPECT_FALSE(parse_freeze("22:00-24:00"));
  FollowOptions options;
  options.freezes = {*parse_freeze("22:00-06:00")};
  options.day_at_zero = 21h + 30min;
  Followed bench(options);
  EXPECT_TRUE(bench.follow.wants_plans(kTimeZero));
  for (const auto later : {30min, 150min, 509min}) {
    EXPECT_FALSE(bench.follow.wants_plans(kTimeZero + later)) << later.count();
    EXPECT_FALSE(bench.follow.on_planned(plan_with(3, "more"), kTimeZero + later));
  }
  EXPECT_TRUE(bench.follow.on_planned(plan_with(3, "lost rack-0"), kTimeZero + 1h, true));
  EXPECT_TRUE(bench.follow.wants_plans(kTimeZero + 510min));
}

TEST(Follow, MovesNoMoreOftenThanAllowed) {
  FollowOptions options;
  options.moves_max = 2;
  Followed bench(options);
  bench.move_to(3);
  bench.move_to(4);
  EXPECT_FALSE(bench.follow.wants_plans(bench.now));
  EXPECT_FALSE(bench.follow.on_planned(plan_with(5, "more"), bench.now));
  bench.now += 1h;
  EXPECT_TRUE(bench.follow.wants_plans(bench.now));
}

// A person is needed to follow the traffic again, but not to replace a lost device.
TEST(Follow, ReplacesALostDeviceWhileItIsHeld) {
  Followed bench;
  bench.move_to(3);
  const auto back = bench.follow.undo();
  ASSERT_TRUE(back);
  bench.follow.on_begun(*back, bench.now);
  bench.follow.on_moved(bench.now);
  EXPECT_EQ(bench.follow.state(), FollowState::held);
  EXPECT_FALSE(bench.follow.may_ask());
  EXPECT_FALSE(bench.follow.on_planned(plan_with(3, "more"), bench.now));
  EXPECT_TRUE(bench.follow.on_planned(plan_with(3, "lost rack-0"), bench.now, true));
}

// Two devices as before, nothing cut, nothing loaded: only limits change.
TEST(Follow, DoesNotCountAMoveThatChangesNothing) {
  Followed bench;
  bench.move_to(2);
  EXPECT_EQ(bench.follow.moves(), 0U);
  EXPECT_EQ(bench.follow.state(), FollowState::watching);
  EXPECT_FALSE(bench.follow.undo());
}

// What is missed while slices are down is no fault of the plan.
TEST(Follow, TakesNothingBackWhileSlicesAreDown) {
  Followed bench;
  for (int i = 0; i < 60; ++i) EXPECT_FALSE(bench.look(200, 0));
  bench.move_to(3);
  bench.follow.on_slices_down();
  for (int i = 0; i < 30; ++i) EXPECT_FALSE(bench.look(100, 100));
  EXPECT_EQ(bench.follow.state(), FollowState::watching);
}

// The plan before does not have the services of today: there is no way back to it, by hand or by the guard.
TEST(Follow, HasNoWayBackToAPlanForOtherServices) {
  Followed bench;
  bench.move_to(3);
  const FollowMove move{plan_with(4, "find is new"), false};
  bench.follow.on_begun(move, bench.now);
  auto services = Followed::services();
  services.push_back(services.front());
  services.back().name = "find";
  bench.follow.on_services_changed(services);
  bench.follow.on_moved(bench.now);
  EXPECT_EQ(bench.follow.state(), FollowState::watching);
  EXPECT_EQ(bench.follow.moves(), 2U);
  EXPECT_FALSE(bench.follow.undo());
}

// After a restart the plan before is still known, and the moves of the last hour still count.
TEST(Follow, GoesOnWhereTheRunBeforeStopped) {
  FollowOptions options;
  options.moves_max = 2;
  Followed bench(options);
  Follow::Past past;
  past.moves = 7;
  past.previous = plan_with(1, "the start");
  past.moves_ago = {10min, 70min};
  bench.follow.set_past(std::move(past));
  EXPECT_EQ(bench.follow.moves(), 7U);
  EXPECT_EQ(bench.follow.recent_moves(kTimeZero), std::vector<Duration>{10min});
  bench.move_to(3);
  EXPECT_FALSE(bench.follow.on_planned(plan_with(4, "more"), bench.now));
  bench.now += 51min;
  EXPECT_TRUE(bench.follow.on_planned(plan_with(4, "more"), bench.now));
}

TEST(Follow, TakesBackTheLastMoveOfTheRunBefore) {
  Followed bench;
  Follow::Past past;
  past.previous = plan_with(1, "the start");
  bench.follow.set_past(std::move(past));
  const auto back = bench.follow.undo();
  ASSERT_TRUE(back);
  EXPECT_EQ(back->plan.step.devices, 1);
}

}  // namespace
}  // namespace tangram::control
