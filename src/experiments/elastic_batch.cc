// The fewest devices for text models under eight ways of planning.
//
// The variants separate two effects: slices (MIG on or off) and buckets (pad to the longest, fixed edges, chosen
// edges). All but off_shared are planned with the same certifier, so a difference in devices is a difference of the
// method. Plans are then simulated with all services at once and a seed that no search has seen.

#include "experiments/elastic_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/check.h"
#include "experiments/detail/text_services.h"
#include "lab/certify.h"
#include "plan/demand.h"
#include "sched/deployment.h"
#include "sim/simulation.h"

namespace tangram::experiments {
namespace {

using detail::kFixedEdges;
using detail::make_problem;
using detail::make_workload;
using detail::MeasuredSlices;

// Where the search for a number of shared devices gives up.
constexpr int kSharedDevicesMax = 200;

// Every fixed bucket as a service of its own, which shares its devices with no other. Inputs are padded to the edge, so
// each part has one constant size and its share of the traffic.
Workload split_by_bucket(const Workload& workload) {
  Workload split;
  for (const auto& service : workload.services) {
    const auto sizes = plan::size_shares(service);
    std::vector<std::int64_t> edges;
    for (const auto edge : kFixedEdges) {
      if (edges.empty() || edges.back() < sizes.back().size) edges.push_back(edge);
    }
    // Inputs beyond the last fixed edge still need a bucket.
    if (edges.back() < sizes.back().size) edges.push_back(sizes.back().size);
    const auto shares = plan::bucket_shares(sizes, edges);
    for (std::size_t i = 0; i < edges.size(); ++i) {
      if (shares[i] <= 0) continue;
      Service part = service;
      part.name += fmt::format("-{}", edges[i]);
      part.input_size = ConstantSize{edges[i]};
      part.traffic = PoissonTraffic{mean_rate_per_s(service.traffic) * shares[i]};
      split.services.push_back(std::move(part));
    }
  }
  return split;
}

// What a simulation of a plan shows, with all services at once. Utilisation is over all compute slices of the devices,
// unused ones included.
struct Served {
  double attainment = 1;
  double busy = 0;
  double useful = 0;
};

Served serve(const Plan& plan, const Workload& workload, const LatencyModel& latency, std::uint64_t requests) {
  const auto deployment = sched::compile(plan, workload, latency);
  TANGRAM_CHECK(deployment.ok(), "a plan of ours can be served");
  sim::SimulationConfig config;
  config.seed = detail::kSeedJudged;
  config.requests_max = requests;
  config.warmup_requests = requests / 10;
  const auto result = sim::simulate(*deployment, workload, config);
  Served served;
  for (std::size_t s = 0; s < workload.services.size(); ++s) {
    served.attainment = std::min(served.attainment, result.metrics.service_total(s).slo_attainment());
  }
  double busy = 0;
  double useful = 0;
  for (std::size_t i = 0; i < deployment->places.size(); ++i) {
    // Busy time is weighted by the size of the slice: a busy 7g slice is seven times as much as a busy 1g.
    const double size = deployment->pools[deployment->places[i].pool.index()].compute_slices;
    busy += size * static_cast<double>(result.metrics.slices[i].busy_ns);
    useful += size * result.metrics.slices[i].useful_ns;
  }
  double capacity = 0;
  for (const auto& device : plan.devices) capacity += device.geometry.compute_slices;
  const double all = capacity * 1e9 * to_seconds(result.end);
  served.busy = busy / all;
  served.useful = useful / all;
  return served;
}

// The plan of `devices` whole devices with every model on each, with the edges that the planner chose for each model
// alone.
Plan shared_plan(const plan::PlanAnswer& alone, int devices) {
  Plan plan;
  for (int d = 0; d < devices; ++d) {
    PlannedDevice device = alone.plan.devices.front();
    device.name = fmt::format("{}-{}", device.type, d);
    PlannedSlice slice{device.slices.front().slice, {}};
    for (const auto& service : alone.services) slice.replicas.push_back(service.groups.front().replica);
    device.slices = {slice};
    plan.devices.push_back(std::move(device));
  }
  return plan;
}

class Run {
 public:
  Run(const ElasticBatchInput& input, const ElasticBatchSetting& setting)
      : input_(input),
        setting_(setting),
        workload_(make_workload(input, setting)),
        latency_(input),
        // The long run of a confirmation is left out; fill() simulates each plan as a whole afterwards.
        certifier_(latency_, {.requests_look = 100'000, .requests_confirm = 200'000, .noise = 0}) {}

