// The tables of PARIS and ELSA: every cut of the budget under every policy, and the cut that we would make.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "experiments/paris_elsa.h"
#include "experiments/reproduce.h"
#include "report/number_text.h"
#include "report/run_tables.h"

namespace tangram::experiments {
namespace {

using report::Align;
using report::Style;

// Every rate is the mean over seeds, from this one on.
constexpr std::uint64_t kFirstSeed = 7;
constexpr std::uint64_t kQueries = 20000;
constexpr std::uint64_t kQueriesFull = 600000;
constexpr std::uint64_t kQueriesSingle = 60000;
constexpr const char* kElastic = "elastic";
// Slo::late_limit of the service as judged, and the default.
constexpr double kLateLimit = 3;
constexpr double kLateLimitDefault = 1;

// One dispatch policy, with or without dynamic batching.
struct Dispatch {
  const char* policy;
  bool merge = false;
};
constexpr const char* kPolicies[] = {"fifs", "elsa", "tangram"};
// For queries of one sample, as most services have them.
constexpr Dispatch kBatching[] = {{"elsa", false},     {"fifs", true}, {"edf", true},
                                  {"clockwork", true}, {"elsa", true}, {"tangram", true}};

// Which of the two criteria: the p99 within three Slos, or strictly the p99.9.
using Rate = ParisElsaRate ParisElsaResult::*;
constexpr Rate kRate = &ParisElsaResult::rate;
constexpr Rate kStrict = &ParisElsaResult::strict;

// One row of the answer: a cell under every seed.
struct Row {
  std::size_t setting = 0;
  ParisElsaCell cell;
  std::vector<ParisElsaResult> by_seed;

  // The mean rate over all seeds; 0 if any of them has none.
  double qps(Rate rate) const {
    double sum = 0;
    for (const auto& result : by_seed) {
      if ((result.*rate).qps == 0) return 0;
      sum += (result.*rate).qps;
    }
    return sum / static_cast<double>(by_seed.size());
  }
  bool elastic() const { return cell.partitioning == kElastic; }
};

// The rate of one row over that of another, in the mean and for the worst seed; 0 where one has none.
struct Ratio {
  double mean = 0;
  double worst = 0;
};

Ratio ratio_of(const Row& row, const Row& other, Rate rate) {
  if (other.qps(rate) == 0) return {};
  Ratio ratio{row.qps(rate) / other.qps(rate), 1e9};
  for (std::size_t i = 0; i < row.by_seed.size(); ++i) {
    ratio.worst = std::min(ratio.worst, (row.by_seed[i].*rate).qps / (other.by_seed[i].*rate).qps);
  }
  return ratio;
}

// Which row of a setting is meant.
struct RowKey {
  std::string partitioning;
  Dispatch dispatch;
  bool single = false;
  double late_limit = kLateLimit;
};

// All rows, by setting, in the order in which they run and appear in the JSON.
class Grid {
 public:
  Grid(std::vector<ParisElsaSetting> settings, bool full, std::size_t seeds)
      : settings_(std::move(settings)), full_(full), seeds_(seeds) {
    for (std::size_t s = 0; s < settings_.size(); ++s) {
      add_published(s);
      if (full) add_merged(s);
      if (full) add_single_samples(s);
    }
  }

  std::uint64_t queries() const { return full_ ? kQueriesFull : kQueries; }

  const std::vector<ParisElsaSetting>& settings() const { return settings_; }
  const std::vector<Row>& rows() const { return rows_; }

  void run(Runner& runner, const Measurements& measurements) {
    // One cut for all seeds, found without looking at any of them.
    std::vector<Row*> elastic;
    for (auto& row : rows_) {
      if (row.elastic()) elastic.push_back(&row);
    }
    run_cells(runner, "cutting", elastic, [&](Row* row) { row->cell.counts = elastic_cut(measurements, row->cell); });
    // Each seed of each row is a task of its own and writes only its own result.
    runner.run_all("searching", rows_.size() * seeds_, [&](std::size_t i) {
      Row& row = rows_[i / seeds_];
      ParisElsaCell cell = row.cell;
      cell.seed = kFirstSeed + i % seeds_;
      row.by_seed[i % seeds_] = run_paris_elsa(measurements, cell);
    });
  }

