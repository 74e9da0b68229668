// `tangram reproduce pollux`: jobs of the published workloads on 16 nodes of 4 GPUs, under three allocators.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>

#include "cli/parallel.h"
#include "report/table.h"
#include "cli/verbs/reproduce_training.h"
#include "lab/pollux.h"

namespace tangram::cli {
namespace {

// What Pollux published for its own workloads, in seconds. A file of the same name with another number of jobs is
// another workload.
constexpr std::size_t kPublishedJobs = 160;
const std::map<std::string, double> kPublished{
    {"workload-1", 2089}, {"workload-2", 3323}, {"workload-3", 2188}, {"workload-4", 2721}};
constexpr double kIntervals_s[] = {30, 120, 240, 480};
constexpr double kInterferences[] = {0, 0.25, 0.5};

struct Row {
  std::size_t workload = 0;
  lab::PolluxRun run;
  lab::PolluxResult result{};
};

lab::PolluxRun run_of(const TrainingWorkload& workload, const std::string& allocator, const TrainingOptions& options) {
  lab::PolluxRun run;
  run.workload = workload.name;
  run.allocator = allocator;
  if (options.quick) run.options.population = run.options.generations = 30;
  return run;
}

std::vector<Row> rows_of(const std::vector<TrainingWorkload>& workloads, const TrainingOptions& options) {
  std::vector<Row> rows;
  // The searches first: they take longest.
  for (std::size_t w = 0; w < workloads.size(); ++w) rows.push_back({w, run_of(workloads[w], "pollux", options)});
  for (std::size_t w = 0; w < workloads.size(); ++w) {
    for (const char* allocator : {"optimus", "tiresias", "tangram"}) {
      rows.push_back({w, run_of(workloads[w], allocator, options)});
    }
    if (!options.full) continue;
    for (const double interval_s : kIntervals_s) {
      rows.push_back({w, run_of(workloads[w], "pollux", options)});
      rows.back().run.interval_s = interval_s;
    }
    for (const double interference : kInterferences) {
      rows.push_back({w, run_of(workloads[w], "pollux", options)});
      rows.back().run.interference = interference;
      rows.back().run.spread_apart = false;
    }
  }
  return rows;
}

// "none": the allocator keeps jobs of several nodes apart, so nothing interferes. "0.25": it does not, and where two
// meet, both run so much slower.
std::string interference_text(const lab::PolluxRun& run) {
  return run.spread_apart ? "none" : fmt::format("{:.2f}", run.interference);
}

// Workload, allocator, interval and interference tell every row from the others: jobs that are not kept apart and yet
// do not slow each other down have the figures of "pollux_together".
std::string allocator_key(const lab::PolluxRun& run) {
  return run.spread_apart || run.interference > 0 ? run.allocator : run.allocator + "_together";
}

report::Json row_json(const Row& row) {
  return {{"workload", row.run.workload},       {"allocator", allocator_key(row.run)},
          {"interval_s", row.run.interval_s},   {"interference", row.run.interference},
          {"kept_apart", row.run.spread_apart}, {"jct_mean_s", row.result.jct_mean_s}};
}

std::string reference_text(const Row& row) {
  const auto found = kPublished.find(row.run.workload);
  const bool published = row.run.allocator == "pollux" && row.run.interval_s == 60 && row.run.spread_apart &&
                         row.result.jcts_s.size() == kPublishedJobs;
  if (!published || found == kPublished.end()) return "";
  return fmt::format("{:.0f}, ours {:+.1f} %", found->second, 100 * (row.result.jct_mean_s / found->second - 1));
}

std::string table_of(const std::vector<Row>& rows, const Terminal& terminal) {
  report::Table table({{"WORKLOAD"},
               {"ALLOCATOR"},
               {"INTERVAL", report::Align::right},
               {"INTERFERENCE", report::Align::right},
               {"MEAN JCT", report::Align::right},
               {"RESTARTS/JOB", report::Align::right},
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
  return table.render(terminal);
}

// Which allocator ends the jobs of each workload soonest, and by how much.
std::string winners_of(const std::vector<Row>& rows) {
  std::map<std::string, std::vector<const Row*>> by_workload;
  for (const auto& row : rows) {
    if (row.run.interval_s == 60 && row.run.spread_apart) by_workload[row.run.workload].push_back(&row);
  }
  std::string text;
  for (auto& [workload, mine] : by_workload) {
    std::ranges::stable_sort(mine, {}, [](const Row* row) { return row->result.jct_mean_s; });
    const auto& best = *mine.front();
    const auto& next = *mine[std::min<std::size_t>(1, mine.size() - 1)];
    text += fmt::format("{}: jobs end soonest under {}, {:.1f} % before {}\n", workload, best.run.allocator,
                        100 * (1 - best.result.jct_mean_s / next.result.jct_mean_s), next.run.allocator);
  }
  return text;
}

}  // namespace

ExitCode reproduce_pollux(Session& session, const TrainingOptions& options) {
  const auto applications = load_training_applications(options.data);
  if (!applications) return session.fail(applications.error());
  const lab::PolluxRun usual;
  auto workloads = load_training_workloads(session, options.data, "pollux/workloads", "pollux", *applications,
                                           usual.nodes * usual.gpus_per_node);
  if (!workloads) return session.fail(workloads.error());
  if (options.quick) {
    const auto least = std::ranges::min_element(*workloads, {}, [](const auto& w) { return w.jobs.size(); });
    workloads = std::vector<TrainingWorkload>{*least};
  }
  auto rows = rows_of(*workloads, options);
  std::atomic<std::uint64_t> done = 0;
  Progress progress = session.progress("training", rows.size());
  run_all(
      rows.size(),
      [&](std::size_t i) {
        rows[i].result = lab::run_pollux(*applications, (*workloads)[rows[i].workload].jobs, rows[i].run);
        ++done;
      },
      [&] { progress.set(done); });
  for (const auto& [workload, run, result] : rows) {
    if (result.unfinished.empty()) continue;
    return session.fail(unfinished_error(*workloads, run.workload, result.unfinished, run.allocator));
  }
  std::ranges::stable_sort(rows, {}, &Row::workload);
  if (session.structured()) {
    report::Json list = report::Json::array();
    for (const auto& row : rows) list.push_back(row_json(row));
    session.print_value(list);
    return ExitCode::done;
  }
  session.print("Mean time from submission to completion, 16 nodes of 4 GPUs, 30 s for a restart.\n\n");
  session.print(table_of(rows, session.terminal));
  session.print("\n" + winners_of(rows));
  return ExitCode::done;
}

}  // namespace tangram::cli
