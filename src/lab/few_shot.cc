#include "lab/few_shot.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "base/check.h"
#include "base/math.h"
#include "learn/detail/statistics.h"
#include "learn/fit.h"

namespace tangram::lab {
namespace {

constexpr std::size_t kSloCount = 12;
constexpr double kCoverage = 0.95;

using learn::Candidate;

std::vector<Candidate> candidates_of(const Measurements& measurements) {
  std::vector<Candidate> candidates;
  for (const auto& m : measurements) candidates.push_back(learn::candidate_of(m));
  return candidates;
}

// What one candidate brings: samples per millisecond and compute slice, at a latency of one millisecond.
std::vector<double> values_of(const std::string& device, const std::vector<Candidate>& candidates) {
  std::vector<double> values;
  for (const auto& c : candidates) {
    const auto features = learn::features_of(device, c);
    TANGRAM_CHECK(features.has_value(), "measurements name profiles of their device");
    values.push_back(static_cast<double>(c.batch * c.processes) / features->compute);
  }
  return values;
}

double keeps_probability(const learn::Belief& belief, double log_slo) {
  if (belief.deviation <= 0) return belief.log_ms <= log_slo ? 1 : 0;
  return math::normal_cdf((log_slo - belief.log_ms) / belief.deviation);
}

}  // namespace

std::vector<FewShotTable> few_shot_tables(const std::string& dataset, const Measurements& measurements) {
  std::vector<FewShotTable> tables;
  for (const auto& target : learn::targets_of(measurements)) {
    auto selected = learn::select(measurements, target);
    const bool something = std::ranges::any_of(selected, [](const auto& m) { return !m.out_of_memory(); });
    if (something) tables.push_back({dataset, target, std::move(selected)});
  }
  return tables;
}

std::vector<double> few_shot_slos_ms(const FewShotTable& table) {
  std::vector<double> latencies;
  for (const auto& m : table.measurements) {
    if (m.latency_ms) latencies.push_back(*m.latency_ms);
  }
  const double low = 1.5 * learn::detail::quantile(latencies, 0);
  const double high = std::max(low, learn::detail::quantile(latencies, 0.95));
  std::vector<double> slos;
  for (std::size_t i = 0; i < kSloCount; ++i) {
    slos.push_back(low * math::pow(high / low, static_cast<double>(i) / (kSloCount - 1)));
  }
  return slos;
}

learn::Regret slo_regret(std::string device, std::vector<Candidate> candidates, std::vector<double> slos_ms) {
  auto values = values_of(device, candidates);
  return [values = std::move(values), slos = std::move(slos_ms)](
             std::span<const learn::Belief> believed, std::span<const double> real_ms, std::span<double> blame) {
    double loss_sum = 0;
    for (const double slo : slos) {
      const double log_slo = math::log(slo);
      std::size_t chosen = values.size();
      std::size_t right = values.size();
      double hoped = 0;
      double best = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double reward = believed[i].fits * values[i] * math::exp(-believed[i].log_ms);
        if (reward > hoped) {
          const double expected = reward * keeps_probability(believed[i], log_slo);
          if (expected > hoped) hoped = expected, chosen = i;
        }
        if (real_ms[i] <= slo && values[i] / real_ms[i] > best) best = values[i] / real_ms[i], right = i;
      }
      if (right == values.size()) continue;  // Nothing keeps this promise, so nothing can be lost.
      const bool kept = chosen < values.size() && real_ms[chosen] <= slo;
      const double loss = kept ? 1 - values[chosen] / real_ms[chosen] / best : 1;
      loss_sum += loss;
      if (loss <= 0) continue;
      blame[right] += loss / 2;
      blame[chosen < values.size() ? chosen : right] += loss / 2;
    }
    return loss_sum / static_cast<double>(slos.size());
  };
}

namespace {

// Everything one replay needs of its table.
struct Course {
  const FewShotTable& table;
  std::vector<Candidate> candidates;
  learn::Knowledge knowledge;
  learn::Regret regret;
};

Measurements measured_until(const Course& course, const FewShotReplay& replay, std::size_t budget,
                            Measurements measured) {
  if (budget == course.candidates.size()) return course.table.measurements;
  // Only the orders of active and random do not depend on the budget.
  const bool nested = replay.sampler == learn::SamplerKind::active || replay.sampler == learn::SamplerKind::random;
  if (!nested) measured.clear();
  while (measured.size() < budget) {
    const auto choice = learn::next_measurement({.target = course.table.target,
                                                 .candidates = course.candidates,
                                                 .measured = measured,
                                                 .knowledge = &course.knowledge,
                                                 .regret = &course.regret},
                                                {.kind = replay.sampler, .budget = budget, .seed = replay.seed});
    TANGRAM_CHECK(choice.next.has_value(), "a budget within the table leaves something to measure");
    measured.push_back(course.table.measurements[*choice.next]);
  }
  return measured;
}

FewShotOutcome judge(const Course& course, const Measurements& measured, const learn::FittedRun& run) {
  FewShotOutcome outcome{.budget = measured.size(), .measurements = measured.size()};
  std::vector<learn::Belief> believed;
  std::vector<double> real;
  std::vector<double> blame(course.candidates.size());
  for (std::size_t i = 0; i < course.candidates.size(); ++i) {
    const auto estimate = run.estimate(course.candidates[i]);
    const double log_ms = math::log(estimate->mean_ms);
    const double deviation = math::log(estimate->high_ms / estimate->mean_ms) / run.interval_deviations;
    believed.push_back({log_ms, estimate->measured ? 0 : deviation, estimate->fits_probability});
    const auto& latency = course.table.measurements[i].latency_ms;
    real.push_back(latency.value_or(learn::kOutOfMemory));
    // A table measured in full has nothing left to judge by but itself.
    const bool counts = latency && (!estimate->measured || measured.size() == course.candidates.size());
    if (!counts) continue;
    outcome.errors.push_back(std::abs(estimate->mean_ms / *latency - 1));
    outcome.deviations.push_back(std::abs(math::log(*latency) - log_ms) / deviation);
  }
  outcome.regret = course.regret(believed, real, blame);
  if (run.calibration == learn::Calibration::own) outcome.own_interval = run.interval_deviations;
  return outcome;
}

}  // namespace

