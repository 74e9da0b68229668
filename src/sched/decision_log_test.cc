#include "sched/decision_log.h"

#include <gtest/gtest.h>

#include "sched/recording_text.h"
#include "sched/test_fixture.h"

namespace tangram::sched {
namespace {

using namespace std::chrono_literals;

// A log that knows one A100-40GB, cut in two, and one service named "rank".
DecisionLog ready_log() {
  testing::FixtureConfig cluster;
  cluster.layouts = {"4g@0 + 3g@4"};
  cluster.latency = {{"4g", {4ms}}, {"3g", {4ms}}};
  cluster.services[0].name = "rank";
  DecisionLog log;
  EXPECT_EQ(log.read("tangram recording 2\n"), std::nullopt);
  EXPECT_EQ(log.read("deployment " + write_deployment(testing::deployment_of(cluster, cluster.layouts)) + "\n"),
            std::nullopt);
  return log;
}

TEST(DecisionLog, SaysWhatCameAndWhatWasDone) {
  DecisionLog log = ready_log();
  EXPECT_EQ(log.read("> 109617000 arrival 0 0 0 0 1 20 309617000\n"), "0.109617 arrival r0 rank size 20 samples 1");
  EXPECT_EQ(log.read("< launch 1 0 0 0 32 3 2000000: 0 4 5\n"),
            "0.109617 launch b1 slice 0 padded 32 samples 3: r0 r4 r5");
  EXPECT_EQ(log.read("> 200000000 done 0 1 1"), std::nullopt);
  EXPECT_EQ(log.read("< resolve 0 0 0 9223372036854775807 1"), "0.200000 resolve r0 served");
}

// A rejected request comes with the instant at which it could have been answered, where there is one.
TEST(DecisionLog, SaysWhenARejectedRequestCouldHaveBeenAnswered) {
  DecisionLog log = ready_log();
  EXPECT_EQ(log.read("> 1000000000 wake"), std::nullopt);
  EXPECT_EQ(log.read("< resolve 7 2 1 1250000000 0"), "1.000000 resolve r7 rejected earliest 1.250000");
  EXPECT_EQ(log.read("< resolve 8 2 3 9223372036854775807 0"), "1.000000 resolve r8 rejected");
}

TEST(DecisionLog, CallsRequestsInTheBackgroundRows) {
  DecisionLog log = ready_log();
  EXPECT_EQ(log.read("> 0 arrival 1099511627776 0 0 -2000000 1 64 60000000000"), "0.000000 row r1099511627776 size 64");
}

TEST(DecisionLog, TellsOfSlicesAndDevices) {
  DecisionLog log = ready_log();
  EXPECT_EQ(log.read("> 5000000000 lend 1"), std::nullopt);  // The action that follows says it.
  EXPECT_EQ(log.read("< lend 1"), "5.000000 lend slice 1");
  EXPECT_EQ(log.read("< recall 1"), "5.000000 recall slice 1");
  EXPECT_EQ(log.read("> 6000000000 returned 1"), "6.000000 returned slice 1");
  EXPECT_EQ(log.read("> 7000000000 lost 0"), "7.000000 lose slice 0");
  EXPECT_EQ(log.read("< restart 0"), "7.000000 restart slice 0");
  EXPECT_EQ(log.read("> 8000000000 restarted 0 1"), std::nullopt);
  EXPECT_EQ(log.read("> 9000000000 reshaped 0 0"), "9.000000 reshaped device 0 failed");
}

// Profiles are recorded by index. An A100-40GB has 7g.40gb; a device that the log does not know keeps the indices.
TEST(DecisionLog, NamesProfilesWhereItKnowsTheDevice) {
  DecisionLog log = ready_log();
  const auto profile = *find_profile(*find_geometry("a100-40gb"), "7g.40gb");
  EXPECT_EQ(log.read("< reshape 0 " + std::to_string(profile) + "@0"), "0.000000 reshape device 0 to 7g.40gb@0");
  EXPECT_EQ(log.read("< reshape 0 99@0"), "0.000000 reshape device 0 to 99@0");
  EXPECT_EQ(log.read("< reshape 4 0@0 1@4"), "0.000000 reshape device 4 to 0@0 1@4");
}

}  // namespace
}  // namespace tangram::sched
