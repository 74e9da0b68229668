#include "lab/scenario.h"

#include <gtest/gtest.h>

#include <map>

#include "formats/schema.h"

namespace tangram::lab {
namespace {

using namespace std::chrono_literals;

constexpr const char* kServices = R"(services:
  - name: a
    model: net
    slo: {latency_ms: 50}
    traffic: {rate_per_s: 100}
)";
constexpr const char* kPlan = R"(plan:
  devices:
    - type: a30
      layout: 2g.12gb@0 + 1g.6gb@2
      replicas:
        - {service: a, slices: 1g.6gb, buckets: [{batch_size: 4}]}
)";
constexpr const char* kLatency = "latency: {models: [{model: net, launch_ms: 2, sample_ms: 3}]}\n";

Result<std::string> read_beside(const std::string& path) {
  static const std::map<std::string, std::string> kFiles = {
      {"below/services.yaml",
       "services:\n  - name: a\n    model: net\n    slo: {latency_ms: 50}\n    traffic: {trace: {file: t.csv}}\n"},
      {"below/t.csv", "at_s,size\n0,1\n0.5,1\n"},
      {"m.csv", "device,mig_profile,model,batch,latency_ms\na30,1g.6gb,net,1,4\na30,1g.6gb,net,4,10\n"},
      {"wrong.yaml", "services:\n  - nam: a\n"},
  };
  const auto file = kFiles.find(path);
  if (file == kFiles.end()) return Error{ErrorCode::not_found, "no such file"};
  return file->second;
}

Result<Scenario> parse(const std::string& text) { return parse_scenario({"s.yaml", text}, read_beside); }
std::string problems(const std::string& text) {
  const auto scenario = parse(text);
  return scenario ? "" : scenario.error().message;
}
std::string whole(const std::string& more = "duration_s: 10\n") {
  return std::string(kServices) + kPlan + kLatency + more;
}

TEST(Scenario, NeedsNoOtherFile) {
  const auto scenario = parse(whole());
  ASSERT_TRUE(scenario) << scenario.error().message;
  EXPECT_EQ(scenario->config.duration, 10s);
  EXPECT_EQ(scenario->config.seed, 1U);
  EXPECT_EQ(scenario->config.scheduler.policy, "tangram");
  ASSERT_EQ(scenario->deployment.places.size(), 1U);  // The 2g slice is free.
  EXPECT_EQ(scenario->deployment.pools[0].services[0].latency.mean_ns(0, 4), 12'000'000);
}

TEST(Scenario, ReadsEveryKindOfSetting) {
  const auto scenario = parse(whole(
      "requests: 500\nwarmup_requests: 50\nseed: 9\ntenants: 3\nrate_scale: 2.5\nnoise: {spread: 0.1}\n"
      "faults: {fail_probability: 0.01}\nscheduler: {policy: elsa, merge: false, admission: false, elsa_alpha: 2}\n"));
  ASSERT_TRUE(scenario) << scenario.error().message;
  EXPECT_EQ(scenario->config.requests_max, 500U);
  EXPECT_EQ(scenario->config.warmup_requests, 50U);
  EXPECT_EQ(scenario->config.tenants, 3U);
  EXPECT_EQ(scenario->config.rate_scale, 2.5);
  EXPECT_EQ(scenario->config.noise.spread, 0.1);
  EXPECT_EQ(scenario->config.faults.fail_probability, 0.01);
  EXPECT_EQ(scenario->config.scheduler.policy, "elsa");
  EXPECT_FALSE(scenario->config.scheduler.policy_config.merge);
  EXPECT_EQ(scenario->config.scheduler.policy_config.elsa_alpha, 2);
  EXPECT_FALSE(scenario->config.scheduler.admission);
}

