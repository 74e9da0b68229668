// Random planning problems with every kind of traffic, for bench/plan/certificates.
//
// A problem is a fleet of A100s without limit, one to five services and their measurements. Rates and run times are
// drawn so that each service needs at least three of the smallest slices. Everything follows from the number of the
// problem.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/rng.h"
#include "core/fleet.h"
#include "core/measurement.h"
#include "core/workload.h"

namespace tangram::bench {

struct RandomProblem {
  Fleet fleet;
  Workload workload;
  Measurements measurements;
};

// Poisson arrivals whose rate is a random walk of steps, as a recording would have them.
inline Trace draw_trace(Rng& rng, double rate_per_s, double span_s) {
  Trace trace;
  const double step_s = rng.uniform(20, 300);
  double level = 1;
  std::vector<double> levels;
  for (double at = 0; at < span_s; at += step_s) {
    level = std::clamp(level * rng.log_normal(0, 0.35), 0.25, 3.5);
    levels.push_back(level);
  }
  double sum = 0;
  for (const double l : levels) sum += l;
  for (double at = rng.exponential(1 / rate_per_s); at < span_s;) {
    trace.push_back({kTimeZero + from_seconds(at), 1, 1});
    const auto step = std::min(static_cast<std::size_t>(at / step_s), levels.size() - 1);
    const double rate = rate_per_s * levels[step] * static_cast<double>(levels.size()) / sum;
    at += rng.exponential(1 / rate);
  }
  return trace;
}

inline Traffic draw_traffic(Rng& rng, double rate_per_s) {
  switch (rng.below(5)) {
    case 0: return PoissonTraffic{rate_per_s};
    case 1: {
      const double cycle_s = std::exp(rng.uniform(std::log(60), std::log(7200)));
      const double share = rng.uniform(0.05, 0.4);
      return BurstTraffic{rate_per_s, rng.uniform(1.5, 10), share * cycle_s, (1 - share) * cycle_s};
    }
    case 2: {
      const double period_s = std::exp(rng.uniform(std::log(600), std::log(7200)));
      return DiurnalTraffic{rate_per_s, rng.uniform(0.2, 0.9), period_s, rng.uniform(0, 1) * period_s};
    }
    case 3: {
      CurveTraffic curve;
      curve.step_s = rng.uniform(5, 120);
      const auto steps = static_cast<std::size_t>(rng.integer(10, 60));
      double sum = 0;
      for (std::size_t i = 0; i < steps; ++i) {
        curve.rate_per_s.push_back(rng.log_normal(0, 0.5));
        sum += curve.rate_per_s.back();
      }
      for (double& rate : curve.rate_per_s) rate *= rate_per_s * static_cast<double>(steps) / sum;
      return curve;
    }
    default: {
      TraceTraffic replay;
      replay.trace = draw_trace(rng, rate_per_s, std::exp(rng.uniform(std::log(600), std::log(3600))));
      return replay;
    }
  }
}

inline void add_measurements(Rng& rng, const std::string& model, double sample_ms,
                             const std::vector<std::int64_t>& sizes, Measurements& all) {
  const double fixed_ms = sample_ms * rng.uniform(0.3, 3);
  const double scaling = rng.uniform(0.6, 1);  // Two compute slices are 2^scaling times as fast.
  const double growth = rng.uniform(0.7, 1.2);
  // Half of the models have no spread, as many public measurements do.
  const double spread = rng.chance(0.5) ? 0 : rng.uniform(0.01, 0.08);
  const std::vector<std::pair<std::string, int>> profiles{
      {"1g.10gb", 1}, {"2g.20gb", 2}, {"3g.40gb", 3}, {"4g.40gb", 4}, {"7g.80gb", 7}};
  for (const auto& [profile, slices] : profiles) {
    const double speed = std::pow(slices, scaling);
    for (const std::int64_t size : sizes) {
      const double of_size = std::pow(static_cast<double>(size) / static_cast<double>(sizes.back()), growth);
      for (const std::int64_t batch : {1, 2, 4, 8, 16, 32}) {
        Measurement m;
        m.device = "a100-80gb";
        m.mig_profile = profile;
        m.model = model;
        m.batch = batch;
        m.size = size;
        m.latency_ms = (fixed_ms + sample_ms * of_size * static_cast<double>(batch)) / speed;
        if (spread > 0) m.latency_spread_ms = spread * *m.latency_ms;
        all.push_back(m);
      }
    }
  }
}

// The problems from this number on are of the kinds on which certificates were once false: Slos that hold thousands of
// requests, so that a small overload takes minutes to show; requests of several samples; traces in which large inputs
// come together.
inline constexpr std::uint64_t kHardProblems = 2001;

inline void make_hard(Rng rng, double sample_ms, bool sized, Service& service) {
  service.slo.latency = from_milliseconds(sample_ms * std::exp(rng.uniform(std::log(40), std::log(600))));
  auto* replay = std::get_if<TraceTraffic>(&service.traffic);
  if (rng.chance(0.4) && replay == nullptr) service.samples = HistogramSize{"", {{1, 6}, {2, 3}, {8, 1}}};
  if (replay == nullptr || !sized) return;
  // Stretches of small and of large inputs.
  const double stretch_s = rng.uniform(60, 600);
  const double large_share = rng.uniform(0.05, 0.3);
  service.input_size = TraceSize{};
  const std::uint64_t salt = rng.next_u64();
  for (auto& entry : replay->trace) {
    const auto stretch = static_cast<std::uint64_t>(to_seconds(entry.at - kTimeZero) / stretch_s);
    const bool large = Rng(salt).stream("stretch", stretch).uniform() < large_share;
    entry.size = large ? 512 : rng.integer(4, 100);
  }
}

// The problems from this number on have services that need a slice or less each and models whose memory is known, so
// that `tangram plan` lets them share slices. None replays a trace, and every period divides kSharedPeriod, so that
// runs of that length have whole periods of all.
inline constexpr std::uint64_t kSharedProblems = 3001;
inline constexpr double kSharedPeriod = 7200;

inline Traffic draw_shared_traffic(Rng& rng, double rate_per_s) {
  const double parts[] = {1, 2, 3, 6, 12};
  const double period_s = kSharedPeriod / parts[rng.below(5)];
  switch (rng.below(4)) {
    case 0: return PoissonTraffic{rate_per_s};
    case 1: {
      const double share = rng.uniform(0.05, 0.4);
      const double cycle_s = std::exp(rng.uniform(std::log(60), std::log(3600)));
      return BurstTraffic{rate_per_s, rng.uniform(1.5, 6), share * cycle_s, (1 - share) * cycle_s};
    }
    case 2: return DiurnalTraffic{rate_per_s, rng.uniform(0.2, 0.9), period_s, rng.uniform(0, 1) * period_s};
    default: {
      CurveTraffic curve;
      const double steps = 20;
      curve.step_s = period_s / steps;
      double sum = 0;
      for (int i = 0; i < static_cast<int>(steps); ++i) {
        curve.rate_per_s.push_back(rng.log_normal(0, 0.5));
        sum += curve.rate_per_s.back();
      }
      for (double& rate : curve.rate_per_s) rate *= rate_per_s * steps / sum;
      return curve;
    }
  }
}

inline RandomProblem shared_problem(std::uint64_t number, double rate_max) {
  Rng rng = Rng(number).stream("shared problem");
  RandomProblem problem;
  DeviceGroup group;
  group.name = group.type = "a100-80gb";
  group.profiles = ProfileSet::base;
  problem.fleet.groups = {group};
  const auto services = rng.integer(5, 14);
  for (std::int64_t s = 0; s < services; ++s) {
    Service service;
    service.name = fmt::format("s{}", s);
    service.model = fmt::format("m{}", s);
    const double rate = std::exp(rng.uniform(std::log(rate_max / 15), std::log(rate_max)));
    const double sample_ms = 1000 * std::exp(rng.uniform(std::log(0.02), std::log(1))) / rate;
    const std::size_t first = problem.measurements.size();
    add_measurements(rng, service.model, sample_ms, {1}, problem.measurements);
    const double weights_mib = std::exp(rng.uniform(std::log(300), std::log(4000)));
    for (std::size_t m = first; m < problem.measurements.size(); ++m) {
      problem.measurements[m].weights_mib = weights_mib;
      problem.measurements[m].memory_mib =
          weights_mib * (1 + 0.02 * static_cast<double>(problem.measurements[m].batch));
    }
    const double percentiles[] = {90, 95, 99, 99.5};
    // Long enough for a run of a neighbour: a slice is taken by one batch at a time.
    service.slo = {from_milliseconds(std::max(50.0, sample_ms * rng.uniform(8, 60))), percentiles[rng.below(4)]};
    service.traffic = draw_shared_traffic(rng, rate);
    problem.workload.services.push_back(std::move(service));
  }
  return problem;
}

// `rate_max`: 300 for most problems of the benchmark, 5,000 for the large ones.
inline RandomProblem random_problem(std::uint64_t number, double rate_max) {
  if (number >= kSharedProblems) return shared_problem(number, rate_max);
  Rng rng = Rng(number).stream("problem");
  RandomProblem problem;
  DeviceGroup group;
  group.name = group.type = "a100-80gb";
  group.profiles = ProfileSet::base;
  problem.fleet.groups = {group};
  const auto services = rng.integer(1, 5);
  for (std::int64_t s = 0; s < services; ++s) {
    Service service;
    service.name = fmt::format("s{}", s);
    service.model = fmt::format("m{}", s);
    const double rate = std::exp(rng.uniform(std::log(rate_max / 15), std::log(rate_max)));
    // Slices of 1g that the mean rate keeps busy with full batches.
    const double busy = rng.uniform(2.5, 9);
    const double sample_ms = 1000 * busy / rate;
    std::vector<std::int64_t> sizes{1};
    if (rng.chance(0.4)) {
      sizes = {16, 64, 256, 512};
      service.input_size = LogNormalSize{rng.uniform(40, 200), rng.uniform(0.4, 1), 4, 512};
    }
    add_measurements(rng, service.model, sample_ms, sizes, problem.measurements);
    const double percentiles[] = {90, 95, 99, 99.5};
    service.slo = {from_milliseconds(sample_ms * rng.uniform(4, 40)), percentiles[rng.below(4)]};
    service.traffic = draw_traffic(rng, rate);
    if (number >= kHardProblems) {
      make_hard(Rng(number).stream("hard", static_cast<std::uint64_t>(s)), sample_ms, sizes.size() > 1, service);
    }
    problem.workload.services.push_back(std::move(service));
  }
  return problem;
}

}  // namespace tangram::bench