  std::vector<ElasticBatchResult> all() {
    plan("off_longest", "whole_gpu", plan::Bucketing::longest);
    plan("off_fixed", "whole_gpu", plan::Bucketing::longest, split_by_bucket(workload_));
    plan("off_fixed_sharing", "whole_gpu", plan::Bucketing::fixed);
    const auto chosen = plan("off_chosen", "whole_gpu", plan::Bucketing::chosen);
    shared(chosen);
    plan("mig_longest", "elastic", plan::Bucketing::longest);
    plan("elastic", "elastic", plan::Bucketing::chosen);
    sharing_ = plan::Sharing::all;
    plan("elastic_shared", "elastic", plan::Bucketing::chosen);
    return std::move(results_);
  }

 private:
  // The reference is valid until the next call.
  ElasticBatchResult& add(const char* variant) {
    results_.push_back({});
    results_.back().setting = setting_;
    results_.back().variant = variant;
    return results_.back();
  }

  // Simulates the plan and fills in what it shows. Requires that every service of `workload` has a replica in it.
  void fill(ElasticBatchResult& result, const Plan& plan, const Workload& workload) const {
    result.gpus = static_cast<int>(plan.devices.size());
    const Served served = serve(plan, workload, latency_, 10000 * workload.services.size());
    result.slo_attainment = served.attainment;
    result.utilisation_busy = served.busy;
    result.utilisation_useful = served.useful;
    result.layouts = layouts_text(plan);
  }

  plan::PlanAnswer plan(const char* variant, const char* planner, plan::Bucketing bucketing) {
    return plan(variant, planner, bucketing, workload_);
  }
  plan::PlanAnswer plan(const char* variant, const char* planner, plan::Bucketing bucketing, const Workload& workload) {
    auto problem = make_problem(input_, latency_, workload, bucketing, &certifier_);
    problem.options.sharing = sharing_;
    const auto answer = plan::find_planner(planner)->make()->plan(problem);
    ElasticBatchResult& result = add(variant);
    result.reason = answer.reason;
    if (answer.status != plan::PlanStatus::planned) return answer;
    fill(result, answer.plan, workload);
    // A fraction of a device is a whole device; the tolerance absorbs the solver's rounding.
    result.bound = static_cast<int>(std::lround(std::ceil(answer.bound - 1e-6)));
    result.proved = answer.proved;
    return answer;
  }

  // True if every service keeps its p99 in all of four runs. The first one is short: it rejects a too small number
  // cheaply.
  bool holds(const Plan& plan) const {
    constexpr int kRuns = 4;
    const auto deployment = sched::compile(plan, workload_, latency_);
    TANGRAM_CHECK(deployment.ok(), "a plan of ours can be served");
    for (int run = 0; run < kRuns; ++run) {
      sim::SimulationConfig config;
      config.seed = detail::kSeedSearch + static_cast<std::uint64_t>(run);
      config.requests_max = (run == 0 ? 2000 : 15000) * workload_.services.size();
      config.warmup_requests = config.requests_max / 10;
      const auto result = sim::simulate(*deployment, workload_, config);
      for (std::size_t s = 0; s < workload_.services.size(); ++s) {
        if (result.metrics.service_total(s).slo_attainment() < 0.99) return false;
      }
    }
    return true;
  }

