// The tables of DeepBoot: training on GPUs that inference lends, under DeepBoot, its baselines and ours.

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "experiments/inference_load.h"
#include "experiments/reproduce.h"
#include "experiments/shared_cluster.h"
#include "experiments/shared_cluster_page.h"
#include "experiments/training_workloads.h"

namespace tangram::experiments {
namespace {

using report::Align;
using report::Style;

constexpr int kSeedsUsual = 5;
constexpr const char* kBaseline = "baseline";

// One run. Rows refer to jobs and to their baseline by index, because both vectors grow while rows are added.
struct Row {
  std::string workload;
  SharedRun run;
  std::string options;
  std::size_t jobs = 0;      // Index into the sets of jobs.
  std::size_t baseline = 0;  // Index of the row to compare with.
  bool ablation = false;     // One part is taken out or exchanged; shown in a table of its own.
  SharedResult result{};

  // By how much the mean completion time is below that of the baseline; negative where it is above.
  double reduction(const std::vector<Row>& rows) const {
    return 1 - result.jct_mean_s / rows[baseline].result.jct_mean_s;
  }
};

using Jobs = std::vector<formats::ClusterJob>;

// A workload mixes training jobs and inference requests; the baseline runs the former alone.
Jobs training_of(const Jobs& jobs) {
  Jobs training;
  std::ranges::copy_if(jobs, std::back_inserter(training),
                       [](const auto& job) { return job.kind == formats::JobKind::training; });
  return training;
}

// The table of runs: which jobs, and under which policies.
class Runs {
 public:
  Runs(const DeepbootInput& input, const train::Applications& applications)
      : full_(input.full),
        quick_(input.quick),
        seeds_(input.seeds > 0 ? input.seeds
               : input.quick   ? 1
                               : kSeedsUsual) {
    // Synthetic requests are of the same kinds as the jobs, because those are the kinds with known costs.
    for (const auto& [name, application] : applications) kinds_.push_back(name);
  }

  // The runs of one workload: its baseline, the published ways with one seed, and ours with every seed.
  void add_workload(const TrainingWorkload& workload) {
    const Jobs training = training_of(workload.jobs);
    baseline_ = baseline_of(workload.name, training);
    // A workload without requests has only its baseline: there is nothing to share the cluster with.
    if (training.size() == workload.jobs.size()) return;
    jobs_.push_back(workload.jobs);
    add_published(workload.name);
    add_ours(workload.name, "whole_gpu", 1);
    for (int seed = 2; seed <= seeds_; ++seed) add_ours(workload.name, "whole_gpu", seed);
    add_ablations(workload.name, 1);
    if (training_.empty() || training.size() < training_.size()) training_ = training;
  }

  // Synthetic loads, for the training jobs of the smallest workload. Their seeds draw other arrivals.
  void add_heavier_loads() {
    if (training_.empty()) return;
    for (const auto& load : heavier_loads()) {
      for (int seed = 1; seed <= seeds_; ++seed) {
        // The same training jobs under every load, so that only inference differs.
        Jobs jobs = training_;
        std::ranges::move(make_inference(load, kinds_, static_cast<std::uint64_t>(seed)), std::back_inserter(jobs));
        jobs_.push_back(std::move(jobs));
        baseline_ = baseline_of(load.name, training_);
        add(load.name, deepboot_run(), "ATSI_AFE", seed);
        add_ours(load.name, "whole_gpu", seed);
        add_ours(load.name, "packed", seed);
        add_ablations(load.name, seed);
        // One seed is enough to see how completion times trade against waits.
        if (seed == 1) add_frontier(load.name);
      }
    }
  }

  const Jobs& jobs_of(const Row& row) const { return jobs_[row.jobs]; }

  std::vector<Row> rows;

 private:
  void add(const std::string& workload, SharedRun run, std::string options, int seed) {
    run.options.seed = static_cast<std::uint64_t>(seed);
    // A smaller genetic search for Pollux: a quick run only shows that everything works.
    if (quick_) run.options.population = run.options.generations = 20;
    rows.push_back({workload, std::move(run), std::move(options), jobs_.size() - 1, baseline_});
  }

