// The tables of ElasticBatch: GPUs for text models by each way of planning, and the highest rates on as many GPUs.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "experiments/detail/counts.h"
#include "experiments/elastic_batch.h"
#include "experiments/highest_rate.h"
#include "experiments/reproduce.h"
#include "formats/import.h"
#include "formats/trace_file.h"
#include "learn/fit.h"
#include "report/number_text.h"
#include "report/run_tables.h"

namespace tangram::experiments {
namespace {

using detail::count_json;
using detail::count_text;
using report::Align;
using report::Style;

// Word counts become lengths in tokens by this factor; sub-word tokens are 1.2 to 1.4 times as many.
constexpr double kTokensPerWord = 1.3;
// The rate of the settings that are looked at when it has to be quick.
constexpr double kQuickRate = 300;

// Lengths in tokens from lengths in words. Bins that fall on the same length are joined.
HistogramSize token_lengths(const std::vector<HistogramSize::Bin>& words, std::int64_t size_max) {
  std::map<std::int64_t, double> tokens;
  for (const auto& bin : words) {
    // Rounded up: a fraction of a token needs a whole one. Longer inputs are truncated to the longest that was
    // measured.
    const auto length = static_cast<std::int64_t>(static_cast<double>(bin.size) * kTokensPerWord + 0.999);
    tokens[std::min(size_max, length)] += bin.weight;
  }
  HistogramSize histogram;
  for (const auto& [size, weight] : tokens) histogram.bins.push_back({size, weight});
  return histogram;
}

// The reference's lengths, and those of each corpus of the file.
Result<std::vector<LengthDistribution>> lengths_of(const File& file, std::int64_t size_max, Runner& runner) {
  std::vector<LengthDistribution> all{reference_lengths()};
  // The corpora are optional; the reference's lengths are a formula.
  if (!file) {
    runner.note(file.error().message + "\nonly the log-normal lengths are used");
    return all;
  }
  TANGRAM_TRY(const auto corpora, distinct_values(*file, "corpus"));
  for (const auto& corpus : corpora) {
    TANGRAM_TRY(const auto imported, formats::import_text("text-lengths:" + corpus, {*file}));
    TANGRAM_TRY(const auto words, formats::parse_histogram({file->name, imported}));
    all.push_back({corpus, token_lengths(words, size_max)});
  }
  return all;
}

// One setting under every variant.
struct SettingCell {
  ElasticBatchSetting setting;
  std::vector<ElasticBatchResult> results{};

