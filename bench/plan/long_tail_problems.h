// Planning problems with long tails, for bench/plan/sharing: many services, most of them seldom asked.
//
// The services of a problem have Zipf rates. The random ones draw everything else, and follow from their number. The
// fixed ones are the rows of the table in docs/results/sharing.md.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bench/plan/random_problems.h"

namespace tangram::bench {

inline Fleet fleet_of_a100s() {
  Fleet fleet;
  DeviceGroup group;
  group.name = group.type = "a100-80gb";
  group.profiles = ProfileSet::base;
  fleet.groups = {group};
  return fleet;
}

inline double log_uniform(Rng& rng, double low, double high) {
  return std::exp(rng.uniform(std::log(low), std::log(high)));
}

// A model with memory: weights, and a working set that grows with the batch.
inline void add_model(Rng& rng, const std::string& name, Measurements& all) {
  const double sample_ms = log_uniform(rng, 0.3, 8);  // On one compute slice.
  const double fixed_ms = sample_ms * rng.uniform(0.5, 6);
  const double scaling = rng.uniform(0.6, 1);  // Two compute slices are 2^scaling times as fast.
  const double spread = rng.chance(0.5) ? 0 : rng.uniform(0.01, 0.06);
  const double weights_mib = log_uniform(rng, 300, 5000);
  const double sample_mib = weights_mib * rng.uniform(0.005, 0.03);
  const std::vector<std::pair<std::string, int>> profiles{
      {"1g.10gb", 1}, {"2g.20gb", 2}, {"3g.40gb", 3}, {"4g.40gb", 4}, {"7g.80gb", 7}};
  for (const auto& [profile, slices] : profiles) {
    for (const std::int64_t batch : {1, 2, 4, 8, 16, 32}) {
      Measurement m;
      m.device = "a100-80gb";
      m.mig_profile = profile;
      m.model = name;
      m.batch = batch;
      m.latency_ms = (fixed_ms + sample_ms * static_cast<double>(batch)) / std::pow(slices, scaling);
      if (spread > 0) m.latency_spread_ms = spread * *m.latency_ms;
      m.weights_mib = weights_mib;
      m.memory_mib = weights_mib + sample_mib * static_cast<double>(batch);
      all.push_back(m);
    }
  }
}

// What a batch of one takes on a whole GPU.
inline double run_of_one_ms(const Measurements& all, const std::string& model) {
  for (const auto& m : all) {
    if (m.model == model && m.mig_profile.starts_with("7g") && m.batch == 1 && m.processes == 1) return *m.latency_ms;
  }
  return 0;
}

// 10 to 60 services on 3 to 8 models, with promises of 4 to 20 times the run of one on a whole GPU. Four in ten share
// their model's weights, the others have their own; one in ten has slices of its own, and one in ten shares only with
// its tenant. One in ten has a rate that varies over the day.
inline RandomProblem long_tail_problem(std::uint64_t number) {
  Rng rng = Rng(number).stream("long tail");
  RandomProblem problem;
  problem.fleet = fleet_of_a100s();
  const auto models = rng.integer(3, 8);
  for (std::int64_t m = 0; m < models; ++m) add_model(rng, fmt::format("m{}", m), problem.measurements);
  const auto services = rng.integer(10, 60);
  const double rate_first = log_uniform(rng, 10, 600);
  const double exponent = rng.uniform(0.8, 1.3);
  for (std::int64_t s = 0; s < services; ++s) {
    Service service;
    service.name = fmt::format("s{}", s);
    service.model = fmt::format("m{}", rng.below(static_cast<std::uint64_t>(models)));
    const double one_ms = run_of_one_ms(problem.measurements, service.model);
    // Rounded as the files have them, so that a problem that was written is the same problem.
    const double slo_ms = std::round(1000 * one_ms * rng.uniform(4, 20)) / 1000;
    service.slo = {from_milliseconds(slo_ms), rng.chance(0.8) ? 99.0 : 95.0};
    const double rate = rate_first / std::pow(static_cast<double>(s + 1), exponent);
    service.traffic = PoissonTraffic{rate};
    if (rng.chance(0.1)) service.traffic = DiurnalTraffic{rate, rng.uniform(0.2, 0.8), 86400, 43200};
    if (!rng.chance(0.4)) service.weights = fmt::format("w{}", s);
    if (rng.chance(0.1)) service.isolation = Isolation::own_slices;
    if (rng.chance(0.1)) {
      service.isolation = Isolation::tenant;
      service.tenant = rng.chance(0.5) ? "a" : "b";
    }
    problem.workload.services.push_back(std::move(service));
  }
  return problem;
}

// Thirty services, 2 requests/s each, on three models, each with weights of its own.
inline RandomProblem thirty_services(const Measurements& example) {
  RandomProblem problem{fleet_of_a100s(), {}, example};
  const std::string models[] = {"mobile-vision", "deep-vision", "text-encoder"};
  for (int s = 0; s < 30; ++s) {
    Service service;
    service.name = fmt::format("s{}", s);
    service.model = models[s % 3];
    service.weights = fmt::format("w{}", s);
    service.slo = {std::chrono::milliseconds(200), 99};
    service.traffic = PoissonTraffic{2};
    problem.workload.services.push_back(std::move(service));
  }
  return problem;
}

// 200 services on three models, rates 1500 / rank^1.1, those of one model sharing weights and batches.
inline RandomProblem two_hundred_services(const Measurements& example) {
  RandomProblem problem = thirty_services(example);
  problem.workload.services.resize(3);
  const std::vector<Service> models = problem.workload.services;
  problem.workload.services.clear();
  for (std::size_t s = 0; s < 200; ++s) {
    Service service = models[s % 3];
    service.name = fmt::format("s{}", s);
    service.weights = "";
    service.traffic = PoissonTraffic{1500 / std::pow(static_cast<double>(s + 1), 1.1)};
    problem.workload.services.push_back(std::move(service));
  }
  return problem;
}

// 1,000 services, rates 1000 / rank^1.1, each with its own weights, on the models of `measured`; promises 4 to 20 times
// the run of one on a whole GPU.
inline RandomProblem thousand_services(const Measurements& measured, std::size_t services = 1000) {
  RandomProblem problem{fleet_of_a100s(), {}, measured};
  std::vector<std::string> models;
  for (const auto& m : measured) {
    if (std::ranges::find(models, m.model) == models.end()) models.push_back(m.model);
  }
  Rng rng = Rng(1000).stream("long tail");
  for (std::size_t s = 0; s < services; ++s) {
    Service service;
    service.name = fmt::format("s{}", s);
    service.model = models[rng.below(models.size())];
    service.weights = fmt::format("w{}", s);
    const double slo_ms = std::round(1000 * run_of_one_ms(measured, service.model) * rng.uniform(4, 20)) / 1000;
    service.slo = {from_milliseconds(slo_ms), 99};
    service.traffic = PoissonTraffic{1000 / std::pow(static_cast<double>(s + 1), 1.1)};
    problem.workload.services.push_back(std::move(service));
  }
  return problem;
}

// The tables of ParvaGPU and MIGProfiler on one board. MIGProfiler measured slices of an A100 with 40 GB: its run times
// are taken for the slices of an A100 with 80 GB that have as many compute slices.
inline Measurements measured_models(const Measurements& parvagpu, const Measurements& migprofiler) {
  Measurements all;
  for (Measurement m : parvagpu) {
    if (m.device != "a100-80gb" || m.processes != 1) continue;
    m.weights_mib = 2500;
    all.push_back(std::move(m));
  }
  // The input size with the most batches.
  std::map<std::string, std::map<std::int64_t, int>> rows;
  for (const auto& m : migprofiler) rows[m.model][m.size] += m.device == "a100-40gb" && m.latency_ms ? 1 : 0;
  std::map<std::string, std::int64_t> size;
  for (const auto& [model, counts] : rows) {
    size[model] = std::ranges::max_element(counts, {}, [](const auto& count) { return count.second; })->first;
  }
  const std::map<char, std::string> profiles{
      {'1', "1g.10gb"}, {'2', "2g.20gb"}, {'3', "3g.40gb"}, {'4', "4g.40gb"}, {'7', "7g.80gb"}};
  for (Measurement m : migprofiler) {
    if (m.device != "a100-40gb" || !m.latency_ms || m.size != size[m.model]) continue;
    m.device = "a100-80gb";
    m.mig_profile = profiles.at(m.mig_profile[0]);
    m.size = 1;
    all.push_back(std::move(m));
  }
  // Promises are multiples of the run of one on a whole GPU.
  std::map<std::string, double> one;
  for (const auto& m : all) one.try_emplace(m.model, run_of_one_ms(all, m.model));
  std::erase_if(all, [&](const Measurement& m) { return one[m.model] <= 0; });
  return all;
}

}  // namespace tangram::bench
