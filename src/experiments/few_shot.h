// How well a dozen measurements predict the rest: samplers and models replayed on tables that others have measured in
// full.
//
// Each model of each data set is learnt from a few of its own measurements and from all other models, never from the
// rest of its own table; the runs that were not measured judge it. Three things are judged: the error of latency, the
// coverage of the stated intervals, and the regret, that is, what a plan loses by choosing with this model instead of
// the truth.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/measurement.h"
#include "learn/knowledge.h"
#include "learn/regret.h"
#include "learn/sampler.h"

namespace tangram::experiments {

// One model on one device of one data set, measured in full.
struct FewShotTable {
  std::string dataset;
  learn::Target target;
  Measurements measurements;  // Out-of-memory runs included.
};

// The tables of a data set, ascending by target. Those in which nothing fitted are left out.
std::vector<FewShotTable> few_shot_tables(const std::string& dataset, const Measurements& measurements);

// One replay of one sampler.
struct FewShotReplay {
  std::size_t table = 0;  // Index of the table.
  learn::SamplerKind sampler = learn::SamplerKind::active;
  std::uint64_t seed = 1;
  std::vector<std::size_t> budgets;  // Ascending; each less than the size of the table.
};

// What a replay showed at one budget.
struct FewShotOutcome {
  std::size_t budget = 0;
  std::size_t measurements = 0;
  std::vector<double> errors{};      // |predicted / real - 1| of every run that fitted and was not measured.
  std::vector<double> deviations{};  // The same errors in predicted deviations of log latency.
  double regret = 0;
  // Errors of leaving out each own measurement, in deviations; empty where there is only one.
  std::vector<double> own_deviations{};
  bool whole = false;  // Everything was measured.
};

// `knowledge` holds all tables; the replayed model is taken out.
std::vector<FewShotOutcome> replay_few_shot(std::span<const FewShotTable> tables, const learn::Knowledge& knowledge,
                                            const FewShotReplay& replay);

// Everything measured: the errors are those of predicting each run from all others of its table, the limit of what more
// measurements can bring, and there is nothing to regret.
FewShotOutcome whole_few_shot(std::span<const FewShotTable> tables, const learn::Knowledge& knowledge,
                              std::size_t table);

// The figures of one model, budget and sampler, over all seeds.
struct FewShotResult {
  std::string dataset;
  std::string model;
  std::string device;
  std::size_t budget = 0;
  std::size_t measurements = 0;
  learn::SamplerKind sampler = learn::SamplerKind::active;
  std::size_t seeds = 0;
  double median_error = 0;
  double p90_error = 0;
  double coverage95 = 0;
  double throughput_regret = 0;
  std::size_t held_out = 0;  // Points that judged it, over all seeds.
  bool whole = false;        // Everything was measured; each run was judged by all others.
};

struct FewShotRun {
  FewShotReplay replay;
  std::vector<FewShotOutcome> outcomes;  // One for each budget.
};

// Puts the replays together. Where a model has under learn::kOwnCalibrationMin measurements its intervals come from the
// errors of all other models at the same budget under the same sampler.
std::vector<FewShotResult> few_shot_results(std::span<const FewShotTable> tables, std::span<const FewShotRun> runs);

}  // namespace tangram::experiments
