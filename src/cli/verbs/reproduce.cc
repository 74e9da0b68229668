// `tangram reproduce`: published results, made again from public data.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <optional>
#include <set>

#include "base/text.h"
#include "cli/build_info.h"
#include "cli/inputs.h"
#include "cli/parallel.h"
#include "cli/program.h"
#include "cli/verbs/reproduce_few_shot.h"
#include "cli/verbs/reproduce_planner.h"
#include "cli/verbs/reproduce_training.h"
#include "formats/import.h"
#include "formats/measurements_file.h"
#include "lab/paris_elsa.h"
#include "report/number_text.h"
#include "report/run_tables.h"
#include "report/table.h"

namespace tangram::cli {
namespace {

struct Options {
  std::string result;
  std::string data = "../shared/data";
  bool full = false;
  bool quick = false;
  std::string report;
  std::optional<int> seeds;

  TrainingOptions training() const { return {data, full, quick, seeds.value_or(0), report}; }
};

constexpr std::uint64_t kFirstSeed = 7;

std::size_t seeds_of(const Options& options) { return static_cast<std::size_t>(options.seeds.value_or(1)); }

// One dispatch policy, with or without dynamic batching.
struct Dispatch {
  const char* policy;
  bool merge = false;
};
constexpr Dispatch kPublished[] = {{"fifs"}, {"elsa"}, {"tangram"}};
// Queries of one sample, as most services have them.
constexpr Dispatch kBatching[] = {{"elsa", false},     {"fifs", true}, {"edf", true},
                                  {"clockwork", true}, {"elsa", true}, {"tangram", true}};

// One row of the answer: a cell under every seed.
struct Row {
  std::size_t setting = 0;
  lab::ParisElsaCell cell;
  std::vector<lab::ParisElsaResult> by_seed;
};

Result<Measurements> load_profiles(const std::string& data) {
  const std::string path = (std::filesystem::path(data) / "parvagpu" / "profiles.csv").string();
  const auto source = read_source(path);
  if (!source) {
    return Error{source.error().code,
                 source.error().message + "\n--data names the folder that holds parvagpu/profiles.csv"};
  }
  const auto imported = formats::import_text("parvagpu", {*source});
  if (!imported) return imported.error();
  return formats::parse_measurements({path, *imported});
}

// Models whose rows are all infeasible for want of a measurement are named once, with what is missing.
void note_missing(Session& session, const Measurements& measurements,
                  const std::vector<lab::ParisElsaSetting>& settings) {
  std::set<std::string> told;
  for (const auto& setting : settings) {
    const auto missing = lab::paris_elsa_missing(measurements, setting);
    if (missing && told.insert(*missing).second) session.note("parvagpu/profiles.csv: " + *missing);
  }
}

std::vector<Row> rows_of(const std::vector<lab::ParisElsaSetting>& settings, const Options& options) {
  std::vector<Row> rows;
  const auto add = [&](std::size_t s, const std::string& partitioning, const Dispatch& dispatch, bool single) {
    lab::ParisElsaCell cell;
    cell.setting = settings[s];
    cell.partitioning = partitioning;
    cell.policy = dispatch.policy;
    cell.merge = dispatch.merge;
    cell.single = single;
    rows.push_back({s, std::move(cell), std::vector<lab::ParisElsaResult>(seeds_of(options))});
  };
  for (std::size_t s = 0; s < settings.size(); ++s) {
    for (const auto& partitioning : lab::paris_elsa_partitionings()) {
      for (const auto& dispatch : kPublished) add(s, partitioning, dispatch, false);
    }
    // Ours: cut for the policy that runs on it; each query alone, and with queries merged into batches.
    add(s, "elastic", {"tangram", false}, false);
    add(s, "elastic", {"tangram", true}, false);
    for (const auto& partitioning : lab::paris_elsa_partitionings()) {
      for (const auto& dispatch : kPublished) add(s, partitioning, {dispatch.policy, true}, false);
    }
    if (!options.full) continue;
    // Without several samples in a query, mu and sigma only matter to PARIS.
    const bool known = std::ranges::any_of(
        settings.begin(), settings.begin() + static_cast<std::ptrdiff_t>(s), [&](const auto& earlier) {
          return earlier.model == settings[s].model && earlier.compute_slices == settings[s].compute_slices;
        });
    for (const auto& partitioning : lab::paris_elsa_partitionings()) {
      if (known && partitioning != "paris") continue;
      for (const auto& dispatch : kBatching) add(s, partitioning, dispatch, true);
    }
  }
  return rows;
}

void run_rows(Session& session, const Measurements& measurements, std::vector<Row>& rows, std::size_t seeds) {
  std::atomic<std::uint64_t> done = 0;
  Progress progress = session.progress("searching", rows.size() * seeds);
  run_all(
      rows.size() * seeds,
      [&](std::size_t i) {
        Row& row = rows[i / seeds];
        lab::ParisElsaCell cell = row.cell;
        cell.seed = kFirstSeed + i % seeds;
        row.by_seed[i % seeds] = lab::run_paris_elsa(measurements, cell);
        ++done;
      },
      [&] { progress.set(done); });
}

// The sizes of slices that the experiment knows, smallest first, as `counts` has them.
report::Json slices_json(const std::vector<int>& counts) {
  constexpr const char* kNames[] = {"1g", "2g", "3g", "4g", "7g"};
  report::Json json = report::Json::object();
  for (std::size_t i = 0; i < std::min(counts.size(), std::size(kNames)); ++i) json[kNames[i]] = counts[i];
  return json;
}

report::Json row_json(const Row& row) {
  const lab::ParisElsaResult& first = row.by_seed.front();
  report::Json json{{"partitioning", row.cell.partitioning}, {"policy", row.cell.policy}, {"qps", first.qps}};
  const bool elastic = row.cell.partitioning == "elastic";
  if (row.cell.single || row.cell.merge || elastic) json["merge"] = row.cell.merge;
  if (elastic) {
    json["bound_qps"] = first.bound_qps;
    json["share_of_bound"] = first.bound_qps > 0 ? report::Json(first.qps / first.bound_qps) : report::Json(nullptr);
  }
  if (const auto reference = lab::paris_elsa_reference(row.cell)) json["reference_qps"] = *reference;
  json["slices"] = slices_json(first.counts);
  json["p95_ms"] = first.qps > 0 ? report::Json(first.p95_ms) : report::Json(nullptr);
  json["p99_ms"] = first.qps > 0 ? report::Json(first.p99_ms) : report::Json(nullptr);
  json["busy_share"] = first.busy_share;
  if (row.by_seed.size() > 1) {
    report::Json seeds = report::Json::array();
    for (const auto& result : row.by_seed) seeds.push_back(result.qps);
    json["qps_by_seed"] = std::move(seeds);
  }
  return json;
}

report::Json answer_json(const std::vector<lab::ParisElsaSetting>& settings, const std::vector<Row>& rows) {
  report::Json list = report::Json::array();
  for (std::size_t s = 0; s < settings.size(); ++s) {
    report::Json results = report::Json::array();
    report::Json batching = report::Json::array();
    report::Json merged = report::Json::array();
    double slo_ms = 0;
    for (const auto& row : rows) {
      if (row.setting != s) continue;
      slo_ms = row.by_seed.front().slo_ms;
      const bool other_merged = row.cell.merge && row.cell.partitioning != "elastic";
      (row.cell.single ? batching : other_merged ? merged : results).push_back(row_json(row));
    }
    report::Json json{{"model", settings[s].model},
                      {"mu", settings[s].mu},
                      {"sigma", settings[s].sigma},
                      {"compute_slices", settings[s].compute_slices},
                      {"slo_ms", slo_ms},
                      {"seed", kFirstSeed},
                      {"queries", lab::ParisElsaCell{}.queries},
                      {"commit", build_info().commit},
                      {"results", std::move(results)}};
    if (!merged.empty()) json["merged"] = std::move(merged);
    if (!batching.empty()) json["single_samples"] = std::move(batching);
    list.push_back(std::move(json));
  }
  return list;
}

std::string qps_text(double qps) { return qps > 0 ? fmt::format("{:.0f}", qps) : "infeasible"; }

std::string setting_text(const lab::ParisElsaSetting& setting) {
  return fmt::format("{}, {} slices, mu {:.1f}, sigma {:.1f}", setting.model, setting.compute_slices, setting.mu,
                     setting.sigma);
}

// "elsa 2300, ours x1.002"; an infeasible reference is only met by an infeasible answer.
std::string reference_text(const Row& row) {
  const auto reference = lab::paris_elsa_reference(row.cell);
  if (!reference) return "";
  const double ours = row.by_seed.front().qps;
  if (*reference == 0) return fmt::format("{} infeasible, ours {}", row.cell.policy, ours == 0 ? "too" : "not");
  return fmt::format("{} {:.0f}, ours x{:.3f}", row.cell.policy, *reference, ours / *reference);
}

std::string published_table(const std::vector<lab::ParisElsaSetting>& settings, const std::vector<Row>& rows,
                            const Terminal& terminal) {
  report::Table table({{"SETTING"},
                       {"CUT"},
                       {"FIFS", report::Align::right},
                       {"ELSA", report::Align::right},
                       {"TANGRAM", report::Align::right},
                       {"TANGRAM/ELSA", report::Align::right},
                       {"REFERENCE"}});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].cell.single || rows[i].cell.merge || rows[i].cell.partitioning == "elastic") continue;
    const Row* cells[] = {&rows[i], &rows[i + 1], &rows[i + 2]};
    i += 2;
    std::vector<std::string> references;
    for (const Row* row : cells) {
      if (auto text = reference_text(*row); !text.empty()) references.push_back(std::move(text));
    }
    const double elsa = cells[1]->by_seed.front().qps;
    const double tangram = cells[2]->by_seed.front().qps;
    const bool first = cells[0]->cell.partitioning == lab::paris_elsa_partitionings().front();
    table.add({{first ? setting_text(settings[cells[0]->setting]) : "", Style::accent},
               cells[0]->cell.partitioning,
               qps_text(cells[0]->by_seed.front().qps),
               qps_text(elsa),
               qps_text(tangram),
               {elsa > 0 ? fmt::format("x{:.3f}", tangram / elsa) : "", tangram >= elsa ? Style::good : Style::bad},
               text::join(references, "; ")});
  }
  return table.render(terminal);
}