  // The baseline: Pollux on half of the cluster, training alone, with full restarts. Equal jobs share one baseline,
  // because the run is long and its result the same.
  std::size_t baseline_of(const std::string& workload, const Jobs& training) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].options == kBaseline && jobs_[rows[i].jobs] == training) return i;
    }
    jobs_.push_back(training);
    SharedRun run = deepboot_run();
    run.allocator = "pollux";
    run.nodes /= 2;
    run.restart = train::RestartKind::full;
    baseline_ = rows.size();
    add(workload, run, kBaseline, 1);
    return baseline_;
  }

  // DeepBoot as published, then with one part replaced at a time: restarts, allocator, timer, keep-warm, reclaim. In
  // the names, ATSI is the timer that keeps replicas warm and AFE the fast restart.
  void add_published(const std::string& workload) {
    const SharedRun usual = deepboot_run();
    add(workload, usual, "ATSI_AFE", 1);
    if (quick_) return;
    SharedRun run = usual;
    run.restart = train::RestartKind::full;
    add(workload, run, "ATSI", 1);
    run.allocator = "pollux";
    add(workload, run, "ATSI", 1);
    run = usual;
    run.keep_warm.timer_factor = 8;
    add(workload, run, "ATSI_AFE_P8", 1);
    run = usual;
    run.keep_warm.kind = train::KeepWarmKind::none;
    add(workload, run, "AFE", 1);
    run = usual;
    run.reclaim = train::ReclaimKind::random;
    add(workload, run, "ATSI_AFE_RANDOM", 1);
    run.reclaim = train::ReclaimKind::server;
    add(workload, run, "ATSI_AFE_ARYL", 1);
    for (const char* allocator : {"pollux", "sia", "tiresias", "afs", "optimus"}) {
      run = usual;
      run.allocator = allocator;
      add(workload, run, "ATSI_AFE", 1);
    }
    run = usual;
    run.allocator = "aryl";
    run.reclaim = train::ReclaimKind::server;
    add(workload, run, "ATSI_AFE_ARYL", 1);
  }

  void add_ours(const std::string& workload, const std::string& warm, int seed) {
    SharedRun run = tangram_run();
    // "packed" keeps idle replicas on slices of a few GPUs, "whole_gpu" each on a GPU of its own.
    if (warm == "packed") run.packed.emplace();
    add(workload, run, warm, seed);
  }

  void add_ablations(const std::string& workload, int seed) {
    if (!full_) return;
    for (auto& ablated : ablated_runs()) {
      add(workload, std::move(ablated.run), std::move(ablated.options), seed);
      rows.back().ablation = true;
    }
  }

  // Each policy's own knob: how long DeepBoot guards, which wait ours aims at, how many GPUs it keeps in hand.
  void add_frontier(const std::string& workload) {
    if (!full_) return;
    for (const double factor : {0.25, 0.5, 2.0, 4.0, 8.0}) {
      SharedRun run = deepboot_run();
      run.keep_warm.timer_factor = factor;
      add(workload, run, fmt::format("ATSI_AFE_P{}", factor), 1);
    }
    for (const double wait_s : {0.25, 0.5, 0.75, 1.0, 2.5, 3.5}) {
      SharedRun run = tangram_run();
      run.keep_warm.wait_target_s = wait_s;
      add(workload, run, fmt::format("whole_gpu_wait{}", wait_s), 1);
    }
    for (const double margin : {0.0, 2.0, 3.0}) {
      SharedRun run = tangram_run();
      run.packed.emplace();
      run.packed->margin = margin;
      add(workload, run, fmt::format("packed_margin{}", margin), 1);
    }
  }

  bool full_;
  bool quick_;
  int seeds_;
  std::vector<std::string> kinds_;  // Names of applications.
  std::vector<Jobs> jobs_;
  Jobs training_;  // Of the smallest workload.
  std::size_t baseline_ = 0;
};

double jct_max_s(const SharedResult& result) {
  return result.jcts_s.empty() ? 0 : *std::ranges::max_element(result.jcts_s);
}

