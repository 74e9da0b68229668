// The tables of few-shot learning: errors, regret and coverage of models learnt from a few measurements.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <map>
#include <set>

#include "experiments/few_shot.h"
#include "experiments/reproduce.h"
#include "formats/import.h"
#include "learn/statistics.h"

namespace tangram::experiments {
namespace {

using report::Align;
using report::Style;

// The larger data set: the sizes of its grids are the only ones that several models share.
constexpr const char* kLargeDataset = "parvagpu";
constexpr std::array kSamplers{learn::SamplerKind::active, learn::SamplerKind::random, learn::SamplerKind::latin,
                               learn::SamplerKind::grid};
constexpr std::array<std::size_t, 5> kBudgets{5, 10, 15, 25, 50};
constexpr std::size_t kWhole = std::numeric_limits<std::size_t>::max();  // The budget of a whole table, in summaries.
constexpr int kSeedsUsual = 3;
constexpr int kSeedsFull = 20;

// Models of which nothing fitted into memory have no latency to learn or to judge by. They are named; true if there are
// any.
bool note_blind_models(Runner& runner, const std::string& path, const Measurements& measurements) {
  bool any = false;
  for (const auto& target : learn::targets_of(measurements)) {
    const auto runs = learn::select(measurements, target);
    if (!std::ranges::all_of(runs, &Measurement::out_of_memory)) continue;
    runner.note(fmt::format("{}: {} on {} is left out: all {} runs ran out of memory", path, target.model,
                            target.device, runs.size()));
    any = true;
  }
  return any;
}

// What one data set brings.
struct Loaded {
  std::vector<FewShotTable> tables;
  std::string missing;  // Why data sets are left out, a line each.
  bool empty = false;   // One of those has a file without rows.
  bool blind = false;   // A model was left out because none of its runs fitted into memory.
};

// Adds the tables of one data set. A data set that is missing or empty is recorded in `loaded` and is no error yet.
Result<Nothing> load(const FewShotInput::Dataset& dataset, Runner& runner, Loaded& loaded) {
  const auto measurements = measurements_of(dataset.format, dataset.profiles);
  if (!measurements) {
    // One of the data sets may be missing or empty. Any other error is reported at once.
    const bool absent = measurements.error().code == ErrorCode::not_found;
    const bool bare = formats::is_nothing_to_import(measurements.error());
    if (!absent && !bare) return measurements.error();
    loaded.empty = loaded.empty || bare;
    loaded.missing += measurements.error().message + "\n";
    return Nothing{};
  }
  loaded.blind = note_blind_models(runner, dataset.path, *measurements) || loaded.blind;
  for (auto& table : few_shot_tables(dataset.format, *measurements)) loaded.tables.push_back(std::move(table));
  return Nothing{};
}

Result<std::vector<FewShotTable>> load_tables(const FewShotInput& input, Runner& runner) {
  Loaded loaded;
  for (const auto& dataset : input.datasets) {
    TANGRAM_RETURN_IF_ERROR(load(dataset, runner, loaded));
  }
  // Files were there, so a hint how to download them would mislead.
  if (loaded.tables.empty() && loaded.blind) {
    return Error{ErrorCode::invalid, input.folder + ": no run fitted into memory; there is no latency to learn from"};
  }
  if (loaded.tables.empty()) {
    return Error{loaded.empty ? ErrorCode::invalid : ErrorCode::not_found, loaded.missing + input.hint};
  }
  if (!loaded.missing.empty()) runner.note(loaded.missing + "only the other data set is used");
  return std::move(loaded.tables);
}

// The published budgets that leave something to judge by, and the grid of ParvaGPU for its own sampler.
std::vector<std::size_t> budgets_of(const FewShotTable& table, learn::SamplerKind sampler) {
  const std::size_t all = table.measurements.size();
  std::vector<std::size_t> budgets;
  for (const std::size_t budget : kBudgets) {
    // At least one run must be left to judge by.
    if (budget < all) budgets.push_back(budget);
  }
  if (sampler == learn::SamplerKind::grid) {
    std::vector<learn::Candidate> candidates;
    for (const auto& m : table.measurements) candidates.push_back(learn::candidate_of(m));
    // As many measurements as ParvaGPU's own profiler takes.
    const std::size_t grid = learn::parvagpu_grid(candidates).size();
    if (grid < all && (budgets.empty() || grid > budgets.back())) budgets.push_back(grid);
  }
  return budgets;
}

// The active sampler and the grid do not depend on chance, and neither does the fit.
bool draws(learn::SamplerKind sampler) {
  return sampler == learn::SamplerKind::random || sampler == learn::SamplerKind::latin;
}

std::vector<FewShotRun> runs_of(const std::vector<FewShotTable>& tables, int seeds) {
  std::vector<FewShotRun> runs;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    for (const auto left_out : {LeftOut::model, LeftOut::family}) {
      for (const auto sampler : kSamplers) {
        for (int seed = 1; seed <= (draws(sampler) ? seeds : 1); ++seed) {
          runs.push_back({{.table = t,
                           .left_out = left_out,
                           .sampler = sampler,
                           .seed = static_cast<std::uint64_t>(seed),
                           .budgets = budgets_of(tables[t], sampler)},
                          {}});
        }
      }
    }
  }
  return runs;
}

// Each target is learnt alone and in any order; the parts are joined in the order of the targets, so that the result
// does not depend on the number of threads.
learn::Knowledge know_all(Runner& runner, const std::vector<FewShotTable>& tables) {
  Measurements all;
  for (const auto& table : tables) all.insert(all.end(), table.measurements.begin(), table.measurements.end());
  const auto targets = learn::targets_of(all);
  std::vector<learn::Knowledge> parts(targets.size());
  runner.run_all("", targets.size(), [&](std::size_t i) { parts[i] = learn::know(learn::select(all, targets[i])); });
  learn::Knowledge knowledge;
  for (auto& part : parts) std::ranges::move(part.seen, std::back_inserter(knowledge.seen));
  return knowledge;
}

// What is known without some models, by those models: a model that is the only one of its family needs it once.
using KnowledgeWithout = std::map<std::set<std::string>, learn::Knowledge>;

KnowledgeWithout know_without(Runner& runner, const std::vector<FewShotTable>& tables) {
  const auto all = know_all(runner, tables);
  KnowledgeWithout known;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    for (const auto left_out : {LeftOut::model, LeftOut::family}) known[left_out_models(tables, t, left_out)];
  }
  std::vector<KnowledgeWithout::iterator> entries;
  for (auto it = known.begin(); it != known.end(); ++it) entries.push_back(it);
  run_cells(runner, "learning", entries,
            [&](KnowledgeWithout::iterator& it) { it->second = know_others(tables, all, it->first); });
  return known;
}

