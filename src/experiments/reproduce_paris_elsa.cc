// The tables of PARIS and ELSA: every cut of the budget under every policy, and the cut that we would make.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

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

// The tables show the first seed; further ones only show how much it matters.
constexpr std::uint64_t kFirstSeed = 7;
constexpr const char* kElastic = "elastic";

// One dispatch policy, with or without dynamic batching.
struct Dispatch {
  const char* policy;
  bool merge = false;
};
constexpr const char* kPolicies[] = {"fifs", "elsa", "tangram"};
// For queries of one sample, as most services have them.
constexpr Dispatch kBatching[] = {{"elsa", false},     {"fifs", true}, {"edf", true},
                                  {"clockwork", true}, {"elsa", true}, {"tangram", true}};

// One row of the answer: a cell under every seed.
struct Row {
  std::size_t setting = 0;
  ParisElsaCell cell;
  std::vector<ParisElsaResult> by_seed;

  double qps() const { return by_seed.front().qps; }
  bool elastic() const { return cell.partitioning == kElastic; }
};

// Which row of a setting is meant.
struct RowKey {
  std::string partitioning;
  Dispatch dispatch;
  bool single = false;
};

// All rows, by setting, in the order in which they run and appear in the JSON.
class Grid {
 public:
  Grid(std::vector<ParisElsaSetting> settings, bool full, std::size_t seeds)
      : settings_(std::move(settings)), seeds_(seeds) {
    for (std::size_t s = 0; s < settings_.size(); ++s) {
      add_published(s);
      if (full) add_single_samples(s);
    }
  }

  const std::vector<ParisElsaSetting>& settings() const { return settings_; }
  const std::vector<Row>& rows() const { return rows_; }

  void run(Runner& runner, const Measurements& measurements) {
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
          row.cell.policy == key.dispatch.policy && row.cell.partitioning == key.partitioning) {
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
    rows_.push_back({s, std::move(cell), std::vector<ParisElsaResult>(seeds_)});
  }

