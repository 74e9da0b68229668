// How well a dozen measurements predict the rest: samplers and models replayed on tables that others have measured in
// full.
//
// Each model of each data set is learnt from a few of its own measurements and from other models, never from the rest
// of its own table; the runs that were not measured judge it. Everything runs as it does for users: `tangram measure`
// chooses what to measure by what it has measured so far, `tangram learn` fits and sets the width of the intervals, and
// `tangram predict` states them. Three things are judged: the error of latency, the coverage of the stated intervals,
// and the regret, that is, what a plan loses by choosing with this model instead of the truth.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
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
  Measurements measurements;  // Out-of-memory runs included, in the order of the file.
};

// The tables of a data set, ascending by target. Those in which nothing fitted are left out.
std::vector<FewShotTable> few_shot_tables(const std::string& dataset, const Measurements& measurements);

// What is unknown when a model is learnt.
enum class LeftOut {
  model,   // Only the model itself, on every device and in every data set.
  family,  // Also its relatives, for example resnet101 and resnet152 for resnet50.
};

// Relatives have the same name up to the first character that is not a letter: "resnet" of resnet50. The sentence
// encoders of MIGProfiler descend from BERT and count as "bert".
std::string family_of(std::string_view model);

// The models that are unknown when `table` is replayed.
std::set<std::string> left_out_models(std::span<const FewShotTable> tables, std::size_t table, LeftOut left_out);

// What `tangram learn --known` knows from all tables but those of `left_out`. `all` is learn::know() of all tables;
// each target is fitted alone there, so those that are left out can simply be removed.
learn::Knowledge know_others(std::span<const FewShotTable> tables, const learn::Knowledge& all,
                             const std::set<std::string>& left_out);

// One replay of one sampler.
struct FewShotReplay {
  std::size_t table = 0;  // Index of the table.
  LeftOut left_out = LeftOut::model;
  learn::SamplerKind sampler = learn::SamplerKind::active;
  std::uint64_t seed = 1;            // Of the sampler.
  std::vector<std::size_t> budgets;  // Ascending; each less than the size of the table.
};

// What a replay showed at one budget.
struct FewShotOutcome {
  std::size_t budget = 0;
  std::size_t measurements = 0;  // Fewer than the budget where all others are larger than runs that were out of memory.
  std::vector<double> errors{};  // |predicted / real - 1| of every run that fitted and was not measured.
  std::size_t covered = 0;       // How many of those runs lie in the interval that was stated for them.
  double regret = 0;
  bool whole = false;  // Everything was measured.
};

// The measurements that `tangram measure` takes of the table, in its order: the first `budget` of them.
Measurements measure_few_shot(const FewShotTable& table, const learn::Knowledge& knowledge,
                              const learn::SamplerOptions& sampling);

// `knowledge` is that of know_others(): it must not hold the replayed model.
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
  LeftOut left_out = LeftOut::model;
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

// Puts the replays of all seeds together.
std::vector<FewShotResult> few_shot_results(std::span<const FewShotTable> tables, std::span<const FewShotRun> runs);

}  // namespace tangram::experiments
