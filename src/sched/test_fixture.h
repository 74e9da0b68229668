// A small cluster for tests: layouts as text, run times as lists, requests with deadlines of their own.
//
//   SimFixture sim({.policy = "edf", .layouts = {"7g@0"}, .latency = {{"7g", {4ms, 7ms}}}});
//   sim.arrive({.at = 0ms, .deadline = 10ms});
//   EXPECT_EQ(sim.run().batches, (Batches{{0}}));
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/geometry.h"
#include "sched/scheduler.h"
#include "sched/test_world.h"

namespace tangram::sched::testing {

// Run times by size of slice ("1g", "7g"): the batch of n samples is the n-th of the list, larger ones do not fit.
using LatencyLists = std::map<std::string, std::vector<Duration>>;

struct ServiceSpec {
  std::string name = "s";
  std::vector<std::int64_t> edges = {1};
  int priority = 0;
  Padding padding = Padding::bucket;
  std::string only_on = {};  // A size of slice that alone serves it; empty: all do.
  Duration slo = std::chrono::hours(1);
  double percentile = 99;
  double late_limit = 1;
};

// The lists as a LatencyModel. Run times grow with the padded size as `size_factor` says.
class ListModel final : public LatencyModel {
 public:
  ListModel(LatencyLists lists, double p99_factor, std::function<double(std::int64_t)> size_factor)
      : lists_(std::move(lists)), p99_factor_(p99_factor), size_factor_(std::move(size_factor)) {}

  std::optional<Prediction> predict(const RunPoint& point) const override {
    const auto list = lists_.find(std::string(point.mig_profile.substr(0, point.mig_profile.find('.'))));
    if (list == lists_.end() || point.batch > std::ssize(list->second)) return std::nullopt;
    const Duration base = list->second[static_cast<std::size_t>(point.batch - 1)];
    const double factor = size_factor_ ? size_factor_(point.size) : 1;
    const auto scaled = [&](double by) {
      return Duration(static_cast<std::int64_t>(static_cast<double>(base.count()) * by + 0.5));
    };
    return Prediction{scaled(factor), scaled(factor * p99_factor_)};
  }