std::string batching_table(const std::vector<lab::ParisElsaSetting>& settings, const std::vector<Row>& rows,
                           const Terminal& terminal) {
  std::vector<report::Column> columns{{"SETTING"}, {"CUT"}};
  for (const auto& dispatch : kBatching) {
    columns.push_back({text::lower(dispatch.policy) + (dispatch.merge ? "+batching" : ""), report::Align::right});
  }
  columns.push_back({"tangram/elsa", report::Align::right});
  report::Table table(std::move(columns));
  std::optional<std::size_t> last;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].cell.single) continue;
    const bool first = last != rows[i].setting;
    last = rows[i].setting;
    std::vector<report::Cell> cells{{first ? setting_text(settings[rows[i].setting]) : "", Style::accent},
                                    rows[i].cell.partitioning};
    const double elsa = rows[i].by_seed.front().qps;
    for (std::size_t d = 0; d < std::size(kBatching); ++d) {
      cells.emplace_back(qps_text(rows[i + d].by_seed.front().qps));
    }
    i += std::size(kBatching) - 1;
    cells.emplace_back(elsa > 0 ? fmt::format("x{:.2f}", rows[i].by_seed.front().qps / elsa) : "");
    table.add(std::move(cells));
  }
  return table.render(terminal);
}

// The elastic cut of each setting beside the best that the others reach.
std::string elastic_table(const std::vector<lab::ParisElsaSetting>& settings, const std::vector<Row>& rows,
                          const Terminal& terminal) {
  report::Table table({{"SETTING"},
                       {"ELASTIC", report::Align::right},
                       {"BOUND", report::Align::right},
                       {"REACHED", report::Align::right},
                       {"BEST OTHER", report::Align::right},
                       {"BY"},
                       {"ELASTIC/BEST", report::Align::right},
                       {"/HOMOGENEOUS+FIFS", report::Align::right},
                       {"MERGED", report::Align::right},
                       {"/ELSA MERGED", report::Align::right},
                       {"BOUND/ELSA MERGED", report::Align::right}});
  for (std::size_t s = 0; s < settings.size(); ++s) {
    double alone = 0, bound = 0, merged = 0, merged_bound = 0, best = 0, homogeneous = 0, elsa_merged = 0;
    std::string by;
    for (const auto& row : rows) {
      if (row.setting != s || row.cell.single) continue;
      const double qps = row.by_seed.front().qps;
      if (row.cell.partitioning == "elastic") {
        (row.cell.merge ? merged : alone) = qps;
        (row.cell.merge ? merged_bound : bound) = row.by_seed.front().bound_qps;
        continue;
      }
      if (row.cell.merge) {
        if (row.cell.policy == "elsa" && row.cell.partitioning == "paris") elsa_merged = qps;
        continue;
      }
      if (row.cell.policy == "fifs" && row.cell.partitioning.starts_with("homogeneous")) {
        homogeneous = std::max(homogeneous, qps);
      }
      if (qps > best) {
        best = qps;
        by = row.cell.partitioning + " + " + row.cell.policy;
      }
    }
    const auto ratio = [](double a, double b) { return b > 0 ? fmt::format("x{:.3f}", a / b) : std::string("-"); };
    table.add({{setting_text(settings[s]), Style::accent},
               qps_text(alone),
               qps_text(bound),
               report::percent_text(bound > 0 ? alone / bound : 0),
               qps_text(best),
               by,
               {ratio(alone, best), alone >= 0.99 * best ? Style::good : Style::bad},
               ratio(alone, homogeneous),
               qps_text(merged),
               ratio(merged, elsa_merged),
               ratio(merged_bound, elsa_merged)});
  }
  return table.render(terminal);
}