// With everything measured all samplers are the same, so it is done once.
void add_whole_tables(Runner& runner, const std::vector<FewShotTable>& tables, const KnowledgeWithout& known,
                      std::vector<FewShotRun>& runs) {
  std::vector<FewShotOutcome> whole(tables.size());
  runner.run_all("", tables.size(), [&](std::size_t t) {
    whole[t] = whole_few_shot(tables, known.at(left_out_models(tables, t, LeftOut::model)), t);
  });
  for (auto& run : runs) {
    // Once for each sampler, with its first seed.
    if (run.replay.seed == 1 && run.replay.left_out == LeftOut::model) run.outcomes.push_back(whole[run.replay.table]);
  }
}

void replay_all(Runner& runner, const std::vector<FewShotTable>& tables, std::vector<FewShotRun>& runs) {
  const auto known = know_without(runner, tables);
  run_cells(runner, "replaying", runs, [&](FewShotRun& run) {
    const auto left_out = left_out_models(tables, run.replay.table, run.replay.left_out);
    run.outcomes = replay_few_shot(tables, known.at(left_out), run.replay);
  });
  add_whole_tables(runner, tables, known, runs);
}

// The same model, budget and sampler with the family left out; nullptr for a whole table, which no family changes much.
const FewShotResult* without_family(const std::vector<FewShotResult>& results, const FewShotResult& result) {
  const auto same = [&](const FewShotResult& other) {
    return other.left_out == LeftOut::family && other.dataset == result.dataset && other.model == result.model &&
           other.device == result.device && other.sampler == result.sampler && other.budget == result.budget;
  };
  const auto found = std::ranges::find_if(results, same);
  return found == results.end() ? nullptr : &*found;
}

report::Json figures_json(const FewShotResult& result) {
  return {{"measurements", result.measurements},
          {"median_error", result.median_error},
          {"p90_error", result.p90_error},
          {"coverage95", result.coverage95},
          {"throughput_regret", result.throughput_regret},
          {"seeds", result.seeds},
          {"held_out", result.held_out}};
}

report::Json result_json(const FewShotResult& result, const FewShotResult* family) {
  report::Json json{{"dataset", result.dataset}, {"model", result.model},
                    {"device", result.device},   {"family", family_of(result.model)},
                    {"budget", result.budget},   {"sampler", learn::to_string(result.sampler)}};
  json.update(figures_json(result));
  json["family_left_out"] = family != nullptr ? figures_json(*family) : report::Json(nullptr);
  return json;
}

// Over the models of one budget and sampler.
struct Summary {
  std::vector<double> median_errors;
  std::vector<double> p90_errors;
  std::vector<double> regrets;
  double covered = 0;
  double held_out = 0;
};

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