std::vector<FewShotOutcome> replay_few_shot(std::span<const FewShotTable> tables, const learn::Knowledge& knowledge,
                                            const FewShotReplay& replay) {
  const FewShotTable& table = tables[replay.table];
  const auto candidates = candidates_of(table.measurements);
  const Course course{table, candidates, learn::without(knowledge, table.target.model),
                      slo_regret(table.target.device, candidates, few_shot_slos_ms(table))};
  std::vector<FewShotOutcome> outcomes;
  Measurements measured;
  for (const std::size_t budget : replay.budgets) {
    measured = measured_until(course, replay, budget, std::move(measured));
    const auto run = learn::fit_target(measured, course.knowledge, {.seed = replay.seed});
    if (run) {
      outcomes.push_back(judge(course, measured, *run));
    } else {
      // Nothing that was measured fitted: no prediction is an error of one, and nothing can be chosen.
      FewShotOutcome blind{.budget = budget, .measurements = measured.size(), .regret = 1};
      for (const auto& m : table.measurements) {
        if (m.latency_ms) blind.errors.push_back(1), blind.deviations.push_back(1e9);
      }
      outcomes.push_back(std::move(blind));
    }
  }
  return outcomes;
}

std::vector<FewShotResult> few_shot_results(std::span<const FewShotTable> tables, std::span<const FewShotRun> runs) {
  struct Pool {
    FewShotResult result;
    std::vector<double> errors;
    std::vector<double> deviations;
    std::vector<double> own;  // For each deviation the own half width, or 0.
  };
  using Key = std::tuple<std::size_t, learn::SamplerKind, std::size_t>;  // Table, sampler, budget.
  std::map<Key, Pool> pools;
  for (const auto& run : runs) {
    const auto& table = tables[run.replay.table];
    for (const auto& outcome : run.outcomes) {
      Pool& pool = pools[{run.replay.table, run.replay.sampler, outcome.budget}];
      pool.result.dataset = table.dataset;
      pool.result.model = table.target.model;
      pool.result.device = table.target.device;
      pool.result.budget = outcome.budget;
      pool.result.measurements = outcome.measurements;
      pool.result.sampler = run.replay.sampler;
      ++pool.result.seeds;
      pool.result.throughput_regret += outcome.regret;
      pool.errors.insert(pool.errors.end(), outcome.errors.begin(), outcome.errors.end());
      pool.deviations.insert(pool.deviations.end(), outcome.deviations.begin(), outcome.deviations.end());
      pool.own.insert(pool.own.end(), outcome.deviations.size(), outcome.own_interval);
    }
  }
  std::vector<FewShotResult> results;
  for (const auto& [key, pool] : pools) {
    // The errors of other models at this budget; each model counts equally, whatever the size of its table.
    std::vector<double> others;
    for (const auto& [other, borrowed] : pools) {
      const bool same_setting =
          borrowed.result.budget == pool.result.budget && borrowed.result.sampler == pool.result.sampler;
      if (!same_setting || borrowed.result.model == pool.result.model) continue;
      others.insert(others.end(), borrowed.deviations.begin(), borrowed.deviations.end());
    }
    const double borrowed = others.empty() ? 3 : learn::detail::conformal_quantile(std::move(others), kCoverage);
    std::size_t covered = 0;
    for (std::size_t i = 0; i < pool.deviations.size(); ++i) {
      covered += pool.deviations[i] <= (pool.own[i] > 0 ? pool.own[i] : borrowed) ? 1 : 0;
    }
    FewShotResult result = pool.result;
    result.held_out = pool.errors.size();
    if (!pool.errors.empty()) {
      result.coverage95 = static_cast<double>(covered) / static_cast<double>(pool.deviations.size());
      result.median_error = learn::detail::quantile(pool.errors, 0.5);
      result.p90_error = learn::detail::quantile(pool.errors, 0.9);
    }
    result.throughput_regret /= static_cast<double>(result.seeds);
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace tangram::lab