// Every cut and policy with queries merged into batches.
std::string merged_table(const std::vector<lab::ParisElsaSetting>& settings, const std::vector<Row>& rows,
                         const Terminal& terminal) {
  report::Table table({{"SETTING"},
                       {"CUT"},
                       {"FIFS", report::Align::right},
                       {"ELSA", report::Align::right},
                       {"TANGRAM", report::Align::right},
                       {"TANGRAM/ELSA", report::Align::right}});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].cell.single || !rows[i].cell.merge || rows[i].cell.partitioning == "elastic") continue;
    const bool first = rows[i].cell.partitioning == lab::paris_elsa_partitionings().front();
    const double elsa = rows[i + 1].by_seed.front().qps;
    const double tangram = rows[i + 2].by_seed.front().qps;
    table.add({{first ? setting_text(settings[rows[i].setting]) : "", Style::accent},
               rows[i].cell.partitioning,
               qps_text(rows[i].by_seed.front().qps),
               qps_text(elsa),
               qps_text(tangram),
               elsa > 0 ? fmt::format("x{:.3f}", tangram / elsa) : ""});
    i += 2;
  }
  return table.render(terminal);
}

// What only some results know would do nothing for the others.
Result<Nothing> check_options(const Options& options) {
  const std::set<std::string> seeded{"paris-elsa", "few-shot", "deepboot"};
  if (options.seeds && !seeded.contains(options.result)) {
    return Error{ErrorCode::invalid,
                 "--seeds does nothing for " + options.result + "; it is for paris-elsa, few-shot and deepboot"};
  }
  const std::set<std::string> shortened{"pollux", "deepboot", "slices", "elastic-batch"};
  if (options.quick && !shortened.contains(options.result)) {
    return Error{ErrorCode::invalid, "--quick does nothing for " + options.result +
                                         "; it is for pollux, deepboot, slices and elastic-batch"};
  }
  if (!options.report.empty() && options.result != "deepboot") {
    return Error{ErrorCode::invalid, "--report does nothing for " + options.result + "; it is for deepboot"};
  }
  return Nothing{};
}

