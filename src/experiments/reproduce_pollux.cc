// The tables of Pollux: jobs of the published workloads on 16 nodes of 4 GPUs, under four allocators.

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "experiments/pollux.h"
#include "experiments/reproduce.h"
#include "experiments/training_workloads.h"

namespace tangram::experiments {
namespace {

using report::Align;
using report::Style;

// What Pollux published for its own workloads, in seconds. A file of the same name with another number of jobs is
// another workload.
constexpr std::size_t kPublishedJobs = 160;
const std::map<std::string, double> kPublished{
    {"workload-1", 2089}, {"workload-2", 3323}, {"workload-3", 2188}, {"workload-4", 2721}};
constexpr double kIntervals_s[] = {30, 120, 240, 480};
constexpr double kInterferences[] = {0, 0.25, 0.5};

struct Row {
  std::size_t workload = 0;
  PolluxRun run;
  PolluxResult result{};
};

PolluxRun run_of(const TrainingWorkload& workload, const std::string& allocator, const PolluxInput& input) {
  PolluxRun run;
  run.workload = workload.name;
  run.allocator = allocator;
  if (input.quick) run.options.population = run.options.generations = 30;
  return run;
}

std::vector<Row> rows_of(const std::vector<TrainingWorkload>& workloads, const PolluxInput& input) {
  std::vector<Row> rows;
  // The searches first: they take longest.
  for (std::size_t w = 0; w < workloads.size(); ++w) rows.push_back({w, run_of(workloads[w], "pollux", input)});
  for (std::size_t w = 0; w < workloads.size(); ++w) {
    for (const char* allocator : {"optimus", "tiresias", "tangram"}) {
      rows.push_back({w, run_of(workloads[w], allocator, input)});
    }
    // How sensitive Pollux is to its interval and to interference between jobs.
    if (!input.full) continue;
    for (const double interval_s : kIntervals_s) {
      rows.push_back({w, run_of(workloads[w], "pollux", input)});
      rows.back().run.interval_s = interval_s;
    }
    for (const double interference : kInterferences) {
      rows.push_back({w, run_of(workloads[w], "pollux", input)});
      rows.back().run.interference = interference;
      rows.back().run.spread_apart = false;
    }
  }
  return rows;
}

// "none": the allocator keeps jobs of several nodes apart, so nothing interferes. "0.25": it does not, and where two
// meet, both run so much slower.
std::string interference_text(const PolluxRun& run) {
  return run.spread_apart ? "none" : fmt::format("{:.2f}", run.interference);
}

// Workload, allocator, interval and interference tell every row from the others: jobs that are not kept apart and yet
// do not slow each other down have the figures of "pollux_together".
std::string allocator_key(const PolluxRun& run) {
  return run.spread_apart || run.interference > 0 ? run.allocator : run.allocator + "_together";
}

report::Json row_json(const Row& row) {
  return {{"workload", row.run.workload},       {"allocator", allocator_key(row.run)},
          {"interval_s", row.run.interval_s},   {"interference", row.run.interference},
          {"kept_apart", row.run.spread_apart}, {"jct_mean_s", row.result.jct_mean_s}};
}

std::string reference_text(const Row& row) {
  const auto found = kPublished.find(row.run.workload);
  // Only the run with the published settings can be compared with the published figure.
  const bool published = row.run.allocator == "pollux" && row.run.interval_s == 60 && row.run.spread_apart &&
                         row.result.jcts_s.size() == kPublishedJobs;
  if (!published || found == kPublished.end()) return "";
  return fmt::format("{:.0f}, ours {:+.1f} %", found->second, 100 * (row.result.jct_mean_s / found->second - 1));
}

report::Table table_of(const std::vector<Row>& rows) {
  report::Table table({{"WORKLOAD"},
                       {"ALLOCATOR"},
                       {"INTERVAL", Align::right},
                       {"INTERFERENCE", Align::right},
                       {"MEAN JCT", Align::right},
                       {"RESTARTS/JOB", Align::right},
                       {"PUBLISHED"}});
  for (const auto& row : rows) {
    table.add({{row.run.workload, Style::accent},
               row.run.allocator,
               fmt::format("{:.0f} s", row.run.interval_s),
               interference_text(row.run),
               fmt::format("{:.0f} s", row.result.jct_mean_s),
               fmt::format("{:.1f}", row.result.restarts_per_job),
               reference_text(row)});
  }
  return table;
}

// Which allocator ends the jobs of each workload soonest, and by how much.
std::string winners_of(const std::vector<Row>& rows) {
  std::map<std::string, std::vector<const Row*>> by_workload;
  for (const auto& row : rows) {
    // Variations of the interval and of interference do not compete.
    if (row.run.interval_s == 60 && row.run.spread_apart) by_workload[row.run.workload].push_back(&row);
  }
  std::string text;
  for (auto& [workload, mine] : by_workload) {
    std::ranges::stable_sort(mine, {}, [](const Row* row) { return row->result.jct_mean_s; });
    const auto& best = *mine.front();
    const auto& next = *mine[std::min<std::size_t>(1, mine.size() - 1)];
    text += fmt::format("{}: the mean completion time is shortest under {}, {:.1f} % below {}\n", workload,
                        best.run.allocator, 100 * (1 - best.result.jct_mean_s / next.result.jct_mean_s),
                        next.run.allocator);
  }
  return text;
}

}  // namespace

Result<Answer> reproduce_pollux(const PolluxInput& input, Runner& runner) {
  TANGRAM_TRY(const auto applications, applications_of(input.traces));
  const PolluxRun usual;
  auto workloads = workloads_of(input.workloads, {"pollux", applications, usual.nodes * usual.gpus_per_node}, runner);
  if (!workloads) return workloads.error();
  if (input.quick) {
    const auto least = std::ranges::min_element(*workloads, {}, [](const auto& w) { return w.jobs.size(); });
    workloads = std::vector<TrainingWorkload>{*least};
  }
  auto rows = rows_of(*workloads, input);
  run_cells(runner, "training", rows,
            [&](Row& row) { row.result = run_pollux(applications, (*workloads)[row.workload].jobs, row.run); });
  for (const auto& [workload, run, result] : rows) {
    if (result.unfinished.empty()) continue;
    return unfinished_error(*workloads, run.workload, result.unfinished, run.allocator);
  }
  // Rows ran longest first; the table is by workload.
  std::ranges::stable_sort(rows, {}, &Row::workload);
  Answer answer;
  for (const auto& row : rows) answer.json.push_back(row_json(row));
  answer.sections.push_back(
      {"Mean time from submission to completion, 16 nodes of 4 GPUs, 30 s for a restart.\n\n", table_of(rows)});
  answer.sections.push_back({"\n" + winners_of(rows)});
  return answer;
}

}  // namespace tangram::experiments