  // The fewest devices if all models share all of them. The planner shares slices only where it may cut, so the number
  // is sought here.
  void shared(const plan::PlanAnswer& alone) {
    ElasticBatchResult& result = add("off_shared");
    result.reason = alone.reason;
    if (alone.status != plan::PlanStatus::planned) return;
    // Doubling finds a number of devices that holds, bisection the least one between it and the last that does not.
    int low = 0;
    int high = 1;
    while (!holds(shared_plan(alone, high))) {
      low = high;
      high *= 2;
      if (high <= kSharedDevicesMax) continue;
      result.reason = fmt::format("models that share all devices do not keep their promises on {} devices", low);
      return;
    }
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (holds(shared_plan(alone, middle)) ? high : low) = middle;
    }
    fill(result, shared_plan(alone, high), workload_);
  }

  const ElasticBatchInput& input_;
  const ElasticBatchSetting& setting_;
  Workload workload_;
  MeasuredSlices latency_;
  lab::SimulatedCertifier certifier_;
  plan::Sharing sharing_ = plan::Sharing::none;
  std::vector<ElasticBatchResult> results_;
};

}  // namespace

std::string layouts_text(const Plan& plan) {
  std::map<std::string, int> counts;
  for (const auto& device : plan.devices) {
    // Equal cuts in another order count as one layout.
    ++counts[to_string(device.geometry, multiset_of(device.geometry, layout_of(device)))];
  }
  std::string text;
  for (const auto& [layout, count] : counts)
    text += fmt::format("{}{} x ({})", text.empty() ? "" : ", ", count, layout);
  return text;
}

std::vector<ElasticBatchSetting> elastic_batch_settings(const LengthDistribution& lengths) {
  std::vector<ElasticBatchSetting> settings;
  for (const double slo_ms : {50.0, 100.0, 200.0}) {
    for (const double rate : {100.0, 300.0, 1000.0, 3000.0}) settings.push_back({slo_ms, rate, lengths});
  }
  return settings;
}

LengthDistribution reference_lengths() { return {"log_normal", LogNormalSize{48, 0.8, 1, 512}}; }

std::vector<ElasticBatchModels> elastic_batch_models(const Measurements& measurements) {
  std::map<std::string, std::map<std::string, std::set<std::int64_t>>> sizes;  // By device and model.
  for (const auto& m : measurements) {
    if (!m.out_of_memory()) sizes[m.device][m.model].insert(m.size);
  }
  // One group for each device, with only those of its models and profiles that can be used.
  std::vector<ElasticBatchModels> all;
  for (const auto& [device, models] : sizes) {
    ElasticBatchModels found;
    found.device = device;
    std::set<std::string> profiles;
    for (const auto& [model, lengths] : models) {
      // A model timed at a single size has no lengths to put into buckets.
      if (lengths.size() < 2) continue;
      found.models.push_back(model);
      found.size_max = std::max(found.size_max, *lengths.rbegin());
    }
    for (const auto& m : measurements) {
      if (m.device != device || std::ranges::find(found.models, m.model) == found.models.end()) continue;
      found.measurements.push_back(m);
      profiles.insert(m.mig_profile);
    }
    found.mig_profiles.assign(profiles.begin(), profiles.end());
    if (!found.models.empty()) all.push_back(std::move(found));
  }
  return all;
}

const std::vector<ElasticBatchVariant>& elastic_batch_variants() {
  static const std::vector<ElasticBatchVariant> kVariants{
      {"off_longest", "MIG off, every input padded to the longest"},
      {"off_fixed", "MIG off, buckets of 32, 64, 128, 256 and 512, each on its own devices"},
      {"off_fixed_sharing", "the same buckets, sharing the devices of their model"},
      {"off_chosen", "MIG off, edges chosen by the planner"},
      {"off_shared", "the same, and all models share all devices"},
      {"mig_longest", "MIG on, every input padded to the longest"},
      {"elastic", "MIG on, edges chosen by the planner; tangram plan --sharing none"},
      {"elastic_shared", "the same, and models may share slices; tangram plan"},
  };
  return kVariants;
}

std::vector<ElasticBatchResult> run_elastic_batch(const ElasticBatchInput& input, const ElasticBatchSetting& setting) {
  return Run(input, setting).all();
}

}  // namespace tangram::experiments