  void add_published(std::size_t s) {
    for (const auto& partitioning : paris_elsa_partitionings()) {
      for (const char* policy : kPolicies) add(s, {partitioning, {policy, false}});
    }
    // Ours: cut for the policy that runs on it; each query alone, and with queries merged into batches.
    add(s, {kElastic, {"tangram", false}});
    add(s, {kElastic, {"tangram", true}});
    for (const auto& partitioning : paris_elsa_partitionings()) {
      for (const char* policy : kPolicies) add(s, {partitioning, {policy, true}});
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

// The sizes of slices that the experiment knows, smallest first, as `counts` has them.
report::Json slices_json(const std::vector<int>& counts) {
  constexpr const char* kNames[] = {"1g", "2g", "3g", "4g", "7g"};
  report::Json json = report::Json::object();
  for (std::size_t i = 0; i < std::min(counts.size(), std::size(kNames)); ++i) json[kNames[i]] = counts[i];
  return json;
}

report::Json row_json(const Row& row) {
  const ParisElsaResult& first = row.by_seed.front();
  report::Json json{{"partitioning", row.cell.partitioning}, {"policy", row.cell.policy}, {"qps", first.qps}};
  if (row.cell.single || row.cell.merge || row.elastic()) json["merge"] = row.cell.merge;
  if (row.elastic()) {
    json["bound_qps"] = first.bound_qps;
    json["share_of_bound"] = first.bound_qps > 0 ? report::Json(first.qps / first.bound_qps) : report::Json(nullptr);
  }
  if (const auto reference = paris_elsa_reference(row.cell)) json["reference_qps"] = *reference;
  json["slices"] = slices_json(first.counts);
  // An infeasible cell has no rate at which a latency could be read.
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

// Everything about one setting. The seed, the number of queries and the commit make the figures repeatable.
report::Json setting_json(const Grid& grid, std::size_t s, const std::string& commit) {
  report::Json results = report::Json::array();
  report::Json batching = report::Json::array();
  report::Json merged = report::Json::array();
  double slo_ms = 0;
  for (const auto& row : grid.rows()) {
    if (row.setting != s) continue;
    slo_ms = row.by_seed.front().slo_ms;
    // Our merged cut belongs to the results; the merged runs of other cuts are a list of their own.
    const bool other_merged = row.cell.merge && !row.elastic();
    (row.cell.single ? batching : other_merged ? merged : results).push_back(row_json(row));
  }
  const ParisElsaSetting& setting = grid.settings()[s];
  report::Json json{{"model", setting.model},
                    {"mu", setting.mu},
                    {"sigma", setting.sigma},
                    {"compute_slices", setting.compute_slices},
                    {"slo_ms", slo_ms},
                    {"seed", kFirstSeed},
                    {"queries", ParisElsaCell{}.queries},
                    {"commit", commit},
                    {"results", std::move(results)}};
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
  const double ours = row.qps();
  if (*reference == 0) return fmt::format("{} infeasible, ours {}", row.cell.policy, ours == 0 ? "too" : "not");
  return fmt::format("{} {:.0f}, ours x{:.3f}", row.cell.policy, *reference, ours / *reference);
}

report::Table published_table(const Grid& grid) {
  report::Table table({{"SETTING"},
                       {"CUT"},
                       {"FIFS", Align::right},
                       {"ELSA", Align::right},
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
      const double fifs = grid.at(s, {partitioning, {"fifs"}}).qps();
      const double elsa = grid.at(s, {partitioning, {"elsa"}}).qps();
      const double tangram = grid.at(s, {partitioning, {"tangram"}}).qps();
      table.add({setting_cell(grid.settings()[s], partitioning == paris_elsa_partitionings().front()),
                 partitioning,
                 qps_text(fifs),
                 qps_text(elsa),
                 qps_text(tangram),
                 {elsa > 0 ? fmt::format("x{:.3f}", tangram / elsa) : "", tangram >= elsa ? Style::good : Style::bad},
                 text::join(references, "; ")});
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
                       {"TANGRAM/ELSA", Align::right}});
  for (std::size_t s = 0; s < grid.settings().size(); ++s) {
    for (const auto& partitioning : paris_elsa_partitionings()) {
      const double fifs = grid.at(s, {partitioning, {"fifs", true}}).qps();
      const double elsa = grid.at(s, {partitioning, {"elsa", true}}).qps();
      const double tangram = grid.at(s, {partitioning, {"tangram", true}}).qps();
      table.add({setting_cell(grid.settings()[s], partitioning == paris_elsa_partitionings().front()), partitioning,
                 qps_text(fifs), qps_text(elsa), qps_text(tangram),
                 elsa > 0 ? fmt::format("x{:.3f}", tangram / elsa) : ""});
    }
  }
  return table;
}

// The best of the published cuts and policies in one setting, each query alone.
struct BestOther {
  double qps = 0;
  std::string by;
  double homogeneous_fifs = 0;  // The best of the homogeneous cuts under fifs.
};

// Our own policy on a published cut counts as another, too: "elastic" has to gain by its cut.
BestOther best_other(const Grid& grid, std::size_t s) {
  BestOther best;
  for (const auto& row : grid.rows()) {
    if (row.setting != s || row.cell.single || row.cell.merge || row.elastic()) continue;
    if (row.cell.policy == "fifs" && row.cell.partitioning.starts_with("homogeneous")) {
      best.homogeneous_fifs = std::max(best.homogeneous_fifs, row.qps());
    }
    if (row.qps() <= best.qps) continue;
    best.qps = row.qps();
    best.by = row.cell.partitioning + " + " + row.cell.policy;
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
                       {"/HOMOGENEOUS+FIFS", Align::right},
                       {"MERGED", Align::right},
                       {"/ELSA MERGED", Align::right},
                       {"BOUND/ELSA MERGED", Align::right}});
  const auto ratio = [](double a, double b) { return b > 0 ? fmt::format("x{:.3f}", a / b) : std::string("-"); };
  for (std::size_t s = 0; s < grid.settings().size(); ++s) {
    const Row& alone = grid.at(s, {kElastic, {"tangram", false}});
    const Row& merged = grid.at(s, {kElastic, {"tangram", true}});
    // The published combination, given the same freedom to merge queries.
    const double elsa_merged = grid.at(s, {"paris", {"elsa", true}}).qps();
    // The bound depends on the run times alone, so every seed has the same.
    const double bound = alone.by_seed.front().bound_qps;
    const BestOther best = best_other(grid, s);
    table.add({{setting_text(grid.settings()[s]), Style::accent},
               qps_text(alone.qps()),
               qps_text(bound),
               report::percent_text(bound > 0 ? alone.qps() / bound : 0),
               qps_text(best.qps),
               best.by,
               {ratio(alone.qps(), best.qps), alone.qps() >= 0.99 * best.qps ? Style::good : Style::bad},
               ratio(alone.qps(), best.homogeneous_fifs),
               qps_text(merged.qps()),
               ratio(merged.qps(), elsa_merged),
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
        cells.emplace_back(qps_text(grid.at(s, {partitioning, dispatch, true}).qps()));
      }
      const double tangram = grid.at(s, {partitioning, {"tangram", true}, true}).qps();
      cells.emplace_back(elsa->qps() > 0 ? fmt::format("x{:.2f}", tangram / elsa->qps()) : "");
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
      {"Highest rate in queries/s with p95 within the promise; queries have several samples and run alone.\n\n",
       published_table(grid)});
  answer.sections.push_back(
      {"\nThe cut found for `tangram` on the same budget. BOUND: the budget over the least compute-slice seconds of a\n"
       "query. MERGED: queries may share batches; the last two columns compare it, and the bound, with PARIS and ELSA\n"
       "that merge too.\n\n",
       elastic_table(grid)});
  answer.sections.push_back({"\nAll cuts and policies with queries merged into batches.\n\n", merged_table(grid)});
  if (!input.full) return answer;
  answer.sections.push_back(
      {"\nThe same with queries of one sample, which policies may batch.\n\n", batching_table(grid)});
  return answer;
}

}  // namespace tangram::experiments
