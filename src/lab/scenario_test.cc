#include "lab/scenario.h"

#include <gtest/gtest.h>

#include <map>

#include "formats/schema.h"
#include "lab/model_file.h"
#include "lab/training_fleet.h"
#include "learn/fit.h"

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
      {"deepboot.csv",
       "name,time,application,num_replicas,batch_size,duration,num_task\nnet-0,7,net,2,64,-1,-1\n"
       "inference-net-1,9,infer-net-1,1,1,5.0,10\n"},
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

// A fitted model stands beside measurements as a source of run times, and what is wrong with it is said in its own
// terms.
TEST(Scenario, TakesRunTimesFromAFittedModel) {
  Measurements rows;
  for (const std::int64_t batch : {1, 2, 4, 8}) {
    Measurement m;
    m.device = "a30";
    m.mig_profile = "1g.6gb";
    m.model = "net";
    m.batch = batch;
    m.latency_ms = 2.0 + 2.0 * static_cast<double>(batch);
    rows.push_back(m);
  }
  const auto model = learn::fit(rows, {}, {});
  ASSERT_TRUE(model) << model.error().message;
  const std::string file = write_model(*model);
  const auto read = [&](const std::string& path) -> Result<std::string> {
    if (path == "model.json") return file;
    if (path == "odd.json") return std::string("{\"version\": 1}");
    return Error{ErrorCode::not_found, "no such file"};
  };
  const std::string text = std::string(kServices) + kPlan + "duration_s: 10\n";
  const auto scenario = parse_scenario({"s.yaml", text + "latency: {model: model.json}\n"}, read);
  ASSERT_TRUE(scenario) << scenario.error().message;
  // Measured points are answered exactly: a batch of four takes 10 ms.
  EXPECT_EQ(scenario->deployment.pools[0].services[0].latency.mean_ns(0, 4), 10'000'000);
  const auto odd = parse_scenario({"s.yaml", text + "latency: {model: odd.json}\n"}, read);
  ASSERT_FALSE(odd);
  EXPECT_EQ(odd.error().message.substr(0, 8), "odd.json");
}

// Without a replica of `b`, no request of it could ever be answered.
TEST(Scenario, RefusesAServiceWithoutAReplica) {
  const std::string two = std::string(kServices) +
                          "  - {name: b, model: net, slo: {latency_ms: 50}, traffic: {rate_per_s: 1}}\n" + kPlan +
                          kLatency + "duration_s: 10\n";
  EXPECT_EQ(problems(two), "s.yaml:8:3: the service b has no replica in the plan: all its requests would be rejected");
  const std::string later =
      "plan_changes:\n  - at_s: 5\n    plan: {devices: [{type: a30, layout: 4g.24gb@0, replicas: [{service: b, "
      "buckets: "
      "[{batch_size: 2}]}]}]}\n";
  EXPECT_EQ(problems(two + later), "");
}

