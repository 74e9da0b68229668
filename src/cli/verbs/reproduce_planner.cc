// What planners make of published scenarios: `tangram reproduce parvagpu` and `elastic-batch`.

#include "cli/verbs/reproduce_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <set>

#include "base/text.h"
#include "cli/inputs.h"
#include "cli/parallel.h"
#include "formats/csv.h"
#include "formats/import.h"
#include "formats/measurements_file.h"
#include "formats/trace_file.h"
#include "formats/workload_file.h"
#include "lab/elastic_batch.h"
#include "lab/parvagpu.h"
#include "learn/fit.h"
#include "learn/models/table.h"
#include "report/number_text.h"
#include "report/run_tables.h"
#include "report/table.h"

namespace tangram::cli {
namespace {

std::string path_in(const std::string& data, const char* folder, const char* file) {
  return (std::filesystem::path(data) / folder / file).string();
}

// A missing file is most often a wrong folder.
Error with_hint(const Error& error, const std::string& file) {
  return {error.code, error.message + "\n--data names the folder that holds " + file};
}

Result<Measurements> read_measurements(const std::string& format, const std::string& path) {
  const auto source = read_source(path);
  if (!source) return with_hint(source.error(), format + "/profiles.csv");
  const auto imported = formats::import_text(format, {*source});
  if (!imported) return imported.error();
  return formats::parse_measurements({path, *imported});
}

// The distinct values of a column, in the order of the file, which has to have it.
Result<std::vector<std::string>> values_of(const formats::Source& source, std::string_view column) {
  formats::Problems problems(source.name);
  formats::CsvReader reader(source.text, problems);
  std::vector<formats::CsvField> row;
  std::vector<std::string> values;
  if (!reader.next(row)) return Error{ErrorCode::invalid, source.name + ": the file is empty"};
  const auto at = std::ranges::find(row, column, &formats::CsvField::text);
  if (at == row.end()) {
    return Error{ErrorCode::invalid, fmt::format("{}:1:1: column {} is missing", source.name, column)};
  }
  const auto index = static_cast<std::size_t>(at - row.begin());
  while (reader.next(row)) {
    if (index >= row.size()) continue;
    std::string value(row[index].text);
    if (std::ranges::find(values, value) == values.end()) values.push_back(std::move(value));
  }
  return values;
}

Result<std::vector<lab::ParvaScenario>> read_scenarios(const std::string& path) {
  const auto source = read_source(path);
  if (!source) return with_hint(source.error(), "parvagpu/scenarios.csv");
  std::vector<lab::ParvaScenario> scenarios;
  const auto names = values_of(*source, "scenario");
  if (!names) return names.error();
  for (const auto& name : *names) {
    const auto imported = formats::import_text("parvagpu:" + name, {*source});
    if (!imported) return imported.error();
    const auto workload = formats::parse_workload({path, *imported}, reader_beside(path));
    if (!workload) return workload.error();
    scenarios.push_back({name, *workload});
  }
  if (scenarios.empty()) return Error{ErrorCode::invalid, path + ": no scenario in it"};
  return scenarios;
}

report::Json count_or_null(int devices) { return devices > 0 ? report::Json(devices) : report::Json(nullptr); }

report::Json parva_json(const lab::ParvaResult& result) {
  report::Json services = report::Json::array();
  for (const auto& service : result.services) {
    services.push_back({{"service", service.service},
                        {"slo_latency_ms", service.slo_ms},
                        {"latency_p99_ms", service.p99_ms},
                        {"slo_attainment", service.attainment}});
  }
  return {{"scenario", result.scenario},
          {"parva", count_or_null(result.parva)},
          {"elastic", count_or_null(result.elastic)},
          {"bound", count_or_null(result.bound)},
          {"proved", result.proved},
          {"certified", count_or_null(result.certified)},
          {"certified_bound", count_or_null(result.certified_bound)},
          {"certified_proved", result.certified_proved},
          {"half_raised", count_or_null(result.half_raised)},
          {"half_rate_factor", result.half_rate_factor},
          {"no_waiting_bound", count_or_null(result.no_waiting)},
          {"certifications", result.certifications},
          {"certified_services", std::move(services)}};
}

std::string devices_text(int devices) { return devices > 0 ? std::to_string(devices) : "none"; }

std::string parva_table(const std::vector<lab::ParvaResult>& results, const Terminal& terminal) {
  report::Table table({{"SCENARIO"},
                       {"PARVA", report::Align::right},
                       {"ELASTIC", report::Align::right},
                       {"BOUND", report::Align::right},
                       {"PROVED"},
                       {"HALF, RAISED", report::Align::right},
                       {"CERTIFIED", report::Align::right},
                       {"BOUND", report::Align::right},
                       {"NO WAITING", report::Align::right},
                       {"TIGHTEST P99"}});
  for (const auto& result : results) {
    std::string tightest = "-";
    double share = 0;
    for (const auto& service : result.services) {
      if (service.p99_ms / service.slo_ms < share) continue;
      share = service.p99_ms / service.slo_ms;
      tightest = fmt::format("{} {:.0f} of {} ms", service.service, service.p99_ms, text::shortest(service.slo_ms));
    }
    table.add({{result.scenario, Style::accent},
               devices_text(result.parva),
               devices_text(result.elastic),
               devices_text(result.bound),
               result.proved ? "yes" : "no",
               devices_text(result.half_raised),
               devices_text(result.certified),
               devices_text(result.certified_bound),
               devices_text(result.no_waiting),
               tightest});
  }
  return table.render(terminal);
}

// Word counts become lengths in tokens by this factor; sub-word tokens are 1.2 to 1.4 times as many.
constexpr double kTokensPerWord = 1.3;

// The rate of the settings that are looked at when it has to be quick.
constexpr double kQuickRate = 300;

Result<std::vector<lab::LengthDistribution>> read_lengths(Session& session, const std::string& path,
                                                          std::int64_t size_max) {
  std::vector<lab::LengthDistribution> all{lab::reference_lengths()};
  const auto source = read_source(path);
  if (!source) {
    session.note(source.error().message + "\nonly the log-normal lengths are used");
    return all;
  }
  const auto corpora = values_of(*source, "corpus");
  if (!corpora) return corpora.error();
  for (const auto& corpus : *corpora) {
    const auto imported = formats::import_text("text-lengths:" + corpus, {*source});
    if (!imported) return imported.error();
    const auto words = formats::parse_histogram({path, *imported});
    if (!words) return words.error();
    std::map<std::int64_t, double> tokens;
    for (const auto& bin : *words) {
      const auto length = static_cast<std::int64_t>(static_cast<double>(bin.size) * kTokensPerWord + 0.999);
      tokens[std::min(size_max, length)] += bin.weight;
    }
    HistogramSize histogram;
    for (const auto& [size, weight] : tokens) histogram.bins.push_back({size, weight});
    all.push_back({corpus, std::move(histogram)});
  }
  return all;
}

report::Json batch_json(const lab::ElasticBatchResult& result, const std::string& device) {
  return {{"slo_ms", result.setting.slo_ms},
          {"rate_per_s", result.setting.rate_per_s},
          {"lengths", result.setting.lengths.name},
          {"variant", result.variant},
          {"gpus", count_or_null(result.gpus)},
          {"slo_attainment", result.slo_attainment},
          {"utilisation_busy", result.utilisation_busy},
          {"utilisation_useful", result.utilisation_useful},
          {"rate_highest_per_s",
           result.rate_highest_per_s > 0 ? report::Json(result.rate_highest_per_s) : report::Json(nullptr)},
          {"bound", result.bound > 0 ? report::Json(result.bound) : report::Json(nullptr)},
          {"proved", result.proved},
          {"layouts", result.layouts},
          {"device", device}};
}

// One row a setting, one column a variant.
std::string batch_table(const std::vector<std::vector<lab::ElasticBatchResult>>& settings, const Terminal& terminal) {
  std::vector<report::Column> columns{{"LENGTHS"}, {"SLO MS", report::Align::right}, {"RATE", report::Align::right}};
  for (const auto& variant : lab::elastic_batch_variants()) columns.push_back({variant.name, report::Align::right});
  columns.push_back({"USEFUL", report::Align::right});
  columns.push_back({"VS OFF", report::Align::right});
  report::Table table(columns);
  for (const auto& results : settings) {
    const auto& setting = results.front().setting;
    std::vector<report::Cell> row{
        {setting.lengths.name, Style::accent}, text::shortest(setting.slo_ms), text::shortest(setting.rate_per_s)};
    int off = 0;
    for (const auto& result : results) {
      row.push_back(devices_text(result.gpus));
      const bool named = result.variant == "off_longest" || result.variant == "off_fixed";
      if (named && result.gpus > 0) off = off == 0 ? result.gpus : std::min(off, result.gpus);
    }
    const auto& elastic = results.back();
    row.push_back(report::percent_text(elastic.utilisation_useful));
    row.push_back(off > 0 && elastic.gpus > 0 ? fmt::format("{:+.0f} %", 100.0 * (elastic.gpus - off) / off) : "-");
    table.add(std::move(row));
  }
  return table.render(terminal);
}

// The highest rates on as many devices as `elastic` took, one for each Slo and number of devices. Settings of other
// rates on as many devices have the same answer.
class HighestRates {
 public:
  HighestRates(const lab::ElasticBatchInput& input, const std::vector<std::vector<lab::ElasticBatchResult>>& settings)
      : input_(input) {
    for (const auto& results : settings) {
      const auto& elastic = results.back();
      if (elastic.gpus > 0 && elastic.setting.lengths.name == lab::reference_lengths().name) {
        // The last of them has the highest rate, where the search begins.
        found_[{elastic.setting.slo_ms, elastic.gpus}].push_back({elastic.setting, {}});
      }
    }
    for (auto& [key, cells] : found_) order_.push_back(&cells);
  }