ExitCode run(Session& session, const Options& options) {
  const auto known = check_options(options);
  if (!known) return session.fail(known.error());
  if (options.result == "pollux") return reproduce_pollux(session, options.training());
  if (options.result == "deepboot") return reproduce_deepboot(session, options.training());
  if (options.result == "slices") return reproduce_slices(session, options.training());
  if (options.result == "few-shot") {
    return reproduce_few_shot(session, {options.data, options.full, options.seeds.value_or(0)});
  }
  if (options.result == "parvagpu") return reproduce_parvagpu(session, {options.data, options.full, options.quick});
  if (options.result == "elastic-batch") {
    return reproduce_elastic_batch(session, {options.data, options.full, options.quick});
  }
  const auto measurements = load_profiles(options.data);
  if (!measurements) return session.fail(measurements.error());
  const auto settings = lab::paris_elsa_settings(*measurements);
  note_missing(session, *measurements, settings);
  auto rows = rows_of(settings, options);
  run_rows(session, *measurements, rows, seeds_of(options));
  if (session.structured()) {
    session.print_value(answer_json(settings, rows));
    return ExitCode::done;
  }
  session.print(
      "Highest rate in queries/s with p95 within the promise; queries hold several samples and run alone.\n\n");
  session.print(published_table(settings, rows, session.terminal));
  session.print(
      "\nThe cut found for `tangram` on the same budget. BOUND: the budget over the least compute-slice seconds of a\n"
      "query. MERGED: queries may share batches; beside it PARIS and ELSA merging too, and how far the bound is from\n"
      "them.\n\n");
  session.print(elastic_table(settings, rows, session.terminal));
  session.print("\nAll cuts and policies with queries merged into batches.\n\n");
  session.print(merged_table(settings, rows, session.terminal));
  if (!options.full) return ExitCode::done;
  session.print("\nThe same with queries of one sample, which policies may put into batches.\n\n");
  session.print(batching_table(settings, rows, session.terminal));
  return ExitCode::done;
}

}  // namespace