// A run takes max(2, 3 * batch) ms on one compute slice, so 3 ms alone; sizes are 1 unless said otherwise.
TEST(Scenario, WarnsOfRequestsThatCannotBeServedInTime) {
  const auto warnings = [](const std::string& service, const std::string& buckets) {
    const auto scenario =
        parse("services: [{name: a, model: net, traffic: {rate_per_s: 1}, " + service +
              "}]\nplan: {devices: [{type: a30, layout: 1g.6gb@0, replicas: [{service: a, buckets: " + buckets +
              "}]}]}\n" + kLatency + "duration_s: 1\n");
    if (!scenario) return scenario.error().message;
    return scenario->warnings.empty() ? std::string() : scenario->warnings.front();
  };
  EXPECT_EQ(warnings("slo: {latency_ms: 3}", "[{batch_size: 1}]"), "");
  EXPECT_EQ(warnings("slo: {latency_ms: 2.9}", "[{batch_size: 1}]"),
            "service a: no request can be in time: the promise is 2.90 ms, but one request alone takes longer on the "
            "fastest slice: inputs up to 1 (3.00 ms)");
  EXPECT_EQ(warnings("slo: {latency_ms: 5}, input_size: {log_normal: {median: 2, sigma: 1, max: 8}}",
                     "[{size_max: 1, batch_size: 1}, {size_max: 8, batch_size: 1}]"),
            "service a: inputs up to 8 (24.0 ms) cannot be in time: the promise is 5.00 ms, but one request alone "
            "takes longer on the fastest slice");
  EXPECT_EQ(warnings("slo: {latency_ms: 50}, input_size: {log_normal: {median: 2, sigma: 1, max: 8}}",
                     "[{size_max: 4, batch_size: 1}]"),
            "service a: inputs above 4 are rejected: no bucket takes them, and inputs reach 8");
  EXPECT_EQ(warnings("slo: {latency_ms: 50}, samples: 3", "[{batch_size: 2}]"),
            "service a: requests of more than 2 samples are rejected: no slice takes such a batch, and requests have "
            "up to 3");
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
  EXPECT_NE(problems(with_replica("{service: b, buckets: [{batch_size: 1}]}")).find("which is not in the services file"),
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
  EXPECT_NE(problems(with("a100-40gb", "7g.40gb@0")).find("the same devices, in the same order"), std::string::npos);
}

TEST(Scenario, HasOfflineJobsBesideTheTraffic) {
  const auto scenario = parse(whole() + "background: [{service: a, under_way: 5}, {service: a}]\n");
  ASSERT_TRUE(scenario) << scenario.error().message;
  ASSERT_EQ(scenario->config.background.size(), 2U);
  EXPECT_EQ(scenario->config.background[0].service, ServiceId(0));
  EXPECT_EQ(scenario->config.background[0].under_way, 5U);
  EXPECT_EQ(scenario->config.background[1].under_way, 64U);
  EXPECT_NE(problems(whole() + "background: [{service: nobody}]\n").find("unknown service nobody"), std::string::npos);
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

TEST(Scenario, NeedsAPlanOrAFleet) {
  const std::string planless = std::string(kServices) + kLatency + "duration_s: 10\n";
  EXPECT_EQ(problems(planless), "s.yaml:1:1: needs a plan, or a fleet to plan for");
  const auto scenario = parse(planless + "fleet: rack.yaml\n");
  ASSERT_TRUE(scenario) << scenario.error().message;
  EXPECT_FALSE(has_plan(*scenario));
  EXPECT_EQ(scenario->fleet, "rack.yaml");
  EXPECT_TRUE(has_plan(*parse(whole())));
}

TEST(Scenario, ReadsHowInputSizesDrift) {
  const std::string drift = "    size_drift: {begin_s: 10, end_s: 20, to: 7}\n";
  const auto scenario = parse(kServices + drift + kPlan + kLatency + "duration_s: 10\n");
  ASSERT_TRUE(scenario) << scenario.error().message;
  const Service& service = scenario->workload.services[0];
  ASSERT_TRUE(service.size_drift);
  EXPECT_EQ(service.size_drift->share_at(15), 0.5);
  EXPECT_EQ(largest_size(service), 7);
  const std::string back = "    size_drift: {begin_s: 30, end_s: 20, to: 7}\n";
  EXPECT_NE(problems(kServices + back + kPlan + kLatency + "duration_s: 10\n").find("end_s must not be before"),
            std::string::npos);
}

constexpr const char* kTraining = R"(training:
  lend: whole_gpu
  applications: {synthetic: [{name: net, epochs: 2}]}
  jobs: {synthetic: {count: 3, gap_mean_s: 10, applications: [net]}}
)";

TEST(ScenarioTraining, MakesJobsOfItsApplications) {
  const auto scenario = parse(whole() + kTraining);
  ASSERT_TRUE(scenario) << scenario.error().message;
  ASSERT_NE(scenario->training, nullptr);
  EXPECT_EQ(scenario->training->jobs.size(), 3U);
  EXPECT_EQ(scenario->training->jobs[0].application, "net");
  EXPECT_EQ(scenario->training->lend, LendMode::whole_gpu);
  EXPECT_EQ(parse(whole())->training, nullptr);
}

// Published workloads are read as they are; requests among them are passed over.
TEST(ScenarioTraining, ReadsJobsInThePublishedLayout) {
  const auto scenario =
      parse(whole() + "training:\n  applications: {synthetic: [{name: net}]}\n  jobs: deepboot.csv\n");
  ASSERT_TRUE(scenario) << scenario.error().message;
  ASSERT_EQ(scenario->training->jobs.size(), 1U);
  EXPECT_EQ(scenario->training->jobs[0].submit_s, 7);
}

TEST(ScenarioTraining, SaysWhatIsWrong) {
  EXPECT_NE(
      problems(whole() +
               "training:\n  applications: {synthetic: [{name: net}]}\n  jobs: {synthetic: {count: 1, gap_mean_s: "
               "1, applications: [other]}}\n")
          .find("unknown application other"),
      std::string::npos);
  EXPECT_NE(problems(whole() + "training:\n  applications: none.csv\n  jobs: none.csv\n").find("s.yaml:15:17"),
            std::string::npos);
  EXPECT_NE(problems(whole() + kTraining + "plan_changes: [{at_s: 1, plan: {devices: []}}]\n")
                .find("training and plan_changes"),
            std::string::npos);
}

}  // namespace
}  // namespace tangram::lab