// The median over the models, and the worst model in brackets.
std::string middle_and_worst(const std::vector<double>& values) {
  return fmt::format("{} ({})", percent(learn::quantile(values, 0.5)), percent(learn::quantile(values, 1)));
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

using Summaries = std::map<std::pair<std::size_t, learn::SamplerKind>, Summary>;  // By budget and sampler.

Summaries summaries_of(const std::vector<FewShotResult>& results, LeftOut left_out) {
  Summaries summaries;
  for (const auto& result : results) {
    if (result.left_out != left_out) continue;
    // With everything measured all samplers are one; of the sizes of grids only the larger data set's is common.
    if (result.whole && result.sampler != learn::SamplerKind::active) continue;
    const bool common = std::ranges::find(kBudgets, result.budget) != kBudgets.end();
    if (!common && !result.whole && result.dataset != kLargeDataset) continue;
    Summary& summary = summaries[{result.whole ? kWhole : result.budget, result.sampler}];
    summary.median_errors.push_back(result.median_error);
    summary.p90_errors.push_back(result.p90_error);
    summary.regrets.push_back(result.throughput_regret);
    // Coverage is weighted by the number of runs that judged it.
    summary.covered += result.coverage95 * static_cast<double>(result.held_out);
    summary.held_out += static_cast<double>(result.held_out);
  }
  return summaries;
}

report::Table summary_table(const std::vector<FewShotResult>& results, LeftOut left_out) {
  report::Table table({{"BUDGET", Align::right},
                       {"SAMPLER"},
                       {"MODELS", Align::right},
                       {"MEDIAN ERROR (WORST)", Align::right},
                       {"P90 ERROR (WORST)", Align::right},
                       {"REGRET, MEAN (WORST)", Align::right},
                       {"COVERAGE", Align::right}});
  for (const auto& [key, summary] : summaries_of(results, left_out)) {
    const bool whole = key.first == kWhole;
    table.add({whole ? "all" : fmt::format("{}", key.first),
               {whole ? "any" : std::string(learn::to_string(key.second)),
                key.second == learn::SamplerKind::active ? Style::accent : Style::plain},
               fmt::format("{}", summary.regrets.size()),
               middle_and_worst(summary.median_errors),
               middle_and_worst(summary.p90_errors),
               fmt::format("{} ({})", percent(mean_of(summary.regrets)), percent(learn::quantile(summary.regrets, 1))),
               percent(summary.covered / summary.held_out)});
  }
  return table;
}

report::Table model_table(const std::vector<FewShotResult>& results, LeftOut left_out) {
  report::Table table({{"DATA SET"},
                       {"MODEL"},
                       {"BUDGET", Align::right},
                       {"MEDIAN ERROR", Align::right},
                       {"P90 ERROR", Align::right},
                       {"REGRET", Align::right},
                       {"COVERAGE", Align::right}});
  for (const auto& result : results) {
    // A small and a usual budget; the JSON has all of them.
    if (result.left_out != left_out || result.sampler != learn::SamplerKind::active) continue;
    if (result.budget != 5 && result.budget != 15) continue;
    table.add({result.dataset,
               {result.model, Style::accent},
               fmt::format("{}", result.budget),
               percent(result.median_error),
               percent(result.p90_error),
               percent(result.throughput_regret),
               percent(result.coverage95)});
  }
  return table;
}

}  // namespace

Result<Answer> reproduce_few_shot(const FewShotInput& input, Runner& runner) {
  TANGRAM_TRY(const auto tables, load_tables(input, runner));
  const int seeds = input.seeds > 0 ? input.seeds : input.full ? kSeedsFull : kSeedsUsual;
  auto runs = runs_of(tables, seeds);
  replay_all(runner, tables, runs);
  const auto results = few_shot_results(tables, runs);
  Answer answer;
  for (const auto& result : results) {
    if (result.left_out != LeftOut::model) continue;
    answer.json.push_back(result_json(result, without_family(results, result)));
  }
  answer.sections.push_back(
      {"Each model is learnt from BUDGET measurements of its own and from all other models, as measure, learn and "
       "predict do it; runs that were not measured judge it.\n\n",
       summary_table(results, LeftOut::model)});
  answer.sections.push_back({"\nThe same with the whole family of the model unknown, for example all resnets.\n\n",
                             summary_table(results, LeftOut::family)});
  answer.sections.push_back({"\nThe active sampler, model by model.\n\n", model_table(results, LeftOut::model)});
  answer.sections.push_back(
      {"\nThe active sampler with the whole family unknown.\n\n", model_table(results, LeftOut::family)});
  return answer;
}

}  // namespace tangram::experiments
