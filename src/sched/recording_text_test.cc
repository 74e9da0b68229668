#include "sched/recording_text.h"

#include <gtest/gtest.h>

#include "sched/test_fixture.h"

namespace tangram::sched {
namespace {

using namespace std::chrono_literals;
using testing::deployment_of;
using testing::FixtureConfig;

Deployment two_devices() {
  FixtureConfig cluster;
  cluster.layouts = {"4g@0 + 3g@4", "7g@0"};
  cluster.latency = {{"7g", {4ms, 7ms}}, {"4g", {5ms}}, {"3g", {6ms}}};
  cluster.p99_factor = 1.25;
  cluster.services = {{.name = "a", .edges = {16, 64}, .priority = -2, .padding = Padding::longest, .percentile = 99.9},
                      {.name = "b", .only_on = "7g", .slo = 30ms}};
  return deployment_of(cluster, cluster.layouts);
}

TEST(RecordingText, WritesADeploymentOnOneLineAndReadsItBack) {
  const Deployment deployment = two_devices();
  const std::string text = write_deployment(deployment);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const auto back = read_deployment(text);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(write_deployment(*back), text);
  ASSERT_EQ(back->devices.size(), 2u);
  EXPECT_EQ(back->devices[0].layout, deployment.devices[0].layout);
  EXPECT_EQ(to_string(back->devices[0].geometry, back->devices[0].layout), "4g.20gb@0 + 3g.20gb@4");
  EXPECT_EQ(back->services[0].padding, Padding::longest);
  EXPECT_EQ(back->services[0].slo.percentile, 99.9);
  EXPECT_EQ(back->services[1].slo.latency, 30ms);
  ASSERT_EQ(back->places.size(), 3u);
  EXPECT_EQ(back->places[2].device, DeviceId(1));
  // The p99 of two samples on the 7g slice is 1.25 times 7 ms.
  const Pool& pool = back->pools[back->places[2].pool.index()];
  EXPECT_EQ(pool.services[0].latency.p99_ns(0, 2), 8'750'000);
}

TEST(RecordingText, ReadsNoDeploymentWhosePartsDisagree) {
  EXPECT_FALSE(read_deployment("{}"));
  EXPECT_FALSE(read_deployment("["));
  Deployment deployment = two_devices();
  deployment.places[0].pool = PoolId(17);
  EXPECT_FALSE(read_deployment(write_deployment(deployment)));
  deployment = two_devices();
  deployment.pools[0].services[0].batch_max[0] = 100;  // Its table has one sample.
  EXPECT_FALSE(read_deployment(write_deployment(deployment)));
}

TEST(RecordingText, KeepsEveryFieldOfAConfiguration) {
  SchedulerConfig config;
  config.policy = "elsa";
  config.policy_config = {.merge = false, .elsa_alpha = 0.1, .elsa_beta = 1.0 / 3};
  config.admission = false;
  config.requests_max = 12'345;
  config.stuck_min = 1'500'000'001ns;
  config.reshapes_max = 7;
  config.devices_cut_max = 3;
  const std::string text = write_config(config);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const auto back = read_config(text);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(write_config(*back), text);
  EXPECT_EQ(back->policy, "elsa");
  EXPECT_EQ(back->policy_config.elsa_beta, 1.0 / 3);
  EXPECT_EQ(back->stuck_min, 1'500'000'001ns);
  EXPECT_EQ(back->requests_max, 12'345u);
}

TEST(RecordingText, ReadsNoConfigurationWithAnUnknownPolicyOrKey) {
  EXPECT_FALSE(read_config(R"({"policy":"dance"})"));
  EXPECT_FALSE(read_config(R"({"policies":"tangram"})"));
}

TEST(RecordingText, WritesALayoutByTheIndicesOfItsProfiles) {
  const Layout layout{{{0, 0}, {3, 4}}};
  EXPECT_EQ(write_layout(layout), "0@0 3@4");
  EXPECT_EQ(read_layout("0@0 3@4"), layout);
  EXPECT_EQ(write_layout({}), "empty");
  EXPECT_EQ(read_layout("empty"), Layout{});
  for (const auto* const wrong : {"", "3", "3@", "@4", "3@4@5", "-1@0", "70000@0", "3@4  0@0"}) {
    EXPECT_FALSE(read_layout(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace tangram::sched