void add_reproduce(Program& program) {
  const auto options = std::make_shared<Options>();
  Arguments& verb = program.add_verb(
      {.name = "reproduce",
       .group = "Simulate",
       .summary = "published results, made again from public data",
       .description =
           "paris-elsa: on the ParvaGPU profiles, the highest rate that keeps the p95 within the promise, for every "
           "way "
           "of cutting a budget of compute slices (homogeneous, random, PARIS) and the policies fifs, elsa and "
           "tangram. "
           "Every arrival counts, nothing may be refused, p99 stays within three promises and the queue does not grow; "
           "0 means infeasible. REFERENCE compares with figures of an independent simulator. With --full, also "
           "queries of single samples with dynamic batching. few-shot: on the ParvaGPU and MIGProfiler tables, how "
           "well "
           "a few measurements of a model tell the rest, for four ways of choosing them; with --full over 20 seeds. "
           "parvagpu: devices for its scenarios by its own way, exactly with a proof, and with every promise "
           "simulated. "
           "elastic-batch: GPUs for text models with and without slices and buckets. pollux: "
           "mean completion times of training jobs on 16 nodes of 4 GPUs; with --full also other intervals, and jobs "
           "that "
           "slow each other down. deepboot: training on GPUs that inference lends and takes back, on the published "
           "workloads and on heavier loads; with --full also each policy over its own knob. slices: "
           "training on slices that services do not need for now, over a day, against lending whole GPUs; with --full "
           "also against plans for every hour.",
       .examples = {{"tangram reproduce paris-elsa --data DIR", "The table."},
                    {"tangram reproduce paris-elsa --data DIR --output json", "The same for programs."},
                    {"tangram reproduce few-shot --data DIR", "Errors, intervals and regret of learned models."},
                    {"tangram reproduce parvagpu --data DIR", "Fewest GPUs for the published scenarios."},
                    {"tangram reproduce elastic-batch --data DIR", "What slices and buckets save."},
                    {"tangram reproduce pollux --data DIR", "Training alone: Pollux, Optimus, Tiresias and ours."},
                    {"tangram reproduce deepboot --data DIR --full --report sharing.html",
                     "Training beside inference, with pictures."},
                    {"tangram reproduce paris-elsa --data DIR --full", "With dynamic batching; takes minutes."}}},
      [options](Session& session) { return run(session, *options); });
  program.one_of(verb.add_option("RESULT", options->result, "Which result.")->required(),
                 {"paris-elsa", "parvagpu", "elastic-batch", "few-shot", "pollux", "deepboot", "slices"});
  program.offers_files(verb.add_option("--data", options->data, "The folder with the public data.")
                           ->type_name("DIR")
                           ->capture_default_str());
  verb.add_flag("--full", options->full, "Add the sweeps that take longer.");
  verb.add_flag(
      "--quick", options->quick,
      "pollux and deepboot: only the smallest workload, with a short search; slices: only the first scenario; "
      "elastic-batch: only one rate.");
  program.offers_files(
      verb.add_option("--report", options->report, "deepboot: write a page with pictures here.")->type_name("FILE"));
  verb.add_option("--seeds", options->seeds,
                  "paris-elsa, few-shot and deepboot: repeat with so many seeds; JSON then lists all.")
      ->type_name("N")
      ->range(1, 1000);
}

}  // namespace tangram::cli