 private:
  LatencyLists lists_;
  double p99_factor_;
  std::function<double(std::int64_t)> size_factor_;
};

struct FixtureConfig {
  std::string policy = "tangram";
  std::vector<std::string> layouts = {"7g@0"};  // One device each; slices of one device stand in ascending starts.
  LatencyLists latency = {{"7g", {std::chrono::milliseconds(4), std::chrono::milliseconds(7)}}};
  std::vector<ServiceSpec> services = {ServiceSpec{}};
  double p99_factor = 1;
  std::function<double(std::int64_t)> size_factor = {};  // By padded size; left out: 1.
  SchedulerConfig scheduler = {};
  TestWorld::Reality reality = {};
};

struct ArrivalSpec {
  Duration at{};
  Duration deadline = std::chrono::hours(1);  // Since the World began.
  std::int32_t samples = 1;
  std::int64_t size = 1;
  int priority = 0;
  std::uint32_t service = 0;
  std::uint32_t tenant = 0;
};

using Batches = std::vector<std::vector<std::uint64_t>>;

struct FixtureRun {
  Batches batches;                    // Members, in the order of the launches.
  std::vector<std::uint32_t> slices;  // Where each ran.
  std::vector<Duration> starts;
  std::vector<OutcomeKind> outcomes;  // By request.
  std::vector<std::string> log;
};

// The plan that `layouts` stand for, with every service on every slice that may serve it.
inline Plan plan_of(const FixtureConfig& config, const std::vector<std::string>& layouts) {
  const Geometry& geometry = *find_geometry("a100-40gb");
  Plan plan;
  for (const auto& text : layouts) {
    const auto parsed = parse_layout(geometry, text);
    EXPECT_TRUE(parsed.problems.empty()) << text;
    PlannedDevice device{"gpu-" + std::to_string(plan.devices.size()), geometry.type, geometry, {}};
    for (const auto& slice : parsed.layout.slices) {
      PlannedSlice planned{slice, {}};
      const std::string& profile = geometry.profiles[slice.profile].name;
      const std::string size = profile.substr(0, profile.find('.'));
      const auto list = config.latency.find(size);
      for (const auto& service : config.services) {
        if (list == config.latency.end() || (!service.only_on.empty() && service.only_on != size)) continue;
        Replica replica{service.name, {}, 1};
        for (const auto edge : service.edges) replica.buckets.push_back({edge, std::ssize(list->second)});
        planned.replicas.push_back(std::move(replica));
      }
      device.slices.push_back(std::move(planned));
    }
    plan.devices.push_back(std::move(device));
  }
  return plan;
}

inline Deployment deployment_of(const FixtureConfig& config, const std::vector<std::string>& layouts) {
  Workload workload;
  for (const auto& spec : config.services) {
    Service service;
    service.name = service.model = spec.name;
    service.slo = {.latency = spec.slo, .percentile = spec.percentile, .late_limit = spec.late_limit};
    service.padding = spec.padding;
    service.priority = spec.priority;
    workload.services.push_back(std::move(service));
  }
  const ListModel model(config.latency, config.p99_factor, config.size_factor);
  auto deployment = compile(plan_of(config, layouts), workload, model);
  EXPECT_TRUE(deployment.ok()) << (deployment.ok() ? "" : deployment.error().message);
  return *deployment;
}

class SimFixture {
 public:
  explicit SimFixture(FixtureConfig config) : config_(std::move(config)), world_(config_.reality) {
    config_.scheduler.policy = config_.policy;
    scheduler_ = std::make_unique<Scheduler>(world_, deployment_of(config_, config_.layouts), config_.scheduler);
    world_.attach(*scheduler_);
  }

  std::uint64_t arrive(const ArrivalSpec& spec) {
    Request request;
    request.service = ServiceId(spec.service);
    request.tenant = TenantId(spec.tenant);
    request.priority = spec.priority;
    request.samples = spec.samples;
    request.size = spec.size;
    request.arrival = kTimeZero + spec.at;
    request.deadline = kTimeZero + spec.deadline;
    return world_.arrive(request);
  }

  void at(Duration when, std::function<void()> action) { world_.at(kTimeZero + when, std::move(action)); }
  // The plan for other layouts of the same devices comes into force.
  void change_plan(Duration when, std::vector<std::string> layouts) {
    at(when, [this, layouts] { scheduler_->on_plan_ready(deployment_of(config_, layouts)); });
  }
  void change_deployment(Duration when, Deployment next) {
    at(when, [this, next] { scheduler_->on_plan_ready(next); });
  }

  // Runs to the end; whatever World was promised and did not get fails the test.
  FixtureRun run() {
    world_.run();
    world_.judge_end();
    for (const auto& complaint : world_.complaints()) ADD_FAILURE() << complaint;
    FixtureRun run;
    for (const auto& batch : world_.batches()) {
      run.batches.push_back(batch.members);
      run.slices.push_back(batch.slice.value());
      run.starts.push_back(batch.start - kTimeZero);
    }
    for (const auto& request : world_.requests()) {
      run.outcomes.push_back(request.outcome ? request.outcome->kind : OutcomeKind::failed);
    }
    run.log = world_.log();
    return run;
  }

  const Outcome& outcome(std::uint64_t request) const { return *world_.requests()[request].outcome; }
  Duration resolved_at(std::uint64_t request) const { return world_.requests()[request].resolved_at - kTimeZero; }
  TestWorld& world() { return world_; }
  Scheduler& scheduler() { return *scheduler_; }
  const FixtureConfig& config() const { return config_; }

 private:
  FixtureConfig config_;
  TestWorld world_;
  std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace tangram::sched::testing