report::Json row_json(const Row& row, const std::vector<Row>& rows) {
  const SharedResult& r = row.result;
  return {{"workload", row.workload},
          {"allocator", row.run.allocator},
          {"options", row.options},
          {"seed", row.run.options.seed},
          {"jct_mean_s", r.jct_mean_s},
          {"jct_p99_s", r.jct_p99_s},
          {"jct_max_s", jct_max_s(r)},
          {"reduction_vs_baseline", row.reduction(rows)},
          {"restarts_per_job", r.restarts_per_job},
          {"reclaims", r.reclaims},
          {"inference_overhead_mean_s", r.overhead_mean_s},
          {"inference_overhead_p99_s", r.overhead_p99_s},
          {"gpu_utilisation", r.gpu_utilisation},
          {"ablation", row.ablation}};
}

report::Table table_of(const std::vector<Row>& rows) {
  report::Table table({{"WORKLOAD"},
                       {"ALLOCATOR"},
                       {"OPTIONS"},
                       {"SEED", Align::right},
                       {"MEAN JCT", Align::right},
                       {"P99 JCT", Align::right},
                       {"REDUCTION", Align::right},
                       {"RESTARTS/JOB", Align::right},
                       {"RECLAIMS", Align::right},
                       {"OVERHEAD", Align::right},
                       {"P99 OVERHEAD", Align::right},
                       {"GPU USE", Align::right}});
  for (const auto& row : rows) {
    if (row.ablation) continue;
    const SharedResult& r = row.result;
    const bool ours = row.run.allocator == "tangram";
    table.add({{row.workload, Style::accent},
               {row.run.allocator, ours ? Style::good : Style::plain},
               row.options,
               fmt::format("{}", row.run.options.seed),
               fmt::format("{:.0f} s", r.jct_mean_s),
               fmt::format("{:.0f} s", r.jct_p99_s),
               fmt::format("{:.1f} %", 100 * row.reduction(rows)),
               fmt::format("{:.1f}", r.restarts_per_job),
               fmt::format("{}", r.reclaims),
               fmt::format("{:.2f} s", r.overhead_mean_s),
               fmt::format("{:.1f} s", r.overhead_p99_s),
               fmt::format("{:.0f} %", 100 * r.gpu_utilisation)});
  }
  return table;
}

// Mean and worst over the seeds of each load and way of ours.
std::string summary_of(const std::vector<Row>& rows) {
  std::map<std::pair<std::string, std::string>, std::vector<double>> reductions;
  for (const auto& row : rows) {
    if (row.ablation) continue;
    if (row.run.allocator == "tangram") reductions[{row.workload, row.options}].push_back(row.reduction(rows));
  }
  std::string text;
  for (const auto& [key, values] : reductions) {
    // A mean and a worst case of one seed would say nothing.
    if (values.size() < 2) continue;
    double sum = 0;
    for (const double value : values) sum += value;
    text += fmt::format("{}, tangram {}: {:.1f} % over {} seeds, {:.1f} % in the worst\n", key.first, key.second,
                        100 * sum / static_cast<double>(values.size()), values.size(), 100 * std::ranges::min(values));
  }
  return text;
}

// One way of sharing a workload's cluster: the means over its seeds, so that no lucky seed represents it.
struct WayMeans {
  std::string name;
  double seeds = 0;
  double jct_mean_s = 0;
  double jct_p99_s = 0;
  double jct_max_s = 0;
  double reduction = 0;
  double overhead_mean_s = 0;
  double restarts_per_job = 0;

  void add(const Row& row, const std::vector<Row>& rows) {
    const SharedResult& result = row.result;
    seeds += 1;
    // A running mean, so that the number of seeds need not be known.
    const auto take = [&](double& mean, double value) { mean += (value - mean) / seeds; };
    take(jct_mean_s, result.jct_mean_s);
    take(jct_p99_s, result.jct_p99_s);
    take(jct_max_s, experiments::jct_max_s(result));
    take(reduction, row.reduction(rows));
    take(overhead_mean_s, result.overhead_mean_s);
    take(restarts_per_job, result.restarts_per_job);
  }
};

