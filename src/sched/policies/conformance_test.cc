// What every policy must do, whatever its idea. A policy is enrolled by its line in policies.def.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "sched/test_fixture.h"

namespace tangram::sched {
namespace {

using namespace std::chrono_literals;
using testing::FixtureConfig;
using testing::FixtureRun;
using testing::SimFixture;

struct Situation {
  std::string policy;
  bool merge;
  bool drop;
  bool admission;
};

class Conformance : public ::testing::TestWithParam<PolicyInfo> {
 protected:
  // Calls `test` for every way of setting what a user may set.
  template <typename Test>
  void in_every_situation(Test&& test) {
    for (const int bits : {0, 1, 2, 3, 4, 5, 6, 7}) {
      situation_ = {std::string(GetParam().name), (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0};
      SCOPED_TRACE(
          fmt::format("merge {} drop {} admission {}", situation_.merge, situation_.drop, situation_.admission));
      test();
    }
  }

  // Two services on slices of three sizes; the smallest takes the fewest samples.
  FixtureConfig cluster() const {
    FixtureConfig config;
    config.policy = situation_.policy;
    config.layouts = {"1g@0 + 1g@1 + 2g@2", "3g@0 + 3g@4"};
    config.latency = {{"1g", {8ms, 13ms}}, {"2g", {5ms, 7ms, 9ms, 11ms}}, {"3g", {4ms, 5ms, 6ms, 7ms, 8ms, 9ms}}};
    config.services = {{.name = "a", .edges = {10, 20, 40}}, {.name = "b", .edges = {15}, .padding = Padding::none}};
    config.size_factor = [](std::int64_t size) { return 0.5 + static_cast<double>(size) / 40; };
    config.p99_factor = 1.1;
    config.scheduler.policy_config.merge = situation_.merge;
    config.scheduler.policy_config.drop_unrecoverable = situation_.drop;
    config.scheduler.admission = situation_.admission;
    config.reality.samples_max = [](const Place& place, ServiceId, std::int64_t) {
      const int size = find_geometry("a100-40gb")->profiles[place.slice.profile].compute_slices;
      return std::int64_t{2} * size;
    };
    return config;
  }

  static void load(SimFixture& sim, int requests, double gap_ms) {
    Rng rng = Rng(5).stream("conformance");
    Duration at{};
    for (int i = 0; i < requests; ++i) {
      if (rng.chance(0.8)) at += from_milliseconds(rng.exponential(gap_ms));
      const auto service = static_cast<std::uint32_t>(rng.below(2));
      sim.arrive({.at = at,
                  .deadline = at + from_milliseconds(rng.uniform(2, 60)),
                  .samples = rng.chance(0.7) ? 1 : static_cast<std::int32_t>(rng.integer(2, 7)),
                  .size = rng.integer(1, service == 0 ? 42 : 15),
                  .priority = static_cast<int>(rng.integer(0, 2)),
                  .service = service});
    }
  }

  // What the World judges anyway: each request resolved once, nothing twice on one slice, limits kept. And here: who
  // may not reject does not, who may not merge does not.
  void judge(SimFixture& sim) const {
    const FixtureRun run = sim.run();
    for (const auto& batch : run.batches) EXPECT_TRUE(situation_.merge || batch.size() == 1);
    const bool polite = !situation_.admission && !situation_.drop;
    for (const auto& request : sim.world().requests()) {
      ASSERT_TRUE(request.outcome.has_value());
      EXPECT_FALSE(polite && request.outcome->reason == RejectReason::too_late);
      if (request.outcome->kind == OutcomeKind::served) {
        EXPECT_EQ(request.runs, 1);
      }
    }
  }

  Situation situation_;
};

TEST_P(Conformance, ServesALightLoadInTime) {
  in_every_situation([&] {
    SimFixture sim(cluster());
    for (int i = 0; i < 50; ++i) sim.arrive({.at = i * 50ms, .deadline = i * 50ms + 45ms, .size = 15, .service = 1});
    for (const auto outcome : sim.run().outcomes) EXPECT_EQ(outcome, OutcomeKind::served);
  });
}

TEST_P(Conformance, KeepsItsPromisesUnderLoad) {
  in_every_situation([&] {
    SimFixture sim(cluster());
    load(sim, 600, 1.5);
    judge(sim);
  });
}

TEST_P(Conformance, KeepsItsPromisesUnderOverload) {
  in_every_situation([&] {
    SimFixture sim(cluster());
    load(sim, 600, 0.1);
    judge(sim);
  });
}

TEST_P(Conformance, KeepsItsPromisesWhenRunTimesAreNotThosePredicted) {
  in_every_situation([&] {
    auto config = cluster();
    Rng rng = Rng(6).stream("noise");
    config.reality.run_time = [&rng](const Batch& batch) {
      return Duration(static_cast<std::int64_t>(static_cast<double>(batch.predicted.count()) * rng.uniform(0.3, 2)) +
                      1);
    };
    SimFixture sim(config);
    load(sim, 400, 1);
    judge(sim);
  });
}

TEST_P(Conformance, KeepsItsPromisesWhenThePlanChanges) {
  in_every_situation([&] {
    SimFixture sim(cluster());
    load(sim, 400, 1);
    sim.change_plan(100ms, {"1g@0 + 3g@4", "3g@0 + 3g@4"});
    sim.change_plan(20s, {"2g@0 + 2g@2", "1g@0"});
    judge(sim);
  });
}

// Runs twice and logs the same bytes.
TEST_P(Conformance, IsRepeatable) {
  in_every_situation([&] {
    const auto digest = [&] {
      SimFixture sim(cluster());
      load(sim, 300, 0.5);
      sim.run();
      return sim.world().digest();
    };
    EXPECT_EQ(digest(), digest());
  });
}

INSTANTIATE_TEST_SUITE_P(Policies, Conformance, ::testing::ValuesIn(policies().begin(), policies().end()),
                         [](const auto& about) { return std::string(about.param.name); });

TEST(Policies, AreFoundByName) {
  for (const auto& policy : policies()) EXPECT_EQ(find_policy(policy.name), &policy);
  EXPECT_EQ(find_policy("smart"), nullptr);
  EXPECT_EQ(policies()[0].name, "tangram");
}

}  // namespace
}  // namespace tangram::sched
