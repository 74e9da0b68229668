// Replays of samplers on tables that are known in full.
//
// A replay takes measurements from the table one by one, as the sampler chooses, fits a model at each budget and judges
// it by the runs that it has not seen. Neither the sampler nor the fit sees anything else of the table: promises that
// the sampler plans for follow from what was measured, and the replayed model is removed from the knowledge of other
// models. Only the judge, that is, the errors, the coverage and the regret, knows the whole table.

#include "experiments/few_shot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include "base/check.h"
#include "base/math.h"
#include "core/geometry.h"
#include "lab/slo_regret.h"
#include "learn/fit.h"
#include "learn/statistics.h"

namespace tangram::experiments {
namespace {

using learn::Candidate;

std::vector<Candidate> candidates_of(const Measurements& measurements) {
  std::vector<Candidate> candidates;
  for (const auto& m : measurements) candidates.push_back(learn::candidate_of(m));
  return candidates;
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

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

std::string family_of(std::string_view model) {
  constexpr std::array<std::string_view, 2> kDescendantsOfBert{"distiluse", "paraphrase"};
  const auto end = std::ranges::find_if_not(model, is_letter);
  const std::string_view name = model.substr(0, static_cast<std::size_t>(end - model.begin()));
  // A name without a letter at its front is a family of its own.
  if (name.empty()) return std::string(model);
  return std::ranges::find(kDescendantsOfBert, name) != kDescendantsOfBert.end() ? "bert" : std::string(name);
}

std::set<std::string> left_out_models(std::span<const FewShotTable> tables, std::size_t table, LeftOut left_out) {
  const std::string& model = tables[table].target.model;
  std::set<std::string> models{model};
  for (const auto& other : tables) {
    if (left_out == LeftOut::family && family_of(other.target.model) == family_of(model)) {
      models.insert(other.target.model);
    }
  }
  return models;
}

learn::Knowledge know_others(std::span<const FewShotTable> tables, const learn::Knowledge& all,
                             const std::set<std::string>& left_out) {
  learn::Knowledge knowledge = all;
  for (const auto& model : left_out) knowledge = learn::without(knowledge, model);
  Measurements others;
  for (const auto& table : tables) {
    if (left_out.contains(table.target.model)) continue;
    others.insert(others.end(), table.measurements.begin(), table.measurements.end());
  }
  knowledge.errors.clear();
  learn::learn_errors(knowledge, others);
  return knowledge;
}

namespace {

// The table in the order in which `tangram measure` lists candidates: by slice, size, processes and batch. Samplers
// break ties by it.
Measurements in_order_of_candidates(const FewShotTable& table) {
  const Geometry* geometry = find_geometry(table.target.device);
  const auto slice = [&](const Measurement& m) {
    if (geometry == nullptr) return std::size_t{0};
    const auto profile = find_profile(*geometry, m.mig_profile);
    return profile ? static_cast<std::size_t>(*profile) : geometry->profiles.size();
  };
  Measurements ordered = table.measurements;
  std::ranges::stable_sort(ordered, {}, [&](const Measurement& m) {
    return std::tuple(slice(m), m.mig_profile, m.size, m.processes, m.batch);
  });
  return ordered;
}

// ParvaGPU measures nothing outside of its grid. A table without any of it is measured as it is.
Measurements grid_alone(const Measurements& ordered) {
  Measurements grid;
  for (const std::size_t i : learn::parvagpu_grid(candidates_of(ordered))) grid.push_back(ordered[i]);
  return grid.empty() ? ordered : grid;
}

// What a sampler may ask for in the course of a replay.
Measurements askable(const FewShotTable& table, learn::SamplerKind sampler) {
  Measurements ordered = in_order_of_candidates(table);
  return sampler == learn::SamplerKind::grid ? grid_alone(ordered) : ordered;
}

// What is still worth measuring: everything but runs that are at least as large as one that was out of memory. Measured
// runs stay.
Measurements offered(const Measurements& ordered, const Measurements& measured) {
  Measurements open = ordered;
  std::erase_if(open, [&](const Measurement& m) {
    const Candidate candidate = learn::candidate_of(m);
    bool hopeless = false;
    for (const auto& done : measured) {
      if (learn::candidate_of(done) == candidate) return false;
      hopeless = hopeless || (done.out_of_memory() && learn::at_least_as_large(candidate, learn::candidate_of(done)));
    }
    return hopeless;
  });
  return open;
}

// The promises that `tangram measure` plans for: typical ones between the latencies measured so far; nothing before the
// first run that fits.
std::optional<learn::Regret> regret_of(const FewShotTable& table, const std::vector<Candidate>& candidates,
                                       const Measurements& measured) {
  const bool fitted = std::ranges::any_of(measured, [](const auto& m) { return !m.out_of_memory(); });
  if (!fitted) return std::nullopt;
  return lab::slo_regret(table.target.device, candidates, lab::typical_slos_ms(measured));
}

// Adds measurements until there are as many as the budget says, or nothing is left that could fit.
void measure_until_budget(const FewShotTable& table, const Measurements& ordered, const learn::Knowledge& knowledge,
                          const learn::SamplerOptions& sampling, Measurements& measured) {
  // `tangram measure` needs no intervals, so it does not learn the errors that they rest on.
  learn::Knowledge seen = knowledge;
  seen.errors.clear();
  while (measured.size() < sampling.budget) {
    const Measurements open = offered(ordered, measured);
    const auto candidates = candidates_of(open);
    const auto regret = regret_of(table, candidates, measured);
    const auto choice = learn::next_measurement({.target = table.target,
                                                 .candidates = candidates,
                                                 .measured = measured,
                                                 .knowledge = &seen,
                                                 .regret = regret ? &*regret : nullptr},
                                                sampling);
    if (!choice.next) return;
    measured.push_back(open[*choice.next]);
  }
}

// Compares a fit with the whole table. Measured runs count for the regret, where they are known exactly, and not for
// the errors.
FewShotOutcome judge(const FewShotTable& table, const learn::FittedRun& run) {
  FewShotOutcome outcome;
  const auto candidates = candidates_of(table.measurements);
  std::vector<learn::Belief> believed;
  std::vector<std::vector<double>> reality(1);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const auto estimate = run.estimate(candidates[i]);
    TANGRAM_CHECK(estimate.has_value(), "measurements name profiles of their device");
    // An interval reaches so many predicted deviations from the mean; the division recovers one of them.
    const double deviation = math::log(estimate->high_ms / estimate->mean_ms) / run.interval_deviations;
    believed.push_back({math::log(estimate->mean_ms), estimate->measured ? 0 : deviation, estimate->fits_probability});
    const auto& latency = table.measurements[i].latency_ms;
    reality[0].push_back(latency.value_or(learn::kOutOfMemory));
    if (!latency || estimate->measured) continue;
    outcome.errors.push_back(std::abs(estimate->mean_ms / *latency - 1));
    outcome.covered += estimate->low_ms <= *latency && *latency <= estimate->high_ms ? 1 : 0;
  }
  const auto regret = lab::slo_regret(table.target.device, candidates, lab::typical_slos_ms(table.measurements));
  outcome.regret = regret.loss(believed, reality);
  return outcome;
}

// Nothing that was measured fitted into memory. Without a model every error counts as 100 %, no interval covers, and
// the regret is total.
FewShotOutcome judge_nothing(const FewShotTable& table) {
  FewShotOutcome blind{.regret = 1};
  for (const auto& m : table.measurements) {
    if (m.latency_ms) blind.errors.push_back(1);
  }
  return blind;
}

// As `tangram learn` fits a file with one target.
Result<learn::FittedRun> learn_one(const Measurements& measured, const learn::Knowledge& knowledge) {
  TANGRAM_TRY(const auto model, learn::fit(measured, knowledge, {}));
  return model.runs().front();
}

}  // namespace

Measurements measure_few_shot(const FewShotTable& table, const learn::Knowledge& knowledge,
                              const learn::SamplerOptions& sampling) {
  Measurements measured;
  measure_until_budget(table, askable(table, sampling.kind), knowledge, sampling, measured);
  return measured;
}

std::vector<FewShotOutcome> replay_few_shot(std::span<const FewShotTable> tables, const learn::Knowledge& knowledge,
                                            const FewShotReplay& replay) {
  const FewShotTable& table = tables[replay.table];
  TANGRAM_CHECK(
      std::ranges::none_of(knowledge.seen, [&](const auto& seen) { return seen.target.model == table.target.model; }),
      "a model must not be learnt from itself");
  // Only the orders of active and random do not depend on the budget, so a larger budget continues the smaller one.
  // Latin and grid designs start again.
  const bool nested = replay.sampler == learn::SamplerKind::active || replay.sampler == learn::SamplerKind::random;
  const Measurements ordered = askable(table, replay.sampler);
  std::vector<FewShotOutcome> outcomes;
  Measurements measured;
  for (const std::size_t budget : replay.budgets) {
    if (!nested) measured.clear();
    measure_until_budget(table, ordered, knowledge, {.kind = replay.sampler, .budget = budget, .seed = replay.seed},
                         measured);
    const auto run = learn_one(measured, knowledge);
    outcomes.push_back(run ? judge(table, *run) : judge_nothing(table));
    outcomes.back().budget = budget;
    outcomes.back().measurements = measured.size();
  }
  return outcomes;
}

FewShotOutcome whole_few_shot(std::span<const FewShotTable> tables, const learn::Knowledge& knowledge,
                              std::size_t table) {
  const auto& measurements = tables[table].measurements;
  FewShotOutcome outcome{.budget = measurements.size(), .measurements = measurements.size(), .whole = true};
  const auto run = learn_one(measurements, knowledge);
  TANGRAM_CHECK(run.ok(), "something in the table fitted");
  const auto& observations = run->kriged.observations();
  for (std::size_t i = 0; const auto& forecast : learn::unseen_forecasts(*run)) {
    const double error = forecast.log_ms - observations[i++].log_ms;
    outcome.errors.push_back(std::abs(math::exp(error) - 1));
    outcome.covered += std::abs(error) <= run->interval_deviations * forecast.deviation ? 1 : 0;
  }
  return outcome;
}

namespace {

// All seeds of one model, budget and sampler.
struct Pool {
  FewShotResult result;
  std::vector<double> errors;
  std::size_t covered = 0;
};
using PoolKey = std::tuple<std::size_t, LeftOut, learn::SamplerKind, std::size_t>;  // The last one is the budget.

void add(Pool& pool, const FewShotTable& table, const FewShotReplay& replay, const FewShotOutcome& outcome) {
  pool.result.dataset = table.dataset;
  pool.result.model = table.target.model;
  pool.result.device = table.target.device;
  pool.result.left_out = replay.left_out;
  pool.result.budget = outcome.budget;
  pool.result.measurements = outcome.measurements;
  pool.result.sampler = replay.sampler;
  ++pool.result.seeds;
  pool.result.throughput_regret += outcome.regret;
  pool.result.whole = outcome.whole;
  pool.errors.insert(pool.errors.end(), outcome.errors.begin(), outcome.errors.end());
  pool.covered += outcome.covered;
}

}  // namespace

std::vector<FewShotResult> few_shot_results(std::span<const FewShotTable> tables, std::span<const FewShotRun> runs) {
  std::map<PoolKey, Pool> pools;
  for (const auto& run : runs) {
    for (const auto& outcome : run.outcomes) {
      add(pools[{run.replay.table, run.replay.left_out, run.replay.sampler, outcome.budget}], tables[run.replay.table],
          run.replay, outcome);
    }
  }
  std::vector<FewShotResult> results;
  for (const auto& [key, pool] : pools) {
    FewShotResult result = pool.result;
    result.held_out = pool.errors.size();
    result.coverage95 = 1;
    if (!pool.errors.empty()) {
      result.coverage95 = static_cast<double>(pool.covered) / static_cast<double>(pool.errors.size());
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
