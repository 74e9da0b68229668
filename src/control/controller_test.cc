#include "control/controller.h"

#include <gtest/gtest.h>

#include "control/test_services.h"

namespace tangram::control {
namespace {

using namespace std::chrono_literals;

// A controller whose running plan is made for 4.18/s, the power of 1.1 above 4/s.
struct Bench {
  TestServices world;
  Controller controller;

  explicit Bench(int devices) : world(devices), controller({}, running_replanner(), {demand()}) {}

  static ServiceDemand demand() { return {rounded_up(4, 0.1), {{1, 1}}}; }

  Replanner running_replanner() const {
    Replanner replanner(world.problem());
    const auto first = replanner.plan({demand()}, {false});
    EXPECT_TRUE(first && *first);
    return replanner;
  }

  // A look of ten seconds that ends at `at` and brings so many requests, all of them served.
  std::optional<NewPlan> look(Duration at, std::uint64_t requests, bool moving = false) {
    Observation seen;
    seen.at = kTimeZero + at;
    seen.moving = moving;
    seen.services = {{.arrived = requests, .served = requests, .sizes = {{1, requests}}}};
    return controller.observe(seen);
  }
};

TEST(Controller, WantsToBeToldAtEveryLook) {
  EXPECT_EQ(Bench(6).controller.observe_interval(), 10s);
  const TestServices world(6);
  Replanner replanner(world.problem());
  ControllerOptions windows_only;
  windows_only.look = 0s;
  const Controller without(windows_only, std::move(replanner), {Bench::demand()});
  EXPECT_EQ(without.observe_interval(), 5min);
}

// 4/s as planned, for ten minutes: no look and no window has a reason to plan anew.
TEST(Controller, KeepsAPlanThatFits) {
  Bench bench(6);
  for (auto at = 10s; at <= 600s; at += 10s) EXPECT_FALSE(bench.look(at, 40)) << at.count();
  EXPECT_EQ(bench.controller.plans_refused(), 0);
}

// 30/s in the second look, where 42 in ten seconds are planned for: a plan comes at once, in the midst of the window,
// and the next look at that rate is within it.
TEST(Controller, MeetsASurgeWithinTheWindow) {
  Bench bench(6);
  EXPECT_FALSE(bench.look(10s, 40));
  const auto plan = bench.look(20s, 300);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->step.at, kTimeZero + 20s);
  ASSERT_EQ(plan->step.reasons.size(), 1U);
  EXPECT_NE(plan->step.reasons[0].find("surge"), std::string::npos);
  EXPECT_GT(plan->step.compute_slices, 0);
  EXPECT_FALSE(bench.look(30s, 300));
}

// While the last plan is still being put in place, the same surge waits. It is met by the first look after.
TEST(Controller, WaitsWhileAPlanMoves) {
  Bench bench(6);
  EXPECT_FALSE(bench.look(10s, 300, true));
  EXPECT_TRUE(bench.look(20s, 300));
}

// 300/s are more than one GPU can run: the plan stays, and each look that asks again is counted.
TEST(Controller, CountsWhatTheFleetCannotCarry) {
  Bench bench(1);
  EXPECT_FALSE(bench.look(10s, 3000));
  EXPECT_FALSE(bench.look(20s, 3000));
  EXPECT_EQ(bench.controller.plans_refused(), 2);
}

// A quarter of the rate. Less is planned for only at the end of a window (300 s, 600 s, ...), after three quiet ones.
TEST(Controller, PlansForLessAtTheEndOfAWindow) {
  Bench bench(6);
  std::optional<Duration> planned_at;
  for (auto at = 10s; at <= 3600s && !planned_at; at += 10s) {
    if (bench.look(at, 10)) planned_at = at;
  }
  ASSERT_TRUE(planned_at);
  EXPECT_EQ(*planned_at % 300s, 0s);
  EXPECT_GE(*planned_at, 900s);
}

// The planner was busy for half a minute: one observation covers three looks, and 120 requests are no surge then.
TEST(Controller, CountsALateLookByTheTimeThatItCovers) {
  Bench bench(6);
  EXPECT_FALSE(bench.look(10s, 40));
  EXPECT_FALSE(bench.look(40s, 120));
  EXPECT_TRUE(bench.look(50s, 300));
}

// The first look at or after the end of a window ends it, also if it should have come earlier.
TEST(Controller, EndsAWindowWithALateLook) {
  Bench bench(6);
  for (auto at = 10s; at <= 290s; at += 10s) EXPECT_FALSE(bench.look(at, 46)) << at.count();
  const auto plan = bench.look(330s, 184);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->step.reasons.front().substr(0, 8), "a: rate ") << plan->step.reasons.front();
}

