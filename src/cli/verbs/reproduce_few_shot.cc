#include "cli/verbs/reproduce_few_shot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <limits>
#include <map>

#include "cli/inputs.h"
#include "cli/parallel.h"
#include "report/table.h"
#include "formats/import.h"
#include "formats/measurements_file.h"
#include "lab/few_shot.h"
#include "learn/statistics.h"

namespace tangram::cli {
namespace {

constexpr std::array<const char*, 2> kDatasets{"parvagpu", "migprofiler"};
constexpr std::array kSamplers{learn::SamplerKind::active, learn::SamplerKind::random, learn::SamplerKind::latin,
                               learn::SamplerKind::grid};
constexpr std::array<std::size_t, 5> kBudgets{5, 10, 15, 25, 50};
constexpr std::size_t kWhole = std::numeric_limits<std::size_t>::max();  // The budget of a whole table, in summaries.
constexpr int kSeedsUsual = 3;
constexpr int kSeedsFull = 20;

Result<Measurements> read_dataset(const std::string& dataset, const std::string& path) {
  const auto source = read_source(path);
  if (!source) return source.error();
  const auto imported = formats::import_text(dataset, {*source});
  if (!imported) return imported.error();
  return formats::parse_measurements({path, *imported});
}

// Models of which nothing fitted into memory have no latency to learn or to judge by. They are named; true if there are
// any.
bool note_blind_models(Session& session, const std::string& path, const Measurements& measurements) {
  bool any = false;
  for (const auto& target : learn::targets_of(measurements)) {
    const auto runs = learn::select(measurements, target);
    if (!std::ranges::all_of(runs, &Measurement::out_of_memory)) continue;
    session.note(fmt::format("{}: {} on {} is left out: all {} runs ran out of memory", path, target.model,
                             target.device, runs.size()));
    any = true;
  }
  return any;
}

Result<std::vector<lab::FewShotTable>> read_tables(Session& session, const std::string& data) {
  std::vector<lab::FewShotTable> tables;
  std::string missing;
  bool blind = false;
  bool empty = false;
  for (const std::string dataset : kDatasets) {
    const std::string path = (std::filesystem::path(data) / dataset / "profiles.csv").string();
    const auto measurements = read_dataset(dataset, path);
    const bool absent = !measurements && measurements.error().code == ErrorCode::not_found;
    const bool bare = !measurements && formats::is_nothing_to_import(measurements.error());
    empty = empty || bare;
    if (absent || bare) {
      missing += measurements.error().message + "\n";
      continue;
    }
    if (!measurements) return measurements.error();
    blind = note_blind_models(session, path, *measurements) || blind;
    for (auto& table : lab::few_shot_tables(dataset, *measurements)) tables.push_back(std::move(table));
  }
  if (tables.empty() && blind) {
    return Error{ErrorCode::invalid, data + ": no run fitted into memory; there is no latency to learn from"};
  }
  if (tables.empty()) {
    return Error{empty ? ErrorCode::invalid : ErrorCode::not_found,
                 missing +
                     "--data names the folder that holds parvagpu/profiles.csv and "
                     "migprofiler/profiles.csv"};
  }
  if (!missing.empty()) session.note(missing + "the other data set is used alone");
  return tables;
}

// The published budgets that leave something to judge by, and the grid of ParvaGPU for its own sampler.
std::vector<std::size_t> budgets_of(const lab::FewShotTable& table, learn::SamplerKind sampler) {
  const std::size_t all = table.measurements.size();
  std::vector<std::size_t> budgets;
  for (const std::size_t budget : kBudgets) {
    if (budget < all) budgets.push_back(budget);
  }
  if (sampler == learn::SamplerKind::grid) {
    std::vector<learn::Candidate> candidates;
    for (const auto& m : table.measurements) candidates.push_back(learn::candidate_of(m));
    const std::size_t grid = learn::parvagpu_grid(candidates).size();
    if (grid < all && (budgets.empty() || grid > budgets.back())) budgets.push_back(grid);
  }
  return budgets;
}

std::vector<lab::FewShotRun> runs_of(const std::vector<lab::FewShotTable>& tables, int seeds) {
  std::vector<lab::FewShotRun> runs;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    for (const auto sampler : kSamplers) {
      // The grid does not depend on chance.
      const int repeats = sampler == learn::SamplerKind::grid ? 1 : seeds;
      for (int seed = 1; seed <= repeats; ++seed) {
        runs.push_back({{.table = t,
                         .sampler = sampler,
                         .seed = static_cast<std::uint64_t>(seed),
                         .budgets = budgets_of(tables[t], sampler)},
                        {}});
      }
    }
  }
  return runs;
}

learn::Knowledge know_all(const std::vector<lab::FewShotTable>& tables) {
  std::vector<learn::Knowledge> parts(tables.size());
  run_all(tables.size(), [&](std::size_t i) { parts[i] = learn::know(tables[i].measurements); });
  learn::Knowledge knowledge;
  for (auto& part : parts) {
    std::ranges::move(part.seen, std::back_inserter(knowledge.seen));
    std::ranges::move(part.errors, std::back_inserter(knowledge.errors));
  }
  return knowledge;
}

// With everything measured all samplers are the same, so it is done once.
void add_whole_tables(const std::vector<lab::FewShotTable>& tables, const learn::Knowledge& knowledge,
                      std::vector<lab::FewShotRun>& runs) {
  std::vector<lab::FewShotOutcome> whole(tables.size());
  run_all(tables.size(), [&](std::size_t i) { whole[i] = lab::whole_few_shot(tables, knowledge, i); });
  for (auto& run : runs) {
    if (run.replay.seed == 1) run.outcomes.push_back(whole[run.replay.table]);
  }
}

void replay_all(Session& session, const std::vector<lab::FewShotTable>& tables, std::vector<lab::FewShotRun>& runs) {
  const auto knowledge = know_all(tables);
  std::atomic<std::uint64_t> done = 0;
  Progress progress = session.progress("replaying", runs.size());
  run_all(
      runs.size(),
      [&](std::size_t i) {
        runs[i].outcomes = lab::replay_few_shot(tables, knowledge, runs[i].replay);
        ++done;
      },
      [&] { progress.set(done); });
  add_whole_tables(tables, knowledge, runs);
}

report::Json result_json(const lab::FewShotResult& result) {
  return {{"dataset", result.dataset},
          {"model", result.model},
          {"device", result.device},
          {"budget", result.budget},
          {"sampler", learn::to_string(result.sampler)},
          {"measurements", result.measurements},
          {"median_error", result.median_error},
          {"p90_error", result.p90_error},
          {"coverage95", result.coverage95},
          {"throughput_regret", result.throughput_regret},
          {"seeds", result.seeds},
          {"held_out", result.held_out}};
}

// Over models: the middle one, and the worst.
struct Summary {
  std::vector<double> median_errors;
  std::vector<double> p90_errors;
  std::vector<double> regrets;
  double covered = 0;
  double held_out = 0;
};

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string middle_and_worst(const std::vector<double>& values) {
  return fmt::format("{} ({})", percent(learn::quantile(values, 0.5)), percent(learn::quantile(values, 1)));
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

std::string summary_table(const std::vector<lab::FewShotResult>& results, const Terminal& terminal) {
  std::map<std::pair<std::size_t, learn::SamplerKind>, Summary> summaries;
  for (const auto& result : results) {
    // With everything measured all samplers are one; of the sizes of grids only the larger data set's is common.
    if (result.whole && result.sampler != learn::SamplerKind::active) continue;
    const bool common = std::ranges::find(kBudgets, result.budget) != kBudgets.end();
    if (!common && !result.whole && result.dataset != kDatasets[0]) continue;
    Summary& summary = summaries[{result.whole ? kWhole : result.budget, result.sampler}];
    summary.median_errors.push_back(result.median_error);
    summary.p90_errors.push_back(result.p90_error);
    summary.regrets.push_back(result.throughput_regret);
    summary.covered += result.coverage95 * static_cast<double>(result.held_out);
    summary.held_out += static_cast<double>(result.held_out);
  }
  report::Table table({{"BUDGET", report::Align::right},
               {"SAMPLER"},
               {"MODELS", report::Align::right},
               {"MEDIAN ERROR (WORST)", report::Align::right},
               {"P90 ERROR (WORST)", report::Align::right},
               {"REGRET, MEAN (WORST)", report::Align::right},
               {"COVERAGE", report::Align::right}});
  for (const auto& [key, summary] : summaries) {
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
  return table.render(terminal);
}

std::string model_table(const std::vector<lab::FewShotResult>& results, const Terminal& terminal) {
  report::Table table({{"DATA SET"},
               {"MODEL"},
               {"BUDGET", report::Align::right},
               {"MEDIAN ERROR", report::Align::right},
               {"P90 ERROR", report::Align::right},
               {"REGRET", report::Align::right},
               {"COVERAGE", report::Align::right}});
  for (const auto& result : results) {
    if (result.sampler != learn::SamplerKind::active || (result.budget != 5 && result.budget != 15)) continue;
    table.add({result.dataset,
               {result.model, Style::accent},
               fmt::format("{}", result.budget),
               percent(result.median_error),
               percent(result.p90_error),
               percent(result.throughput_regret),
               percent(result.coverage95)});
  }
  return table.render(terminal);
}

}  // namespace

ExitCode reproduce_few_shot(Session& session, const FewShotOptions& options) {
  const auto tables = read_tables(session, options.data);
  if (!tables) return session.fail(tables.error());
  const int seeds = options.seeds > 0 ? options.seeds : options.full ? kSeedsFull : kSeedsUsual;
  auto runs = runs_of(*tables, seeds);
  replay_all(session, *tables, runs);
  const auto results = lab::few_shot_results(*tables, runs);
  if (session.structured()) {
    report::Json list = report::Json::array();
    for (const auto& result : results) list.push_back(result_json(result));
    session.print_value(list);
    return ExitCode::done;
  }
  session.print(
      "Each model is learnt from BUDGET measurements of its own and from all other models; runs that were not measured "
      "judge it.\n\n");
  session.print(summary_table(results, session.terminal));
  session.print("\nThe active sampler, model by model.\n\n");
  session.print(model_table(results, session.terminal));
  return ExitCode::done;
}

}  // namespace tangram::cli
