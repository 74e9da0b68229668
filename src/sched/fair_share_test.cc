#include "sched/fair_share.h"

#include <gtest/gtest.h>

#include <array>

#include "base/rng.h"
#include "sched/test_fixture.h"

namespace tangram::sched {
namespace {

using namespace std::chrono_literals;

constexpr TenantId kLoud{1};
constexpr TenantId kCalm{2};

// A request takes 1 ms of all slices, and the promise is 10 ms. Two tenants of equal weight have 5 ms of each 10 ms:
// the loud one may be five requests ahead, and one more for each 2 ms that pass.
TEST(FairShare, LetsATenantBeAheadByThePromiseOfItsShare) {
  FairShare share;
  EXPECT_TRUE(share.take(kCalm, 1, 1ms, 10ms, TimePoint(0ms)));
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(share.take(kLoud, 1, 1ms, 10ms, TimePoint(0ms))) << i;
  EXPECT_FALSE(share.take(kLoud, 1, 1ms, 10ms, TimePoint(0ms)));
  EXPECT_TRUE(share.take(kCalm, 1, 1ms, 10ms, TimePoint(0ms)));
  EXPECT_TRUE(share.take(kLoud, 1, 1ms, 10ms, TimePoint(2ms)));
  EXPECT_FALSE(share.take(kLoud, 1, 1ms, 10ms, TimePoint(2ms)));
}

// Three to one: of each 4 ms the loud tenant has one. Over a second both ask for all: 250 ms of it is within its share,
// and the 10 ms of the promise at the start.
TEST(FairShare, DividesByWeight) {
  FairShare share;
  std::array<int, 3> within{};
  share.take(kCalm, 3, 0ms, 10ms, TimePoint(0ms));
  for (int ms = 0; ms < 1000; ++ms) {
    within[1] += share.take(kLoud, 1, 1ms, 10ms, TimePoint(1ms * ms)) ? 1 : 0;
    within[2] += share.take(kCalm, 3, 1ms, 10ms, TimePoint(1ms * ms)) ? 1 : 0;
  }
  EXPECT_NEAR(within[1], 252, 2);
  EXPECT_NEAR(within[2], 757, 2);
}

// What a tenant took while it was alone is no debt, and what the others left for two seconds is its own.
TEST(FairShare, GivesAllToATenantThatIsAlone) {
  FairShare share;
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(share.take(kLoud, 1, 1ms, 10ms, TimePoint(0ms)));
  EXPECT_TRUE(share.take(kCalm, 1, 1ms, 10ms, TimePoint(1ms)));
  EXPECT_FALSE(share.take(kLoud, 1, 1ms, 10ms, TimePoint(1ms)));
  EXPECT_TRUE(share.take(kLoud, 1, 1ms, 10ms, TimePoint(30ms)));
  EXPECT_EQ(share.active(), 2u);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(share.take(kLoud, 1, 1ms, 10ms, TimePoint(4s)));
  EXPECT_EQ(share.active(), 1u);
}

// However small its share, a tenant without debt may ask once.
TEST(FairShare, AdmitsOneRequestOfATinyShare) {
  FairShare share;
  EXPECT_TRUE(share.take(kLoud, 1000, 1ms, 10ms, TimePoint(0ms)));
  EXPECT_TRUE(share.take(kCalm, 0.001, 1ms, 10ms, TimePoint(0ms)));
  EXPECT_FALSE(share.take(kCalm, 0.001, 1ms, 10ms, TimePoint(1ms)));
}

// Requests of the calm tenant, in time of all that it sends in ten seconds, while the loud one sends this many times as
// many. Batches of up to eight on two slices: together about 1,300 requests a second, of which the calm one sends 400.
double calm_in_time(const std::string& policy, double loud_per_s, bool fair) {
  testing::FixtureConfig config;
  config.policy = policy;
  config.layouts = {"3g@0 + 3g@4"};
  config.latency = {{"3g", {5ms, 6ms, 7ms, 8ms, 9ms, 10ms, 11ms, 12ms}}};
  config.services[0].slo = 50ms;
  config.scheduler.fair_share = fair;
  testing::SimFixture sim(std::move(config));
  const Rng root(5);
  std::vector<std::uint64_t> calm;
  const auto send = [&](const char* name, TenantId tenant, double per_s) {
    Rng rng = root.stream(name);
    for (double at = 0; per_s > 0 && (at += rng.exponential(1 / per_s)) < 10;) {
      const auto id =
          sim.arrive({.at = from_seconds(at), .deadline = from_seconds(at) + 50ms, .tenant = tenant.value()});
      if (tenant == kCalm) calm.push_back(id);
    }
  };
  send("calm", kCalm, 400);
  send("loud", kLoud, loud_per_s);
  const auto run = sim.run();
  const auto served = std::ranges::count_if(calm, [&](auto id) { return run.outcomes[id] == OutcomeKind::served; });
  return static_cast<double>(served) / static_cast<double>(calm.size());
}

// The calm tenant sends less than its half of what the slices carry. The loud one sends ten times its half.
TEST(FairShare, KeepsATenantFromTheOthers) {
  for (const char* policy : {"tangram", "edf"}) {
    const double alone = calm_in_time(policy, 0, true);
    EXPECT_GT(calm_in_time(policy, 6500, true), alone - 0.02) << policy;
    EXPECT_LT(calm_in_time(policy, 6500, false), alone - 0.2) << policy;
  }
}

}  // namespace
}  // namespace tangram::sched