// Whoever does not put a plan in force returns to the standing before, and the next observation has the same answer.
TEST(Controller, PlansFromTheStandingThatItIsGiven) {
  Bench bench(6);
  const Standing before = bench.controller.standing();
  const auto first = bench.look(20s, 600);
  ASSERT_TRUE(first);
  EXPECT_FALSE(bench.look(30s, 300));
  bench.controller.set_standing(before);
  const auto second = bench.look(40s, 300);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->step.devices, first->step.devices);
}

// Nothing has changed, so there is no reason but that somebody asked.
TEST(Controller, PlansAtOnceWhenAsked) {
  Bench bench(6);
  Observation seen;
  seen.at = kTimeZero + 5s;
  seen.services = {{.arrived = 20, .served = 20, .sizes = {{1, 20}}}};
  const auto made = bench.controller.plan_now(seen);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->step.reasons, std::vector<std::string>{"asked for"});
  seen.at += 5s;
  seen.moving = true;
  EXPECT_FALSE(bench.controller.plan_now(seen));
}

// Nobody put the plan around the lost device in force: told of the loss again, the controller answers one again. Once
// the plan does without the device, there is nothing to do.
TEST(Controller, PlansAroundALostDeviceUntilThePlanDoesWithoutIt) {
  Bench bench(6);
  const Standing before = bench.controller.standing();
  const std::string used = before.plan->plan.devices.front().name;
  const auto first = bench.controller.set_lost({used}, kTimeZero + 1s);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->step.reasons, std::vector<std::string>{"lost " + used});
  for (const auto& device : first->answer.plan.devices) EXPECT_NE(device.name, used);
  EXPECT_FALSE(bench.controller.set_lost({used}, kTimeZero + 2s));
  bench.controller.set_standing(before);
  EXPECT_TRUE(bench.controller.set_lost({used}, kTimeZero + 3s));
}

// The only device: nothing is left to plan for until it is back.
TEST(Controller, PlansWhenTheOnlyDeviceIsBack) {
  Bench bench(1);
  const std::string only = bench.controller.standing().plan->plan.devices.front().name;
  EXPECT_FALSE(bench.controller.set_lost({only}, kTimeZero + 1s));
  const auto back = bench.controller.set_lost({}, kTimeZero + 2s);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->step.reasons, std::vector<std::string>{"devices are back"});
}

// ---- Other services ----

// A second service like the first. Both are planned for, and the forecast of the first goes on.
TEST(Controller, PlansForServicesThatAreAdded) {
  Bench bench(6);
  Workload both{{bench.world.problem().workload.services[0], bench.world.problem().workload.services[0]}};
  both.services[1].name = "b";
  const auto roster = sched::next_roster(sched::Roster::of({{both.services[0]}}), both);
  ASSERT_TRUE(roster);
  const auto made = bench.controller.set_roster(*roster, {std::nullopt, Bench::demand()});
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->step.reasons, std::vector<std::string>{"b is new"});
  ASSERT_EQ(made->deployment.services.size(), 2U);
  EXPECT_FALSE(made->deployment.services[1].pools.empty());
  EXPECT_EQ(bench.controller.standing().planned[1], Bench::demand());
  EXPECT_EQ(bench.controller.service_count(), 2U);
}

// What was removed keeps its id and gets no slice; nothing is expected of it, also when windows end.
TEST(Controller, GivesNothingToServicesThatAreRemoved) {
  Bench bench(6);
  Workload other{{bench.world.problem().workload.services[0]}};
  other.services[0].name = "b";
  const auto roster = sched::next_roster(sched::Roster::of(bench.world.problem().workload), other);
  ASSERT_TRUE(roster);
  const auto made = bench.controller.set_roster(*roster, {std::nullopt, Bench::demand()});
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->step.reasons, (std::vector<std::string>{"a is removed", "b is new"}));
  EXPECT_TRUE(made->deployment.services[0].pools.empty());
  EXPECT_FALSE(made->deployment.services[1].pools.empty());
  for (int look = 1; look <= 60; ++look) {
    Observation seen;
    seen.at = kTimeZero + look * 10s;
    seen.services = {{}, {.arrived = 40, .served = 40, .sizes = {{1, 40}}}};
    EXPECT_FALSE(bench.controller.observe(seen)) << look;
  }
}

// One GPU carries 4/s and not 400/s beside it: all stays as it was.
TEST(Controller, RejectsServicesThatTheFleetCannotCarry) {
  Bench bench(1);
  Workload both{{bench.world.problem().workload.services[0], bench.world.problem().workload.services[0]}};
  both.services[1].name = "b";
  const auto roster = sched::next_roster(sched::Roster::of({{both.services[0]}}), both);
  ASSERT_TRUE(roster);
  const auto made = bench.controller.set_roster(*roster, {std::nullopt, ServiceDemand{400, {{1, 1}}}});
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message.find("cannot serve these services"), std::string::npos);
  EXPECT_EQ(bench.controller.service_count(), 1U);
  EXPECT_FALSE(bench.look(10s, 40));
}

}  // namespace
}  // namespace tangram::control