  // Null where the setting has no such row: single samples do not run on every cut of every setting.
  const Row* find(std::size_t setting, const RowKey& key) const {
    for (const auto& row : rows_) {
      if (row.setting == setting && row.cell.single == key.single && row.cell.merge == key.dispatch.merge &&
          row.cell.late_limit == key.late_limit && row.cell.policy == key.dispatch.policy &&
          row.cell.partitioning == key.partitioning) {
        return &row;
      }
    }
    return nullptr;
  }
  const Row& at(std::size_t setting, const RowKey& key) const {
    const Row* row = find(setting, key);
    TANGRAM_CHECK(row != nullptr, "every setting has this row");
    return *row;
  }

 private:
  void add(std::size_t s, const RowKey& key) {
    ParisElsaCell cell;
    cell.setting = settings_[s];
    cell.partitioning = key.partitioning;
    cell.policy = key.dispatch.policy;
    cell.merge = key.dispatch.merge;
    cell.single = key.single;
    cell.late_limit = key.late_limit;
    // Queries of one sample differ in nothing, so short runs tell as much.
    cell.queries = key.single ? kQueriesSingle : queries();
    rows_.push_back({s, std::move(cell), std::vector<ParisElsaResult>(seeds_)});
  }

  void add_published(std::size_t s) {
    for (const auto& partitioning : paris_elsa_partitionings()) {
      for (const char* policy : kPolicies) add(s, {partitioning, {policy, false}});
      add(s, {partitioning, {"tangram", false}, false, kLateLimitDefault});
    }
    // Ours: cut for the policy that runs on it; each query alone, and with queries merged into batches.
    add(s, {kElastic, {"tangram", false}});
    add(s, {kElastic, {"tangram", true}});
    // The published combination, given the same freedom to merge queries.
    add(s, {"paris", {"elsa", true}});
  }

  void add_merged(std::size_t s) {
    for (const auto& partitioning : paris_elsa_partitionings()) {
      for (const char* policy : kPolicies) {
        if (find(s, {partitioning, {policy, true}}) == nullptr) add(s, {partitioning, {policy, true}});
      }
    }
  }

  // Without several samples in a query, mu and sigma only matter to PARIS. Of settings that differ in nothing else, the
  // first one represents all.
  void add_single_samples(std::size_t s) {
    const auto alike = [&](const auto& earlier) {
      return earlier.model == settings_[s].model && earlier.compute_slices == settings_[s].compute_slices;
    };
    const bool known =
        std::ranges::any_of(settings_.begin(), settings_.begin() + static_cast<std::ptrdiff_t>(s), alike);
    for (const auto& partitioning : paris_elsa_partitionings()) {
      if (known && partitioning != "paris") continue;
      for (const auto& dispatch : kBatching) add(s, {partitioning, dispatch, true});
    }
  }