// The services file lies below, and so does the trace that it names. A trace ends by itself.
TEST(Scenario, ReadsFilesRelativeToTheOneThatNamesThem) {
  const auto scenario =
      parse("services: below/services.yaml\n" + std::string(kPlan) + "latency: {measurements: m.csv}\n");
  ASSERT_TRUE(scenario) << scenario.error().message;
  EXPECT_EQ(std::get<TraceTraffic>(scenario->workload.services[0].traffic).trace.size(), 2U);
  EXPECT_EQ(scenario->deployment.pools[0].services[0].latency.mean_ns(0, 4), 10'000'000);
}

TEST(Scenario, ReportsProblemsAtTheirPlaces) {
  EXPECT_EQ(problems(whole("duration_s: 10\nsheduler: {}\n")).substr(0, 57),
            "s.yaml:14:1: key is unknown: \"sheduler\", did you mean sch");
  EXPECT_NE(problems(whole("duration_s: 10\nscheduler: {policy: elza}\n"))
                .find("s.yaml:14:21: policy is unknown: \"elza\", did you mean elsa?"),
            std::string::npos);
  EXPECT_EQ(problems(whole("")), "s.yaml:1:1: needs duration_s or requests: the traffic does not end by itself");
  EXPECT_EQ(problems("services: wrong.yaml\n" + std::string(kPlan) + kLatency + "duration_s: 1\n").substr(0, 16),
            "wrong.yaml:2:5: ");
  EXPECT_EQ(problems("services: gone.yaml\n" + std::string(kPlan) + kLatency + "duration_s: 1\n"),
            "s.yaml:1:11: cannot read gone.yaml: no such file");
}

std::string with_replica(const std::string& replica) {
  return std::string(kServices) +
         "plan:\n  devices:\n    - type: a30\n      layout: 2g.12gb@0\n      replicas:\n        - " + replica + "\n" +
         kLatency + "duration_s: 1\n";
}

TEST(Scenario, ReportsPlansThatDoNotFit) {
  EXPECT_EQ(problems(with_replica("{service: a, slices: 1g.6gb, buckets: [{batch_size: 1}]}")),
            "s.yaml:11:32: no slice of the layout is 1g.6gb");
  EXPECT_NE(problems(with_replica("{service: b, buckets: [{batch_size: 1}]}")).find("which is not among the services"),
            std::string::npos);
  EXPECT_NE(
      problems(with_replica("{service: a, buckets: [{size_max: 8, batch_size: 1}, {size_max: 8, batch_size: 1}]}"))
          .find("must ascend"),
      std::string::npos);
}

TEST(Scenario, ChangesPlansOnlyForTheSameDevices) {
  const std::string change =
      "duration_s: 10\nplan_changes:\n  - at_s: 5\n    plan:\n      devices:\n        - type: TYPE\n          layout: "
      "LAYOUT\n          replicas: [{service: a, buckets: [{batch_size: 2}]}]\n";
  const auto with = [&](std::string type, std::string layout) {
    std::string text = change;
    text.replace(text.find("TYPE"), 4, type);
    text.replace(text.find("LAYOUT"), 6, layout);
    return whole(text);
  };
  const auto scenario = parse(with("a30", "4g.24gb@0"));
  ASSERT_TRUE(scenario) << scenario.error().message;
  EXPECT_EQ(scenario->config.plan_changes.at(0).at, kTimeZero + 5s);
  EXPECT_NE(problems(with("a100-40gb", "7g.40gb@0")).find("for the same devices"), std::string::npos);
}

TEST(Scenario, TellsTheConfigurationThatRuns) {
  auto scenario = parse(whole());
  ASSERT_TRUE(scenario);
  scenario->config.seed = 42;
  scenario->config.scheduler.policy = "edf";
  const std::string text = effective_configuration(*scenario);
  EXPECT_NE(text.find("\"seed\": 42"), std::string::npos) << text;
  EXPECT_NE(text.find("\"policy\": \"edf\""), std::string::npos) << text;
  EXPECT_NE(text.find("\"retries_max\": 1"), std::string::npos) << text;
  formats::Problems none("x");
  EXPECT_TRUE(formats::parse_json({"x", text}, none).has_value()) << text;
}

}  // namespace
}  // namespace tangram::lab