// By workload, in the order of the rows; those that share the cluster with inference and for which `wanted(row)`.
template <typename Wanted>
std::map<std::string, std::vector<WayMeans>> ways_of(const std::vector<Row>& rows, const Wanted& wanted) {
  std::map<std::string, std::vector<WayMeans>> ways;
  for (const auto& row : rows) {
    // The baseline runs without inference and is no way of sharing.
    if (row.result.overheads_s.empty() || !wanted(row)) continue;
    auto& mine = ways[row.workload];
    const std::string name = row.run.allocator + " " + row.options;
    auto found = std::ranges::find(mine, name, &WayMeans::name);
    if (found == mine.end()) found = mine.insert(mine.end(), WayMeans{.name = name});
    found->add(row, rows);
  }
  return ways;
}

// A line for each of our ways under which the p99 or the last completion time is above that of DeepBoot as published,
// because its better mean then has a price; "" where there is none.
std::string price_of(const std::vector<WayMeans>& ways) {
  const auto deepboot = std::ranges::find(ways, "deepboot ATSI_AFE", &WayMeans::name);
  if (deepboot == ways.end()) return "";
  std::string text;
  for (const auto& way : ways) {
    const bool ours = way.name == "tangram whole_gpu" || way.name == "tangram packed";
    if (!ours) continue;
    const double mean_more_s = way.jct_mean_s - deepboot->jct_mean_s;
    if (way.jct_p99_s > deepboot->jct_p99_s) {
      text += fmt::format("  {} trades p99 for mean: {:+.0f} s on average against deepboot, {:+.0f} s in the p99\n",
                          way.name, mean_more_s, way.jct_p99_s - deepboot->jct_p99_s);
    }
    if (way.jct_max_s > deepboot->jct_max_s) {
      text +=
          fmt::format("  {} trades the longest job for mean: {:+.0f} s on average against deepboot, {:+.0f} s for it\n",
                      way.name, mean_more_s, way.jct_max_s - deepboot->jct_max_s);
    }
  }
  return text;
}

// The best way for each measure, by the means over all seeds.
std::string winners_of(const std::vector<Row>& rows) {
  std::string text;
  for (const auto& [workload, mine] : ways_of(rows, [](const Row& row) { return !row.ablation; })) {
    const auto least = [&ways = mine](double WayMeans::*measure) -> const WayMeans& {
      return *std::ranges::min_element(ways, {}, measure);
    };
    const WayMeans& fastest = least(&WayMeans::jct_mean_s);
    const WayMeans& even = least(&WayMeans::jct_p99_s);
    const WayMeans& prompt = least(&WayMeans::overhead_mean_s);
    const WayMeans& calm = least(&WayMeans::restarts_per_job);
    text += fmt::format(
        "{}: the mean completion time is shortest under {} ({:.0f} s), the p99 under {} ({:.0f} s), the wait of "
        "requests under {} ({:.2f} s); jobs restart least under {} ({:.1f})\n",
        workload, fastest.name, fastest.jct_mean_s, even.name, even.jct_p99_s, prompt.name, prompt.overhead_mean_s,
        calm.name, calm.restarts_per_job);
    text += price_of(mine);
  }
  return text;
}

// What each part is worth: ours and DeepBoot as they are, then with one part changed, by the means over all seeds.
report::Table ablation_table(const std::vector<Row>& rows) {
  const auto wanted = [](const Row& row) {
    const bool usual = (row.run.allocator == "tangram" && row.options == "whole_gpu") ||
                       (row.run.allocator == "deepboot" && row.options == "ATSI_AFE");
    return row.ablation || usual;
  };
  report::Table table({{"WORKLOAD"},
                       {"ALLOCATOR AND OPTIONS"},
                       {"SEEDS", Align::right},
                       {"MEAN JCT", Align::right},
                       {"REDUCTION", Align::right},
                       {"P99 JCT", Align::right},
                       {"LONGEST JCT", Align::right},
                       {"OVERHEAD", Align::right},
                       {"RESTARTS/JOB", Align::right}});
  for (const auto& [workload, ways] : ways_of(rows, wanted)) {
    for (const auto& way : ways) {
      table.add({{workload, Style::accent},
                 way.name,
                 fmt::format("{:.0f}", way.seeds),
                 fmt::format("{:.0f} s", way.jct_mean_s),
                 fmt::format("{:.1f} %", 100 * way.reduction),
                 fmt::format("{:.0f} s", way.jct_p99_s),
                 fmt::format("{:.0f} s", way.jct_max_s),
                 fmt::format("{:.2f} s", way.overhead_mean_s),
                 fmt::format("{:.1f}", way.restarts_per_job)});
    }
  }
  return table;
}