  // The last of the variants, elastic_shared: what `tangram plan` answers by default.
  const ElasticBatchResult& planned() const { return results.back(); }
};

std::vector<SettingCell> setting_cells(const std::vector<LengthDistribution>& lengths, bool quick) {
  std::vector<SettingCell> cells;
  for (const auto& distribution : lengths) {
    for (auto& setting : elastic_batch_settings(distribution)) {
      if (!quick || setting.rate_per_s == kQuickRate) cells.push_back({std::move(setting)});
    }
  }
  return cells;
}

// The highest rates under one Slo on as many devices as `elastic_shared` took. Settings of other rates on as many
// devices have the same answer.
struct RateCell {
  double slo_ms = 0;
  int gpus = 0;
  std::vector<ElasticBatchSetting> settings{};
  std::vector<ElasticBatchResult> results{};
};

std::vector<RateCell> rate_cells(const std::vector<SettingCell>& settings) {
  std::map<std::pair<double, int>, RateCell> cells;
  for (const auto& cell : settings) {
    const auto& planned = cell.planned();
    // Rates are sought for the reference's lengths only.
    if (planned.gpus == 0 || cell.setting.lengths.name != reference_lengths().name) continue;
    RateCell& rates = cells[{cell.setting.slo_ms, planned.gpus}];
    rates.slo_ms = cell.setting.slo_ms;
    rates.gpus = planned.gpus;
    rates.settings.push_back(cell.setting);
  }
  std::vector<RateCell> list;
  for (auto& [key, rates] : cells) list.push_back(std::move(rates));
  return list;
}

// The highest rates that belong to the setting of `cell`; empty where none was sought.
std::vector<ElasticBatchResult> rates_for(const std::vector<RateCell>& rates, const SettingCell& cell) {
  if (cell.setting.lengths.name != reference_lengths().name) return {};
  for (const auto& found : rates) {
    if (found.slo_ms != cell.setting.slo_ms || found.gpus != cell.planned().gpus) continue;
    auto results = found.results;
    for (auto& result : results) result.setting = cell.setting;
    return results;
  }
  return {};
}

// A setting whose plan is not proved best, and what a search by simulation carries on one device less.
struct FewerCell {
  const SettingCell* setting = nullptr;
  ElasticBatchResult result{};
};

std::vector<FewerCell> fewer_cells(const std::vector<SettingCell>& settings) {
  std::vector<FewerCell> cells;
  for (const auto& cell : settings) {
    if (cell.planned().gpus > 1 && cell.planned().gpus > cell.planned().bound) cells.push_back({&cell});
  }
  return cells;
}

report::Json batch_json(const ElasticBatchResult& result, const std::string& device) {
  return {{"slo_ms", result.setting.slo_ms},
          {"rate_per_s", result.setting.rate_per_s},
          {"lengths", result.setting.lengths.name},
          {"variant", result.variant},
          {"gpus", count_json(result.gpus)},
          {"slo_attainment", result.slo_attainment},
          {"utilisation_busy", result.utilisation_busy},
          {"utilisation_useful", result.utilisation_useful},
          {"rate_highest_per_s",
           result.rate_highest_per_s > 0 ? report::Json(result.rate_highest_per_s) : report::Json(nullptr)},
          {"bound", count_json(result.bound)},
          {"proved", result.proved},
          {"layouts", result.layouts},
          {"device", device}};
}

// GPUs of `elastic_shared` against the fewest of the two ways without slices that share nothing: "-25 %".
std::string against_off(const SettingCell& cell) {
  int off = 0;
  for (const auto& result : cell.results) {
    const bool counts = result.variant == "off_longest" || result.variant == "off_fixed";
    if (counts && result.gpus > 0) off = off == 0 ? result.gpus : std::min(off, result.gpus);
  }
  const int gpus = cell.planned().gpus;
  return off > 0 && gpus > 0 ? fmt::format("{:+.0f} %", 100.0 * (gpus - off) / off) : "-";
}

// One row a setting, one column a variant.
report::Table gpus_table(const std::vector<SettingCell>& cells) {
  std::vector<report::Column> columns{{"LENGTHS"}, {"SLO MS", Align::right}, {"RATE", Align::right}};
  for (const auto& variant : elastic_batch_variants()) columns.push_back({variant.name, Align::right});
  columns.push_back({"USEFUL", Align::right});
  columns.push_back({"VS OFF", Align::right});
  report::Table table(columns);
  for (const auto& cell : cells) {
    std::vector<report::Cell> row{{cell.setting.lengths.name, Style::accent},
                                  text::shortest(cell.setting.slo_ms),
                                  text::shortest(cell.setting.rate_per_s)};
    for (const auto& result : cell.results) row.push_back(count_text(result.gpus));
    row.push_back(report::percent_text(cell.planned().utilisation_useful));
    row.push_back(against_off(cell));
    table.add(std::move(row));
  }
  return table;
}

// By how much `own` carries more than the variant called `variant`.
std::string gain_text(const std::vector<ElasticBatchResult>& results, const std::string& own,
                      const std::string& variant) {
  const auto rate_of = [&](const std::string& name) {
    const auto found = std::ranges::find(results, name, &ElasticBatchResult::variant);
    return found == results.end() ? 0 : found->rate_highest_per_s;
  };
  // An infeasible variant has no ratio.
  if (rate_of(variant) <= 0) return "-";
  return fmt::format("{:+.1f} %", 100 * (rate_of(own) / rate_of(variant) - 1));
}

// One row for each Slo and number of devices.
report::Table rates_table(const std::vector<RateCell>& cells) {
  std::vector<report::Column> columns{{"LENGTHS"}, {"SLO MS", Align::right}, {"GPUS", Align::right}};
  for (const auto& variant : highest_rate_variants()) {
    columns.push_back({variant.name, Align::right});
    columns.push_back({"USEFUL", Align::right});
  }
  columns.push_back({"VS FIXED", Align::right});
  columns.push_back({"VS CHOSEN", Align::right});
  columns.push_back({"AT MOST", Align::right});
  report::Table table(columns);
  for (const auto& cell : cells) {
    std::vector<report::Cell> row{
        {cell.settings.back().lengths.name, Style::accent}, text::shortest(cell.slo_ms), std::to_string(cell.gpus)};
    for (const auto& result : cell.results) {
      row.push_back(fmt::format("{:.0f}/s", result.rate_highest_per_s));
      // The bound is no run: nothing was measured of it.
      row.push_back(result.variant == "rate_bound" ? "-" : report::percent_text(result.utilisation_useful));
    }
    row.push_back(gain_text(cell.results, "rate_elastic", "rate_fifo_fixed"));
    row.push_back(gain_text(cell.results, "rate_elastic", "rate_fifo_chosen"));
    row.push_back(gain_text(cell.results, "rate_bound", "rate_fifo_chosen"));
    table.add(std::move(row));
  }
  return table;
}

// One row for each plan that might be one device too large.
report::Table fewer_table(const std::vector<FewerCell>& cells) {
  report::Table table({{"LENGTHS"},
                       {"SLO MS", Align::right},
                       {"RATE", Align::right},
                       {"PLAN", Align::right},
                       {"BOUND", Align::right},
                       {"SEARCH ON", Align::right},
                       {"CARRIES", Align::right},
                       {"ENOUGH", Align::right}});
  for (const auto& cell : cells) {
    const auto& setting = cell.setting->setting;
    const bool enough = cell.result.rate_highest_per_s >= setting.rate_per_s;
    table.add({{setting.lengths.name, Style::accent},
               text::shortest(setting.slo_ms),
               text::shortest(setting.rate_per_s),
               std::to_string(cell.setting->planned().gpus),
               std::to_string(cell.setting->planned().bound),
               std::to_string(cell.setting->planned().gpus - 1),
               fmt::format("{:.0f}/s", cell.result.rate_highest_per_s),
               {enough ? "YES" : "no", enough ? Style::bad : Style::good}});
  }
  return table;
}

// Why variants were impossible, each reason once.
void note_reasons(Runner& runner, const std::vector<SettingCell>& cells) {
  std::set<std::string> told;
  for (const auto& cell : cells) {
    for (const auto& result : cell.results) {
      if (result.gpus > 0 || result.reason.empty()) continue;
      if (told.insert(result.reason).second) runner.note(result.variant + ": " + result.reason);
    }
  }
}

std::string variants_text(const std::vector<ElasticBatchVariant>& variants) {
  std::string text;
  for (const auto& variant : variants) text += fmt::format("  {:<19} {}\n", variant.name, variant.summary);
  return text;
}

void add_to(Answer& answer, const ElasticBatchModels& group, const std::vector<SettingCell>& settings,
            const std::vector<RateCell>& rates, const std::vector<FewerCell>& fewer) {
  for (const auto& cell : settings) {
    for (const auto& result : cell.results) answer.json.push_back(batch_json(result, group.device));
    for (const auto& result : rates_for(rates, cell)) answer.json.push_back(batch_json(result, group.device));
  }
  answer.sections.push_back(
      {fmt::format("{} models on {}: the number of GPUs with which every simulated p99 is within its Slo.\n",
                   group.models.size(), group.device) +
           variants_text(elastic_batch_variants()) +
           "VS OFF: elastic_shared compared with the better of off_longest and off_fixed.\n\n",
       gpus_table(settings)});
  answer.sections.push_back(
      {"\nThe highest rate of each model on that many GPUs, with all models on every slice.\n" +
           variants_text(highest_rate_variants()) +
           "VS FIXED, VS CHOSEN: the useful work of rate_elastic compared with that of either rate_fifo.\n"
           "AT MOST: the useful work of rate_bound compared with that of rate_fifo_chosen.\n\n",
       rates_table(rates)});
  for (const auto& cell : fewer) {
    ElasticBatchResult result = cell.result;
    result.variant = "rate_one_fewer";
    result.gpus = cell.setting->planned().gpus - 1;
    answer.json.push_back(batch_json(result, group.device));
  }
  if (fewer.empty()) return;
  answer.sections.push_back(
      {"\nPlans of elastic_shared above their bound, and the highest rate that the search of rate_elastic finds on one\n"
       "GPU less. ENOUGH: it carries the rate of the setting, so the plan takes a GPU too many.\n\n",
       fewer_table(fewer)});
}

// The models of one device.
Result<Nothing> run_group(const ElasticBatchModels& group, const ElasticBatchFiles& files, Runner& runner,
                          Answer& answer) {
  TANGRAM_TRY(const auto fitted, learn::fit(group.measurements, {}, {}));
  TANGRAM_TRY(const auto lengths, lengths_of(files.lengths, group.size_max, runner));
  const ElasticBatchInput input{group.device, group.models, group.mig_profiles, group.size_max, &fitted};
  auto settings = setting_cells(lengths, files.quick);
  run_cells(runner, "planning", settings,
            [&](SettingCell& cell) { cell.results = run_elastic_batch(input, cell.setting); });
  note_reasons(runner, settings);
  auto rates = rate_cells(settings);
  // The last setting of a cell has the highest rate, where the search begins.
  run_cells(runner, "finding the highest rates", rates,
            [&](RateCell& cell) { cell.results = run_highest_rates(input, cell.settings.back(), cell.gpus); });
  auto fewer = fewer_cells(settings);
  run_cells(runner, "searching on one GPU less", fewer, [&](FewerCell& cell) {
    cell.result = run_rate_elastic(input, cell.setting->setting, cell.setting->planned().gpus - 1);
  });
  add_to(answer, group, settings, rates, fewer);
  return Nothing{};
}

}  // namespace

Result<Answer> reproduce_elastic_batch(const ElasticBatchFiles& input, Runner& runner) {
  TANGRAM_TRY(const auto measurements, measurements_of("migprofiler", input.profiles));
  const auto groups = elastic_batch_models(measurements);
  if (groups.empty()) {
    return Error{ErrorCode::invalid, input.profiles->name + ": no model was measured at several input lengths"};
  }
  Answer answer;
  for (const auto& group : groups) {
    TANGRAM_RETURN_IF_ERROR(run_group(group, input, runner, answer));
  }
  return answer;
}

}  // namespace tangram::experiments
