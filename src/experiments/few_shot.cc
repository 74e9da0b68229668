// Replays of samplers on tables that are known in full.
//
// A replay takes measurements from the table one by one, as the sampler chooses, fits a model at each budget and judges
// it by the runs that it has not seen. The replayed model is removed from the knowledge of other models first:
// otherwise the fit would know the answers.

#include "experiments/few_shot.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "base/check.h"
#include "base/math.h"
#include "lab/slo_regret.h"
#include "learn/fit.h"
#include "learn/statistics.h"

namespace tangram::experiments {
namespace {

constexpr double kCoverage = 0.95;
using learn::Candidate;

std::vector<Candidate> candidates_of(const Measurements& measurements) {
  std::vector<Candidate> candidates;
  for (const auto& m : measurements) candidates.push_back(learn::candidate_of(m));
  return candidates;
}

}  // namespace

std::vector<FewShotTable> few_shot_tables(const std::string& dataset, const Measurements& measurements) {
  std::vector<FewShotTable> tables;
  for (const auto& target : learn::targets_of(measurements)) {
    auto selected = learn::select(measurements, target);
    // A table of failures alone has no latency to learn or to judge by.
    const bool something = std::ranges::any_of(selected, [](const auto& m) { return !m.out_of_memory(); });
    if (something) tables.push_back({dataset, target, std::move(selected)});
  }
  return tables;
}

namespace {

// Everything that one replay needs: the table, its candidates, and the knowledge without the replayed model.
struct Course {
  const FewShotTable& table;
  std::vector<Candidate> candidates;
  learn::Knowledge knowledge;
  learn::Regret regret;
};

Measurements measured_until(const Course& course, const FewShotReplay& replay, std::size_t budget,
                            Measurements measured) {
  // Only the orders of active and random do not depend on the budget, so a larger budget continues the smaller one.
  // Latin and grid designs start again.
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

// Compares a fit with the whole table. Measured runs count for the regret, where they are known exactly, and not for
// the errors.
FewShotOutcome judge(const Course& course, const Measurements& measured, const learn::FittedRun& run) {
  FewShotOutcome outcome{.budget = measured.size(), .measurements = measured.size()};
  std::vector<learn::Belief> believed;
  std::vector<std::vector<double>> reality(1);
  for (std::size_t i = 0; i < course.candidates.size(); ++i) {
    const auto estimate = run.estimate(course.candidates[i]);
    const double log_ms = math::log(estimate->mean_ms);
    // An interval reaches so many predicted deviations from the mean; the division recovers one of them.
    const double deviation = math::log(estimate->high_ms / estimate->mean_ms) / run.interval_deviations;
    believed.push_back({log_ms, estimate->measured ? 0 : deviation, estimate->fits_probability});
    const auto& latency = course.table.measurements[i].latency_ms;
    reality[0].push_back(latency.value_or(learn::kOutOfMemory));
    if (!latency || estimate->measured) continue;
    outcome.errors.push_back(std::abs(estimate->mean_ms / *latency - 1));
    outcome.deviations.push_back(std::abs(math::log(*latency) - log_ms) / deviation);
  }
  outcome.regret = course.regret.loss(believed, reality);
  outcome.own_deviations = learn::unseen_errors(run);
  return outcome;
}

}  // namespace

std::vector<FewShotOutcome> replay_few_shot(std::span<const FewShotTable> tables, const learn::Knowledge& knowledge,
                                            const FewShotReplay& replay) {
  const FewShotTable& table = tables[replay.table];
  const auto candidates = candidates_of(table.measurements);
  const Course course{table, candidates, learn::without(knowledge, table.target.model),
                      lab::slo_regret(table.target.device, candidates, lab::typical_slos_ms(table.measurements))};
  std::vector<FewShotOutcome> outcomes;
  Measurements measured;
  for (const std::size_t budget : replay.budgets) {
    measured = measured_until(course, replay, budget, std::move(measured));
    const auto run = learn::fit_target(measured, course.knowledge, {.seed = replay.seed});
    if (run) {
      outcomes.push_back(judge(course, measured, *run));
    } else {
      // Nothing that was measured fitted into memory. Without a model every error counts as 100 %, no interval covers,
      // and the regret is total.
      FewShotOutcome blind{.budget = budget, .measurements = measured.size(), .regret = 1};
      for (const auto& m : table.measurements) {
        if (m.latency_ms) blind.errors.push_back(1), blind.deviations.push_back(1e9);
      }
      outcomes.push_back(std::move(blind));
    }
  }
  return outcomes;
}

FewShotOutcome whole_few_shot(std::span<const FewShotTable> tables, const learn::Knowledge& knowledge,
                              std::size_t table) {
  const auto& measurements = tables[table].measurements;
  FewShotOutcome outcome{.budget = measurements.size(), .measurements = measurements.size(), .whole = true};
  const auto run = learn::fit_target(measurements, learn::without(knowledge, tables[table].target.model), {});
  TANGRAM_CHECK(run.ok(), "something in the table fitted");
  const auto& observations = run->kriged.observations();
  for (std::size_t i = 0; const auto& forecast : learn::unseen_forecasts(*run)) {
    outcome.errors.push_back(std::abs(math::exp(forecast.log_ms - observations[i++].log_ms) - 1));
  }
  outcome.deviations = outcome.own_deviations = learn::unseen_errors(*run);
  return outcome;
}

namespace {

// All seeds of one model, budget and sampler.
struct Pool {
  FewShotResult result;
  std::vector<double> errors;
  std::vector<const FewShotOutcome*> outcomes;
};
using PoolKey = std::tuple<std::size_t, learn::SamplerKind, std::size_t>;  // Table, sampler, budget.

void add(Pool& pool, const FewShotTable& table, const FewShotReplay& replay, const FewShotOutcome& outcome) {
  pool.result.dataset = table.dataset;
  pool.result.model = table.target.model;
  pool.result.device = table.target.device;
  pool.result.budget = outcome.budget;
  pool.result.measurements = outcome.measurements;
  pool.result.sampler = replay.sampler;
  ++pool.result.seeds;
  pool.result.throughput_regret += outcome.regret;
  pool.result.whole = outcome.whole;
  pool.errors.insert(pool.errors.end(), outcome.errors.begin(), outcome.errors.end());
  pool.outcomes.push_back(&outcome);
}

// The errors of other models at the same budget under the same sampler. Other tables of the same model are left out: on
// another device they are not independent of it.
learn::OthersErrors errors_of_others(const std::map<PoolKey, Pool>& pools, const Pool& pool) {
  learn::OthersErrors errors;
  std::set<std::string_view> models;
  for (const auto& [key, other] : pools) {
    const bool alike =
        pool.result.whole ? other.result.whole : !other.result.whole && other.result.budget == pool.result.budget;
    if (!alike || other.result.sampler != pool.result.sampler || other.result.model == pool.result.model) continue;
    models.insert(other.result.model);
    for (const auto* outcome : other.outcomes) {
      errors.deviations.insert(errors.deviations.end(), outcome->deviations.begin(), outcome->deviations.end());
    }
  }
  errors.models = models.size();
  return errors;
}

// The share of held-out runs within their interval of 95 %, over all seeds.
double coverage_of(const Pool& pool, const learn::OthersErrors& others) {
  std::size_t covered = 0;
  std::size_t all = 0;
  for (const auto* outcome : pool.outcomes) {
    const double width = learn::interval_width(outcome->own_deviations, others, kCoverage).deviations;
    for (const double deviation : outcome->deviations) covered += deviation <= width ? 1 : 0;
    all += outcome->deviations.size();
  }
  return all == 0 ? 1 : static_cast<double>(covered) / static_cast<double>(all);
}

}  // namespace

std::vector<FewShotResult> few_shot_results(std::span<const FewShotTable> tables, std::span<const FewShotRun> runs) {
  std::map<PoolKey, Pool> pools;
  for (const auto& run : runs) {
    for (const auto& outcome : run.outcomes) {
      add(pools[{run.replay.table, run.replay.sampler, outcome.budget}], tables[run.replay.table], run.replay, outcome);
    }
  }
  std::vector<FewShotResult> results;
  for (const auto& [key, pool] : pools) {
    FewShotResult result = pool.result;
    result.held_out = pool.errors.size();
    result.coverage95 = coverage_of(pool, errors_of_others(pools, pool));
    if (!pool.errors.empty()) {
      result.median_error = learn::quantile(pool.errors, 0.5);
      result.p90_error = learn::quantile(pool.errors, 0.9);
    }
    // Regrets were summed over the seeds.
    result.throughput_regret /= static_cast<double>(result.seeds);
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace tangram::experiments