  std::vector<ParisElsaSetting> settings_;
  bool full_;
  std::size_t seeds_;
  std::vector<Row> rows_;
};

// Models whose rows are all infeasible for want of a measurement are named once, with what is missing.
void note_missing(Runner& runner, const Measurements& measurements, const std::vector<ParisElsaSetting>& settings) {
  std::set<std::string> told;
  for (const auto& setting : settings) {
    const auto missing = paris_elsa_missing(measurements, setting);
    if (missing && told.insert(*missing).second) runner.note("parvagpu/profiles.csv: " + *missing);
  }
}

// The largest over all seeds.
double worst_of(const Row& row, Rate rate, double ParisElsaRate::*value) {
  double worst = 0;
  for (const auto& result : row.by_seed) worst = std::max(worst, (result.*rate).*value);
  return worst;
}

// Summed over all seeds; empty if the row has no rate.
std::vector<detail::SamplesGroup> late_groups(const Row& row, Rate rate) {
  std::vector<detail::SamplesGroup> sum;
  if (row.qps(rate) == 0) return sum;
  for (const auto& result : row.by_seed) {
    const auto& groups = (result.*rate).groups;
    sum.resize(groups.size());
    for (std::size_t i = 0; i < groups.size(); ++i) {
      sum[i].samples_min = groups[i].samples_min;
      sum[i].samples_max = groups[i].samples_max;
      sum[i].queries += groups[i].queries;
      sum[i].late += groups[i].late;
      sum[i].never += groups[i].never;
    }
  }
  return sum;
}

// The sizes of slices that the experiment knows, smallest first, as `counts` has them.
report::Json slices_json(const std::vector<int>& counts) {
  constexpr const char* kNames[] = {"1g", "2g", "3g", "4g", "7g"};
  report::Json json = report::Json::object();
  for (std::size_t i = 0; i < std::min(counts.size(), std::size(kNames)); ++i) json[kNames[i]] = counts[i];
  return json;
}

// Who is late, over all seeds. `never`: not answered at all.
report::Json late_json(const Row& row, Rate rate) {
  report::Json json = report::Json::array();
  for (const auto& group : late_groups(row, rate)) {
    const auto queries = static_cast<double>(std::max<std::uint64_t>(1, group.queries));
    json.push_back({{"samples_min", group.samples_min},
                    {"samples_max", group.samples_max},
                    {"queries", group.queries},
                    {"late_share", static_cast<double>(group.late) / queries},
                    {"never_share", static_cast<double>(group.never) / queries}});
  }
  return json;
}

// Adds the rate by one criterion, and what queries saw at it: latencies of the worst seed, null where infinite.
void add_rate(const Row& row, Rate rate, report::Json* json) {
  (*json)["qps"] = row.qps(rate);
  report::Json seeds = report::Json::array();
  for (const auto& result : row.by_seed) seeds.push_back((result.*rate).qps);
  (*json)["qps_by_seed"] = std::move(seeds);
  const auto add_latency = [&](const char* key, double ParisElsaRate::*latency_ms) {
    const double worst = worst_of(row, rate, latency_ms);
    (*json)[key] = row.qps(rate) > 0 && std::isfinite(worst) ? report::Json(worst) : report::Json(nullptr);
  };
  add_latency("p50_ms", &ParisElsaRate::p50_ms);
  add_latency("p95_ms", &ParisElsaRate::p95_ms);
  add_latency("p99_ms", &ParisElsaRate::p99_ms);
  add_latency("p999_ms", &ParisElsaRate::p999_ms);
  (*json)["busy_share"] = (row.by_seed.front().*rate).busy_share;
  (*json)["late_by_samples"] = late_json(row, rate);
}

report::Json row_json(const Row& row) {
  const ParisElsaResult& first = row.by_seed.front();
  report::Json json{{"partitioning", row.cell.partitioning}, {"policy", row.cell.policy}};
  add_rate(row, kRate, &json);
  json["capacity_qps"] = first.capacity_qps;
  if (row.cell.single || row.cell.merge || row.elastic()) json["merge"] = row.cell.merge;
  if (row.elastic()) {
    json["bound_qps"] = first.bound_qps;
    json["share_of_bound"] =
        first.bound_qps > 0 ? report::Json(row.qps(kRate) / first.bound_qps) : report::Json(nullptr);
  }
  if (const auto reference = paris_elsa_reference(row.cell)) json["reference_qps"] = *reference;
  json["slices"] = slices_json(first.counts);
  json["strict"] = report::Json::object();
  add_rate(row, kStrict, &json["strict"]);
  return json;
}

// Everything about one setting. The seed, the number of queries and the commit make the figures repeatable.
report::Json setting_json(const Grid& grid, std::size_t s, const std::string& commit) {
  report::Json results = report::Json::array();
  report::Json batching = report::Json::array();
  report::Json merged = report::Json::array();
  report::Json rejecting = report::Json::array();
  double slo_ms = 0;
  for (const auto& row : grid.rows()) {
    if (row.setting != s) continue;
    slo_ms = row.by_seed.front().slo_ms;
    // Our merged cut belongs to the results; the merged runs of other cuts are a list of their own.
    const bool other_merged = row.cell.merge && !row.elastic();
    (row.cell.single                     ? batching
     : row.cell.late_limit != kLateLimit ? rejecting
     : other_merged                      ? merged
                                         : results)
        .push_back(row_json(row));
  }
  const ParisElsaSetting& setting = grid.settings()[s];
  report::Json json{{"model", setting.model},
                    {"mu", setting.mu},
                    {"sigma", setting.sigma},
                    {"compute_slices", setting.compute_slices},
                    {"slo_ms", slo_ms},
                    {"seed", kFirstSeed},
                    {"seeds", grid.rows().front().by_seed.size()},
                    {"queries", grid.queries()},
                    {"commit", commit},
                    {"late_limit", kLateLimit},
                    {"results", std::move(results)},
                    {"late_limit_1", std::move(rejecting)}};
  if (!merged.empty()) json["merged"] = std::move(merged);
  if (!batching.empty()) json["single_samples"] = std::move(batching);
  return json;
}

// A rate of 0 means that the cell fails even at a trickle.
std::string qps_text(double qps) { return qps > 0 ? fmt::format("{:.0f}", qps) : "infeasible"; }

std::string setting_text(const ParisElsaSetting& setting) {
  return fmt::format("{}, {} slices, mu {:.1f}, sigma {:.1f}", setting.model, setting.compute_slices, setting.mu,
                     setting.sigma);
}

// The setting is shown in the first row of its group only.
report::Cell setting_cell(const ParisElsaSetting& setting, bool first) {
  return {first ? setting_text(setting) : "", Style::accent};
}

// "elsa 2300, ours x1.002"; an infeasible reference is only met by an infeasible answer.
std::string reference_text(const Row& row) {
  const auto reference = paris_elsa_reference(row.cell);
  if (!reference) return "";
  const double ours = row.qps(kRate);
  if (*reference == 0) return fmt::format("{} infeasible, ours {}", row.cell.policy, ours == 0 ? "too" : "not");
  return fmt::format("{} {:.0f}, ours x{:.3f}", row.cell.policy, *reference, ours / *reference);
}

// "x1.064 (1.062)": the mean and the worst seed.
report::Cell ratio_cell(const Ratio& ratio, double least) {
  if (ratio.mean == 0) return {""};
  return {fmt::format("x{:.3f} ({:.3f})", ratio.mean, ratio.worst), ratio.worst >= least ? Style::good : Style::bad};
}

report::Table published_table(const Grid& grid) {
  report::Table table({{"SETTING"},
                       {"CUT"},
                       {"CAPACITY", Align::right},
                       {"FIFS", Align::right},
                       {"ELSA", Align::right},
                       {"TANGRAM", Align::right},
                       {"TANGRAM/ELSA", Align::right},
                       {"STRICT: ELSA", Align::right},
                       {"TANGRAM", Align::right},
                       {"TANGRAM/ELSA", Align::right},
                       {"REFERENCE"}});
  for (std::size_t s = 0; s < grid.settings().size(); ++s) {
    for (const auto& partitioning : paris_elsa_partitionings()) {
      std::vector<std::string> references;
      for (const char* policy : kPolicies) {
        auto text = reference_text(grid.at(s, {partitioning, {policy}}));
        if (!text.empty()) references.push_back(std::move(text));
      }
      const Row& fifs = grid.at(s, {partitioning, {"fifs"}});
      const Row& elsa = grid.at(s, {partitioning, {"elsa"}});
      const Row& tangram = grid.at(s, {partitioning, {"tangram"}});
      table.add({setting_cell(grid.settings()[s], partitioning == paris_elsa_partitionings().front()), partitioning,
                 qps_text(elsa.by_seed.front().capacity_qps), qps_text(fifs.qps(kRate)), qps_text(elsa.qps(kRate)),
                 qps_text(tangram.qps(kRate)), ratio_cell(ratio_of(tangram, elsa, kRate), 1),
                 qps_text(elsa.qps(kStrict)), qps_text(tangram.qps(kStrict)),
                 ratio_cell(ratio_of(tangram, elsa, kStrict), 1), text::join(references, "; ")});
    }
  }
  return table;
}

// The same with the default of a service, `late_limit: 1`.
report::Table rejecting_table(const Grid& grid) {
  report::Table table({{"SETTING"},
                       {"CUT"},
                       {"ELSA", Align::right},
                       {"TANGRAM", Align::right},
                       {"TANGRAM/ELSA", Align::right},
                       {"STRICT: ELSA", Align::right},
                       {"TANGRAM", Align::right},
                       {"TANGRAM/ELSA", Align::right}});
  for (std::size_t s = 0; s < grid.settings().size(); ++s) {
    for (const auto& partitioning : paris_elsa_partitionings()) {
      const Row& elsa = grid.at(s, {partitioning, {"elsa"}});
      const Row& tangram = grid.at(s, {partitioning, {"tangram"}, false, kLateLimitDefault});
      table.add({setting_cell(grid.settings()[s], partitioning == paris_elsa_partitionings().front()), partitioning,
                 qps_text(elsa.qps(kRate)), qps_text(tangram.qps(kRate)), ratio_cell(ratio_of(tangram, elsa, kRate), 1),
                 qps_text(elsa.qps(kStrict)), qps_text(tangram.qps(kStrict)),
                 ratio_cell(ratio_of(tangram, elsa, kStrict), 1)});
    }
  }
  return table;
}

// "0.1 0.1 0.2 0.5 2.5 40.3": percent of the queries of each group that were not answered in time.
std::string late_text(const Row& row, Rate rate) {
  std::vector<std::string> shares;
  for (const auto& group : late_groups(row, rate)) {
    const auto queries = static_cast<double>(std::max<std::uint64_t>(1, group.queries));
    shares.push_back(fmt::format("{:.1f}", 100 * static_cast<double>(group.late + group.never) / queries));
  }
  return text::join(shares, " ");
}

// Latencies in Slos and who is late, at the rates of PARIS's cuts.
report::Table late_table(const Grid& grid) {
  report::Table table({{"SETTING"},
                       {"POLICY"},
                       {"CRITERION"},
                       {"RATE", Align::right},
                       {"P50", Align::right},
                       {"P95", Align::right},
                       {"P99", Align::right},
                       {"P99.9", Align::right},
                       {"LATE BY SAMPLES 1, 2, 4, 8, 16, 32 (%)"}});
  for (std::size_t s = 0; s < grid.settings().size(); ++s) {
    bool first = true;
    for (const char* policy : {"elsa", "tangram"}) {
      const Row& row = grid.at(s, {"paris", {policy}});
      for (const auto& [name, rate] : {std::pair{"p99", kRate}, {"p99.9", kStrict}}) {
        if (row.qps(rate) == 0) continue;
        const auto slos = [&](double ParisElsaRate::*latency_ms) {
          const double worst = worst_of(row, rate, latency_ms) / row.by_seed.front().slo_ms;
          return std::isfinite(worst) ? fmt::format("{:.2f}", worst) : std::string("never");
        };
        table.add({setting_cell(grid.settings()[s], first), policy, name, qps_text(row.qps(rate)),
                   slos(&ParisElsaRate::p50_ms), slos(&ParisElsaRate::p95_ms), slos(&ParisElsaRate::p99_ms),
                   slos(&ParisElsaRate::p999_ms), late_text(row, rate)});
        first = false;
      }
    }
  }
  return table;
}

// Every cut and policy with queries merged into batches.
report::Table merged_table(const Grid& grid) {
  report::Table table({{"SETTING"},
                       {"CUT"},
                       {"FIFS", Align::right},
                       {"ELSA", Align::right},
                       {"TANGRAM", Align::right},
                       {"TANGRAM/ELSA", Align::right},
                       {"TANGRAM/FIFS", Align::right}});
  for (std::size_t s = 0; s < grid.settings().size(); ++s) {
    for (const auto& partitioning : paris_elsa_partitionings()) {
      const Row& fifs = grid.at(s, {partitioning, {"fifs", true}});
      const Row& elsa = grid.at(s, {partitioning, {"elsa", true}});
      const Row& tangram = grid.at(s, {partitioning, {"tangram", true}});
      table.add({setting_cell(grid.settings()[s], partitioning == paris_elsa_partitionings().front()), partitioning,
                 qps_text(fifs.qps(kRate)), qps_text(elsa.qps(kRate)), qps_text(tangram.qps(kRate)),
                 ratio_cell(ratio_of(tangram, elsa, kRate), 1), ratio_cell(ratio_of(tangram, fifs, kRate), 1)});
    }
  }
  return table;
}

// The best of the published cuts and policies in one setting, each query alone.
struct BestOther {
  const Row* row = nullptr;     // By the mean over seeds.
  Ratio ratio;                  // Of the elastic cut to the best of each seed.
  double homogeneous_fifs = 0;  // The best of the homogeneous cuts under fifs.
};

// Our own policy on a published cut counts as another, too: "elastic" has to gain by its cut.
BestOther best_other(const Grid& grid, std::size_t s, Rate rate) {
  const Row& elastic = grid.at(s, {kElastic, {"tangram", false}});
  BestOther best;
  std::vector<double> by_seed(elastic.by_seed.size(), 0);
  for (const auto& row : grid.rows()) {
    if (row.setting != s || row.cell.single || row.cell.merge || row.elastic()) continue;
    if (row.cell.late_limit != kLateLimit) continue;
    if (row.cell.policy == "fifs" && row.cell.partitioning.starts_with("homogeneous")) {
      best.homogeneous_fifs = std::max(best.homogeneous_fifs, row.qps(rate));
    }
    for (std::size_t i = 0; i < by_seed.size(); ++i) by_seed[i] = std::max(by_seed[i], (row.by_seed[i].*rate).qps);
    if (best.row == nullptr || row.qps(rate) > best.row->qps(rate)) best.row = &row;
  }
  if (best.row->qps(rate) == 0) return best;
  best.ratio = {elastic.qps(rate) / best.row->qps(rate), 1e9};
  for (std::size_t i = 0; i < by_seed.size(); ++i) {
    best.ratio.worst = std::min(best.ratio.worst, (elastic.by_seed[i].*rate).qps / by_seed[i]);
  }
  return best;
}

// The elastic cut of each setting beside the best that the others reach.
report::Table elastic_table(const Grid& grid) {
  report::Table table({{"SETTING"},
                       {"ELASTIC", Align::right},
                       {"BOUND", Align::right},
                       {"REACHED", Align::right},
                       {"BEST OTHER", Align::right},
                       {"BY"},
                       {"ELASTIC/BEST", Align::right},
                       {"STRICT: ELASTIC", Align::right},
                       {"ELASTIC/BEST", Align::right},
                       {"/HOMOGENEOUS+FIFS", Align::right},
                       {"MERGED", Align::right},
                       {"/ELSA MERGED", Align::right},
                       {"BOUND/ELSA MERGED", Align::right}});
  const auto ratio = [](double a, double b) { return b > 0 ? fmt::format("x{:.3f}", a / b) : std::string("-"); };
  for (std::size_t s = 0; s < grid.settings().size(); ++s) {
    const Row& alone = grid.at(s, {kElastic, {"tangram", false}});
    const Row& merged = grid.at(s, {kElastic, {"tangram", true}});
    const double elsa_merged = grid.at(s, {"paris", {"elsa", true}}).qps(kRate);
    // The bound depends on the run times alone, so every seed has the same.
    const double bound = alone.by_seed.front().bound_qps;
    const BestOther best = best_other(grid, s, kRate);
    const BestOther strict = best_other(grid, s, kStrict);
    table.add({{setting_text(grid.settings()[s]), Style::accent},
               qps_text(alone.qps(kRate)),
               qps_text(bound),
               report::percent_text(bound > 0 ? alone.qps(kRate) / bound : 0),
               qps_text(best.row->qps(kRate)),
               best.row->cell.partitioning + " + " + best.row->cell.policy,
               ratio_cell(best.ratio, 0.99),
               qps_text(alone.qps(kStrict)),
               ratio_cell(strict.ratio, 0.99),
               ratio(alone.qps(kRate), best.homogeneous_fifs),
               qps_text(merged.qps(kRate)),
               ratio(merged.qps(kRate), elsa_merged),
               ratio(merged.by_seed.front().bound_qps, elsa_merged)});
  }
  return table;
}

report::Table batching_table(const Grid& grid) {
  std::vector<report::Column> columns{{"SETTING"}, {"CUT"}};
  for (const auto& dispatch : kBatching) {
    columns.push_back({text::lower(dispatch.policy) + (dispatch.merge ? "+batching" : ""), Align::right});
  }
  columns.push_back({"tangram/elsa", Align::right});
  report::Table table(std::move(columns));
  for (std::size_t s = 0; s < grid.settings().size(); ++s) {
    bool first = true;
    for (const auto& partitioning : paris_elsa_partitionings()) {
      const Row* elsa = grid.find(s, {partitioning, {"elsa", false}, true});
      // A cut that an earlier setting has already shown.
      if (elsa == nullptr) continue;
      std::vector<report::Cell> cells{setting_cell(grid.settings()[s], first), partitioning};
      first = false;
      for (const auto& dispatch : kBatching) {
        cells.emplace_back(qps_text(grid.at(s, {partitioning, dispatch, true}).qps(kRate)));
      }
      const double tangram = grid.at(s, {partitioning, {"tangram", true}, true}).qps(kRate);
      cells.emplace_back(elsa->qps(kRate) > 0 ? fmt::format("x{:.2f}", tangram / elsa->qps(kRate)) : "");
      table.add(std::move(cells));
    }
  }
  return table;
}

}  // namespace

Result<Answer> reproduce_paris_elsa(const ParisElsaInput& input, Runner& runner) {
  TANGRAM_TRY(const auto measurements, measurements_of("parvagpu", input.profiles));
  Grid grid(paris_elsa_settings(measurements), input.full, static_cast<std::size_t>(input.seeds));
  note_missing(runner, measurements, grid.settings());
  grid.run(runner, measurements);
  Answer answer;
  for (std::size_t s = 0; s < grid.settings().size(); ++s) answer.json.push_back(setting_json(grid, s, input.commit));
  answer.sections.push_back(
      {"Highest rate in queries/s with p95 within the promise and p99 within three; queries hold several samples and\n"
       "run alone. STRICT: p99.9 within three as well. CAPACITY: no policy serves more for ever. Rates are means over\n"
       "seeds; the worst seed is in brackets.\n\n",
       published_table(grid)});
  answer.sections.push_back(
      {"\nThe same where `tangram` serves under the default of a service, `late_limit: 1`: a query is rejected as soon as\n"
       "it cannot be in time, and counts as never answered. `elsa` rejects none.\n\n",
       rejecting_table(grid)});
  answer.sections.push_back(
      {"\nLatencies in promises, of the worst seed, and who is late on PARIS's cuts at these rates.\n\n",
       late_table(grid)});
  answer.sections.push_back(
      {"\nThe cut found for `tangram` on the same budget. BOUND: the budget over the least compute-slice seconds of a\n"
       "query. MERGED: queries may share batches; the last two columns compare it, and the bound, with PARIS and ELSA\n"
       "that merge too.\n\n",
       elastic_table(grid)});
  if (!input.full) return answer;
  answer.sections.push_back({"\nAll cuts and policies with queries merged into batches.\n\n", merged_table(grid)});
  answer.sections.push_back(
      {"\nThe same with queries of one sample, which policies may batch.\n\n", batching_table(grid)});
  return answer;
}

}  // namespace tangram::experiments