  std::size_t size() const { return order_.size(); }
  void run(std::size_t i) {
    auto& cells = *order_[i];
    const auto results = lab::run_highest_rates(input_, cells.back().setting, gpus_of(i));
    for (auto& cell : cells) {
      cell.results = results;
      for (auto& result : cell.results) result.setting = cell.setting;
    }
  }

  // Of the setting of `elastic`; empty where none was sought.
  std::vector<lab::ElasticBatchResult> of(const lab::ElasticBatchResult& elastic) const {
    const auto found = found_.find({elastic.setting.slo_ms, elastic.gpus});
    if (found == found_.end() || elastic.setting.lengths.name != lab::reference_lengths().name) return {};
    for (const auto& cell : found->second) {
      if (cell.setting.rate_per_s == elastic.setting.rate_per_s) return cell.results;
    }
    return {};
  }

  // One row for each Slo and number of devices.
  std::string table(const Terminal& terminal) const {
    std::vector<report::Column> columns{{"LENGTHS"}, {"SLO MS", report::Align::right}, {"GPUS", report::Align::right}};
    for (const auto& variant : lab::highest_rate_variants()) {
      columns.push_back({variant.name, report::Align::right});
      columns.push_back({"USEFUL", report::Align::right});
    }
    columns.push_back({"VS FIXED", report::Align::right});
    columns.push_back({"VS CHOSEN", report::Align::right});
    report::Table table(columns);
    for (const auto& [key, cells] : found_) {
      const auto& results = cells.back().results;
      std::vector<report::Cell> row{
          {results.front().setting.lengths.name, Style::accent}, text::shortest(key.first), std::to_string(key.second)};
      for (const auto& result : results) {
        row.push_back(fmt::format("{:.0f}/s", result.rate_highest_per_s));
        row.push_back(report::percent_text(result.utilisation_useful));
      }
      for (std::size_t i = 2; i < results.size(); ++i) row.push_back(gain(results.front(), results[i]));
      table.add(std::move(row));
    }
    return table.render(terminal);
  }