// Every workload needs training jobs to have completion times. A quick run needs a workload that also has requests.
Result<Nothing> check_comparable(const std::vector<TrainingWorkload>& workloads, bool quick) {
  bool mixed = false;
  for (const auto& workload : workloads) {
    const std::size_t training = training_of(workload.jobs).size();
    if (training == 0) return Error{ErrorCode::invalid, workload.origin.path + ": has no training job, only requests"};
    mixed = mixed || training < workload.jobs.size();
  }
  if (mixed || !quick) return Nothing{};
  return Error{
      ErrorCode::invalid,
      workloads.front().origin.path +
          ": has no inference request, and neither have the other files; --quick runs the smallest workload that has "
          "some"};
}

std::string page_of(const std::vector<Row>& rows) {
  std::vector<SharedReportRow> report;
  for (const auto& row : rows) {
    if (row.ablation) continue;
    report.push_back({row.workload, row.run.allocator, row.options, row.run.options.seed, row.reduction(rows),
                      &row.result, row.run.nodes * row.run.gpus_per_node});
  }
  return shared_report_html(report);
}

// Which runs the workloads ask for. Where it has to be quick: those of the smallest workload that has requests.
Runs runs_of(const DeepbootInput& input, const train::Applications& applications,
             std::vector<TrainingWorkload>& workloads) {
  // The smallest first: a quick run takes the first workload that has requests.
  std::ranges::stable_sort(workloads, {}, [](const auto& w) { return w.jobs.size(); });
  Runs runs(input, applications);
  bool shared = false;
  for (const auto& workload : workloads) {
    const bool mixed = training_of(workload.jobs).size() < workload.jobs.size();
    if (input.quick && (shared || !mixed)) continue;
    runs.add_workload(workload);
    shared = shared || mixed;
  }
  if (!input.quick) runs.add_heavier_loads();
  return runs;
}

}  // namespace

Result<Answer> reproduce_deepboot(const DeepbootInput& input, Runner& runner) {
  TANGRAM_TRY(const auto applications, applications_of(input.traces));
  const SharedRun usual = deepboot_run();
  TANGRAM_TRY(auto workloads,
              workloads_of(input.workloads, {"deepboot", applications, usual.nodes * usual.gpus_per_node}, runner));
  TANGRAM_RETURN_IF_ERROR(check_comparable(workloads, input.quick));
  Runs runs = runs_of(input, applications, workloads);
  run_cells(runner, "sharing", runs.rows,
            [&](Row& row) { row.result = run_shared(applications, runs.jobs_of(row), row.run); });
  // One run that did not end makes all comparisons with it meaningless, so there is no partial answer.
  for (const auto& row : runs.rows) {
    if (row.result.unfinished.empty()) continue;
    const std::string under = row.run.allocator + " " + row.options;
    return unfinished_error(workloads, row.workload, row.result.unfinished, under);
  }
  Answer answer;
  for (const auto& row : runs.rows) answer.json.push_back(row_json(row, runs.rows));
  answer.sections.push_back(
      {"Training on 16 nodes of 4 GPUs shared with inference, compared with Pollux on 8 nodes without inference.\n\n",
       table_of(runs.rows)});
  answer.sections.push_back({"\n" + summary_of(runs.rows) + "\n" + winners_of(runs.rows)});
  if (input.full) {
    answer.sections.push_back(
        {"\nWhat each part is worth, by the means over all seeds:\n\n", ablation_table(runs.rows)});
  }
  if (input.page) answer.page = page_of(runs.rows);
  return answer;
}

}  // namespace tangram::experiments
