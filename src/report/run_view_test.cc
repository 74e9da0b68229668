#include "report/run_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "report/number_text.h"
#include "report/run_tables.h"

namespace tangram::report {
namespace {

using namespace std::chrono_literals;
using Runs = std::vector<lab::Run>;

// Two services that share one slice in time; inputs of 6 are padded to 8.
lab::Scenario small() {
  const auto none = [](const std::string&) -> Result<std::string> { return Error{ErrorCode::not_found, "none"}; };
  auto scenario = lab::parse_scenario(
      {"s.yaml",
       "name: small\nservices:\n"
       "  - {name: a, model: net, slo: {latency_ms: 50}, traffic: {constant: {rate_per_s: 10}}, input_size: 6}\n"
       "  - {name: b, model: net, slo: {latency_ms: 50}, traffic: {constant: {rate_per_s: 5}}, input_size: 8}\n"
       "plan: {devices: [{type: a30, layout: 1g.6gb@0 + 1g.6gb@1, replicas: [\n"
       "  {service: a, slices: 1g.6gb@0, buckets: [{size_max: 8, batch_size: 1}]},\n"
       "  {service: b, slices: 1g.6gb@1, buckets: [{size_max: 8, batch_size: 1}]}]}]}\n"
       "latency: {models: [{model: net, launch_ms: 10, sample_ms: 0.1, p99_factor: 1}]}\n"
       "duration_s: 10\nscheduler: {policy: fifs, correction_weight: 0}\n"},
      none);
  EXPECT_TRUE(scenario) << scenario.error().message;
  return std::move(*scenario);
}

lab::Run run_of(const lab::Scenario& scenario) {
  sim::SimulationConfig config = scenario.config;
  config.timeline_steps = 5;
  config.batches_recorded_max = 10;
  config.log_decisions = true;
  return {config.scheduler.policy, sim::simulate(scenario.deployment, scenario.workload, config)};
}

const ReportHead kHead{"tangram 1", "abc", "{\"name\": \"small\"}", 1};

// Twenty times the rate is 200 and 100 a second for 10 s. A run takes 10 ms and nothing is refused, so that 2,000 runs
// of `a` end after 20 s: the rate is over the 10 s of the arrivals, the busy share over all of it. Without the first
// 1,500 of 3,000 requests half of the time remains, and the rates are the same.
TEST(RunView, RatesAreOverTheTimeOfArrivals) {
  lab::Scenario scenario = small();
  scenario.config.rate_scale = 20;
  scenario.config.scheduler.admission = false;
  for (const std::uint64_t warmup : {0, 1500}) {
    SCOPED_TRACE(warmup);
    scenario.config.warmup_requests = warmup;
    const RunView view = view_of(scenario, run_of(scenario));
    EXPECT_NEAR(view.end_s, 20, 0.1);
    EXPECT_NEAR(view.counted_s, warmup == 0 ? 10 : 5, 0.01);
    EXPECT_NEAR(view.services[0].arrived_per_s, 200, 1);
    EXPECT_NEAR(view.services[1].arrived_per_s, 100, 1);
    EXPECT_NEAR(view.slices[0].busy_share, 1, 0.01);
  }
}

// Requests of `a` come at 0.1, 0.2, ..., 10.0 and run 10 ms each: 100 of them keep the first slice busy for one second
// of 10.01. Of the 8 that each input is padded to, 2 are padding.
TEST(RunView, AddsUp) {
  const lab::Scenario scenario = small();
  const RunView view = view_of(scenario, run_of(scenario));
  EXPECT_EQ(view.services[0].tally.arrived, 100U);
  EXPECT_EQ(view.services[1].tally.arrived, 50U);
  EXPECT_EQ(view.total.tally.arrived, 150U);
  EXPECT_TRUE(view.kept());
  EXPECT_DOUBLE_EQ(view.services[0].padding_share, 0.25);
  EXPECT_DOUBLE_EQ(view.services[1].padding_share, 0);
  EXPECT_DOUBLE_EQ(view.services[0].batch_mean, 1);
  EXPECT_EQ(view.slices[0].slice, "1g.6gb@0");
  EXPECT_NEAR(view.slices[0].busy_share, 1 / 10.01, 1e-9);
  EXPECT_NEAR(view.slices[0].useful_share, 0.75 / 10.01, 1e-9);
  EXPECT_NEAR(*view.busy_share, 1.5 / 2 / 10.01, 1e-9);
  EXPECT_DOUBLE_EQ(view.services[0].arrived_per_s, 10);
  EXPECT_DOUBLE_EQ(view.services[0].goodput_per_s, 10);
  ASSERT_EQ(view.buckets[0].size(), 1U);
  EXPECT_EQ(view.buckets[0][0].name, "up to 8");
}

// Services of one model on one slice have one queue: batches are counted for `a`, which is first in the file, and the
// slice names both. `b` has requests of its own and no batches, which is not a batch of zero.
TEST(RunView, NamesServicesThatJoinTheQueueOfAnother) {
  lab::Scenario scenario = small();
  Plan plan = scenario.plan;
  plan.devices[0].slices.resize(1);
  plan.devices[0].slices[0].replicas.push_back({"b", {{8, 1}}, 1});
  auto deployment = sched::compile(plan, scenario.workload, *scenario.latency);
  ASSERT_TRUE(deployment) << deployment.error().message;
  scenario.plan = plan;
  scenario.deployment = *deployment;
  Runs runs{run_of(scenario)};
  const RunView view = view_of(scenario, runs[0]);
  ASSERT_EQ(view.slices.size(), 1U);
  EXPECT_EQ(view.slices[0].services, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(view.services[1].name, "b");
  EXPECT_EQ(view.services[1].tally.arrived, 50U);
  EXPECT_GT(view.services[0].batch_mean, 0);
  EXPECT_EQ(view.services[1].batch_mean, 0);
  const std::string tables = run_tables(view, Terminal{.width = 200}, true);
  EXPECT_THAT(tables, testing::ContainsRegex("\nb .* - +0 % "));  // BATCH, PADDING.
  EXPECT_NE(tables.find("a, b"), std::string::npos) << tables;
  EXPECT_TRUE(run_json(view, runs[0])["services"][1]["batch_mean_samples"].is_null());
}

// The column appears with the first cold start; programs always have the number.
TEST(RunView, ShowsColdStartsWhereThereAreAny) {
  const lab::Scenario scenario = small();
  Runs runs{run_of(scenario)};
  EXPECT_EQ(run_tables(view_of(scenario, runs[0]), Terminal{.width = 200}, false).find("COLD"), std::string::npos);
  EXPECT_EQ(run_json(view_of(scenario, runs[0]), runs[0])["services"][1]["cold_starts"], 0);
  runs[0].result.cold_starts = {0, 7};
  const RunView view = view_of(scenario, runs[0]);
  EXPECT_NE(run_tables(view, Terminal{.width = 200}, false).find("COLD"), std::string::npos);
  EXPECT_EQ(run_json(view, runs[0])["services"][1]["cold_starts"], 7);
  EXPECT_EQ(run_json(view, runs[0])["cold_starts"], 7);
}

// The two slices of one compute slice each serve for five seconds, then one of four for the other five: 2 * 5 + 4 * 5 =
// 30 compute-slice seconds. Re-cutting takes 1 s of them; 10 ms a request, 15 requests a second.
TEST(RunView, KnowsTheUtilisationOfAPlanThatChanges) {
  lab::Scenario scenario = small();
  Plan plan = scenario.plan;
  const Geometry& geometry = plan.devices[0].geometry;
  plan.devices[0].slices = {{{static_cast<std::uint16_t>(*find_profile(geometry, "4g.24gb")), 0}, {}}};
  for (const char* service : {"a", "b"}) plan.devices[0].slices[0].replicas.push_back({service, {{8, 1}}, 1});
  auto next = sched::compile(plan, scenario.workload, *scenario.latency);
  ASSERT_TRUE(next) << next.error().message;
  scenario.config.plan_changes.push_back({kTimeZero + 5s, *next});
  scenario.config.faults.reshape_s = 1;
  scenario.config.scheduler.admission = false;
  for (auto& service : scenario.workload.services) service.slo.latency = 5s;
  for (auto& service : scenario.deployment.services) service.slo.latency = 5s;
  const RunView view = view_of(scenario, run_of(scenario));
  ASSERT_EQ(view.slices.size(), 3U);
  EXPECT_EQ(view.slices[2].slice, "4g.24gb@0");
  EXPECT_EQ(view.slices[2].device, view.slices[0].device);
  EXPECT_FALSE(view.slices[2].first_plan);
  EXPECT_EQ(view.slices[2].compute_slices, 4);
  const double on_small = 1e-2 * static_cast<double>(view.slices[0].batches + view.slices[1].batches);
  const double on_large = 1e-2 * static_cast<double>(view.slices[2].batches);
  ASSERT_TRUE(view.busy_share);
  EXPECT_NEAR(*view.busy_share, (on_small + 4 * on_large) / (10 + 4 * (view.end_s - 5)), 1e-6);
  // While the device is re-cut nothing serves, and what comes is refused.
  EXPECT_EQ(
      view.slices[0].batches + view.slices[1].batches + view.slices[2].batches + view.total.tally.rejected_total(),
      150U);
}

// Every request belongs to the warm-up: nothing is counted, and nothing was in time.
TEST(HtmlReport, ClaimsNothingAboutNoRequests) {
  lab::Scenario scenario = small();
  scenario.config.warmup_requests = 1000;
  const Runs runs{run_of(scenario), run_of(scenario)};
  EXPECT_FALSE(view_of(scenario, runs[0]).total.counted());
  const std::string page = html_report(kHead, scenario, runs);
  EXPECT_EQ(page.find(">100 %"), std::string::npos);
  EXPECT_EQ(page.find("2 of 2"), std::string::npos);
  EXPECT_EQ(page.find("nan"), std::string::npos);
}

TEST(RunView, HasTheSameBytesForTheSameSeed) {
  const lab::Scenario scenario = small();
  const Runs one{run_of(scenario)};
  const Runs two{run_of(scenario)};
  EXPECT_EQ(html_report(kHead, scenario, one), html_report(kHead, scenario, two));
  EXPECT_EQ(perfetto_trace(kHead, scenario, one), perfetto_trace(kHead, scenario, two));
  EXPECT_EQ(decision_log(kHead, one), decision_log(kHead, two));
}

// Five steps of two seconds; 20 requests of `a` in each, but the first arrives at 0.1 and the last at 10.0.
TEST(TimelineCsv, BeginsWithItsHeadAndHasARowForEachStepAndService) {
  const lab::Scenario scenario = small();
  const Runs runs{run_of(scenario)};
  const std::string csv = timeline_csv(kHead, scenario, runs);
  EXPECT_TRUE(
      csv.starts_with("# tangram 1, commit abc\n# seed 1\n# configuration {\"name\": \"small\"}\n"
                      "policy,at_s,service,arrived,served,late,lost,queue_max\nfifs,0.000,a,20,20,0,0,0\n"))
      << csv;
  EXPECT_EQ(std::ranges::count(csv, '\n'), 4 + 5 * 2);
}

TEST(PerfettoTrace, IsJsonWithATrackForEachSlice) {
  const lab::Scenario scenario = small();
  const Runs runs{run_of(scenario)};
  const auto trace = nlohmann::json::parse(perfetto_trace(kHead, scenario, runs));
  EXPECT_EQ(trace["otherData"]["configuration"]["name"], "small");
  std::size_t tracks = 0;
  std::size_t batches = 0;
  for (const auto& event : trace["traceEvents"]) {
    tracks += event["name"] == "thread_name" ? 1 : 0;
    batches += event["ph"] == "X" ? 1 : 0;
    if (event["ph"] == "X") {
      EXPECT_DOUBLE_EQ(event["dur"], 10'000);
    }
  }
  EXPECT_EQ(tracks, 2U);
  EXPECT_EQ(batches, 10U);
}

TEST(HtmlReport, NeedsNothingButItself) {
  const lab::Scenario scenario = small();
  Runs runs{run_of(scenario), run_of(scenario)};
  runs[1].policy = "edf";
  const std::string page = html_report(kHead, scenario, runs);
  for (const char* outside : {"http:", "https:", "src=", "href=", "@import", "url("}) {
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  }
  for (const char* part : {"prefers-color-scheme:dark", "Policies side by side", "id=\"run-fifs\"",
                           "id=\"run-edf\" hidden", "commit abc", "Waiting requests", "Padding", "The first batches"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(page.find("nan"), std::string::npos);
  EXPECT_EQ(page.find("\"-"), std::string::npos);  // No negative widths.
}

// Everything is refused: nothing is answered, no batch runs, and the page still stands.
TEST(HtmlReport, StandsWhenNothingWasAnswered) {
  lab::Scenario scenario = small();
  for (auto& service : scenario.workload.services) service.slo.latency = 1ms;
  for (auto& service : scenario.deployment.services) service.slo.latency = 1ms;
  const Runs runs{run_of(scenario)};
  const std::string page = html_report(kHead, scenario, runs);
  EXPECT_NE(page.find("no request was answered"), std::string::npos);
  EXPECT_EQ(page.find("nan"), std::string::npos);
}

TEST(DecisionLog, HasALineForEveryOutcome) {
  const lab::Scenario scenario = small();
  const Runs runs{run_of(scenario)};
  const std::string log = decision_log(kHead, runs);
  std::size_t outcomes = 0;
  for (std::size_t at = log.find(" resolve r"); at != std::string::npos; at = log.find(" resolve r", at + 1))
    ++outcomes;
  EXPECT_EQ(outcomes, 150U);
}

// Of the 100 and 50 requests all are in time; the first slice is busy for 1 of 10.01 s, the second for half of that.
TEST(Story, SaysThatAllIsWell) {
  const lab::Scenario scenario = small();
  const auto run = run_of(scenario);
  const auto story = story_of(view_of(scenario, run), run);
  ASSERT_EQ(story.size(), 3U);
  EXPECT_EQ(story[0], "Every promise was kept.");
  EXPECT_EQ(story[1], "Every request was answered in time.");
  EXPECT_EQ(story[2],
            "The busiest slice, 1g.6gb@0 of a30-0, was busy 10.0 % of the time; the least busy, 1g.6gb@1 of a30-0, "
            "5.0 %.");
}

// Service b cannot be in time within 1 ms; all of its 50 requests are lost, ten in each step of two seconds, so the
// first is the worst.
TEST(Story, NamesTheBrokenPromise) {
  lab::Scenario scenario = small();
  scenario.workload.services[1].slo.latency = 1ms;
  scenario.deployment.services[1].slo.latency = 1ms;
  const auto run = run_of(scenario);
  const auto story = story_of(view_of(scenario, run), run);
  ASSERT_GE(story.size(), 2U);
  EXPECT_EQ(story[0], "1 of 2 promises was broken: b.");
  EXPECT_TRUE(
      story[1].starts_with("b had the smallest margin: 0 % in time where 99 % were promised; it lost most "
                           "between "))
      << story[1];
}

TEST(Story, SaysNothingAboutNoRequests) {
  lab::Scenario scenario = small();
  scenario.config.warmup_requests = 1000;
  const auto run = run_of(scenario);
  EXPECT_EQ(story_of(view_of(scenario, run), run).front(),
            "No request was counted, so it is unknown whether the promises hold.");
}

TEST(LatencyText, HasSensibleDigits) {
  EXPECT_EQ(latency_text(123400ns), "0.123 ms");
  EXPECT_EQ(latency_text(1234us), "1.23 ms");
  EXPECT_EQ(latency_text(1106ms), "1106 ms");
  EXPECT_EQ(latency_text(123400us), "123 ms");
  EXPECT_EQ(latency_text(12s), "12.0 s");
  EXPECT_EQ(latency_text(Duration::max()), "never");
}

}  // namespace
}  // namespace tangram::report