 private:
  struct Setting {
    lab::ElasticBatchSetting setting;
    std::vector<lab::ElasticBatchResult> results;
  };
  using Key = std::pair<double, int>;  // Slo and devices.

  int gpus_of(std::size_t i) const {
    for (const auto& [key, cells] : found_) {
      if (&cells == order_[i]) return key.second;
    }
    return 0;
  }
  static std::string gain(const lab::ElasticBatchResult& own, const lab::ElasticBatchResult& other) {
    if (other.rate_highest_per_s <= 0) return "-";
    return fmt::format("{:+.1f} %", 100 * (own.rate_highest_per_s / other.rate_highest_per_s - 1));
  }

  const lab::ElasticBatchInput& input_;
  std::map<Key, std::vector<Setting>> found_;
  std::vector<std::vector<Setting>*> order_;
};

// Why variants were impossible, each reason once.
void note_reasons(Session& session, const std::vector<std::vector<lab::ElasticBatchResult>>& settings) {
  std::set<std::string> told;
  for (const auto& results : settings) {
    for (const auto& result : results) {
      if (result.gpus > 0 || result.reason.empty()) continue;
      if (told.insert(result.reason).second) session.note(result.variant + ": " + result.reason);
    }
  }
}

void print_variants(Session& session, const std::vector<lab::ElasticBatchVariant>& variants) {
  for (const auto& variant : variants) session.print(fmt::format("  {:<19} {}\n", variant.name, variant.summary));
}

}  // namespace

ExitCode reproduce_parvagpu(Session& session, const PlannerResultOptions& options) {
  const auto measurements = read_measurements("parvagpu", path_in(options.data, "parvagpu", "profiles.csv"));
  if (!measurements) return session.fail(measurements.error());
  const auto scenarios = read_scenarios(path_in(options.data, "parvagpu", "scenarios.csv"));
  if (!scenarios) return session.fail(scenarios.error());
  const learn::TableModel table(*measurements);
  std::vector<lab::ParvaResult> results(scenarios->size());
  std::atomic<std::uint64_t> done = 0;
  Progress progress = session.progress("planning", results.size());
  run_all(
      results.size(),
      [&](std::size_t i) {
        // The largest first, so that none is left alone at the end.
        const std::size_t at = results.size() - 1 - i;
        results[at] = lab::run_parvagpu(table, (*scenarios)[at]);
        ++done;
      },
      [&] { progress.set(done); });
  if (session.structured()) {
    report::Json list = report::Json::array();
    for (const auto& result : results) list.push_back(parva_json(result));
    session.print_value(list);
  } else {
    session.print(
        "Devices for each scenario. PARVA, ELASTIC and its BOUND: a run takes less than 0.9 of half the Slo.\n"
        "HALF, RAISED: the same with rates raised until every simulated p99 holds. CERTIFIED: simulated with the\n"
        "scheduler that serves. NO WAITING: the bound if a run only had to be shorter than its Slo,\n"
        "in batches that can gather in what is left of it.\n\n");
    session.print(parva_table(results, session.terminal));
  }
  for (const auto& result : results) {
    if (!result.reason.empty()) session.note(result.scenario + ": " + result.reason);
  }
  return ExitCode::done;
}

ExitCode reproduce_elastic_batch(Session& session, const PlannerResultOptions& options) {
  const auto measurements = read_measurements("migprofiler", path_in(options.data, "migprofiler", "profiles.csv"));
  if (!measurements) return session.fail(measurements.error());
  const auto groups = lab::elastic_batch_models(*measurements);
  if (groups.empty()) {
    return session.fail({ErrorCode::invalid, path_in(options.data, "migprofiler", "profiles.csv") +
                                                 ": no model was measured at several input lengths"});
  }
  report::Json list = report::Json::array();
  for (const auto& group : groups) {
    const auto fitted = learn::fit(group.measurements, {}, {});
    if (!fitted) return session.fail(fitted.error());
    const auto lengths =
        read_lengths(session, path_in(options.data, "text_lengths", "length_histograms.csv"), group.size_max);
    if (!lengths) return session.fail(lengths.error());
    std::vector<lab::ElasticBatchSetting> settings;
    for (const auto& distribution : *lengths) {
      for (auto& setting : lab::elastic_batch_settings(distribution)) {
        if (!options.quick || setting.rate_per_s == kQuickRate) settings.push_back(std::move(setting));
      }
    }
    const lab::ElasticBatchInput input{group.device, group.models, group.mig_profiles, group.size_max, &*fitted};
    std::vector<std::vector<lab::ElasticBatchResult>> results(settings.size());
    std::atomic<std::uint64_t> done = 0;
    Progress progress = session.progress("planning", settings.size());
    run_all(
        settings.size(),
        [&](std::size_t i) {
          results[i] = lab::run_elastic_batch(input, settings[i]);
          ++done;
        },
        [&] { progress.set(done); });
    progress.finish();
    note_reasons(session, results);
    HighestRates rates(input, results);
    done = 0;
    Progress searching = session.progress("finding the highest rates", rates.size());
    run_all(
        rates.size(),
        [&](std::size_t i) {
          rates.run(i);
          ++done;
        },
        [&] { searching.set(done); });
    searching.finish();
    if (session.structured()) {
      for (const auto& setting : results) {
        for (const auto& result : setting) list.push_back(batch_json(result, group.device));
        for (const auto& result : rates.of(setting.back())) list.push_back(batch_json(result, group.device));
      }
      continue;
    }
    session.print(fmt::format("{} models on {}: GPUs with which every simulated p99 is within its Slo.\n",
                              group.models.size(), group.device));
    print_variants(session, lab::elastic_batch_variants());
    session.print("VS OFF: elastic against the better of off_longest and off_fixed.\n\n");
    session.print(batch_table(results, session.terminal));
    session.print("\nThe highest rate of each model on as many GPUs, all models on every slice.\n");
    print_variants(session, lab::highest_rate_variants());
    session.print("VS FIXED, VS CHOSEN: the useful work of rate_elastic over that of either rate_fifo.\n\n");
    session.print(rates.table(session.terminal));
  }
  if (session.structured()) session.print_value(list);
  return ExitCode::done;
}

}  // namespace tangram::cli
