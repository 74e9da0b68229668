// The section `training` of a scenario, as it is written in the file.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "formats/describe.h"
#include "formats/problems.h"
#include "formats/source.h"
#include "lab/synthetic_training.h"
#include "lab/training_fleet.h"

namespace tangram::train {

template <typename Visitor>
void describe(Visitor& v, RestartKind& kind) {
  v.name("fast", kind, RestartKind::fast, "Workers that stay keep their process; only the process group is rebuilt.");
  v.name("full", kind, RestartKind::full, "Every change stops and starts the whole job.");
}

}  // namespace tangram::train

namespace tangram::lab {

std::vector<std::string> allocator_names();

struct ApplicationsFile {
  std::string path;
};
using ApplicationsSource = std::variant<ApplicationsFile, std::vector<SyntheticApplication>>;

struct JobsFile {
  std::string path;
};
using JobsSource = std::variant<JobsFile, SyntheticJobs>;

struct TrainingRecord {
  formats::Located<ApplicationsSource> applications;
  formats::Located<JobsSource> jobs;
  std::string allocator = "tangram";
  LendMode lend = LendMode::slices;
  int gpus_per_node = 4;
  double interval_s = 60;
  train::RestartKind restart = train::RestartKind::fast;
  double restart_full_s = 30;
  double restart_fast_s = 3;
  formats::Located<std::optional<std::string>> slice_speeds;
  Duration guard = sched::LendingConfig{}.guard;
  Duration rate_window = sched::LendingConfig{}.window;
  double overtime_s = 86400;
};

template <typename Visitor>
void describe(Visitor& v, LendMode& mode) {
  v.name("slices", mode, LendMode::slices,
         "Every slice that inference does not need at the moment, and the uncut part of devices.");
  v.name("whole_gpu", mode, LendMode::whole_gpu, "Only whole GPUs that inference does not need at the moment.");
}

template <typename Visitor>
void describe(Visitor& v, SyntheticApplication& c) {
  v.about(
      "Training application",
      "A step takes fixed_ms + sample_ms for each sample of a worker; synchronising takes sync_local_ms within a node "
      "and sync_nodes_ms between nodes, a tenth more for each worker beyond two.");
  constexpr formats::Limits kTime{.min = 0, .max = 1e6};
  v.field("name", c.name, {.required = true, .text = formats::TextRule::name}, "The name that jobs use.");
  v.field("epochs", c.epochs, {.min = 1, .max = 100000}, "The number of epochs of a job.");
  v.field("epoch_steps", c.epoch_steps, {.max = 1e9, .above = 0},
          "The number of steps of the smallest batch in an epoch.");
  v.field("batch_min", c.batch_min, {.min = 1, .max = 1e6}, "The smallest batch over all workers.");
  v.field("batch_max", c.batch_max, {.min = 1, .max = 1e8}, "The largest batch over all workers.");
  v.field("worker_batch_max", c.worker_batch_max, {.min = 1, .max = 1e6}, "The largest batch of one worker.");
  v.field("fixed_ms", c.fixed_ms, kTime, "The fixed time of a step.");
  v.field("sample_ms", c.sample_ms, {.max = 1e6, .above = 0}, "The time for each sample of a worker.");
  v.field("sync_local_ms", c.sync_local_ms, kTime, "The time to synchronise two workers of one node.");
  v.field("sync_nodes_ms", c.sync_nodes_ms, kTime, "The time to synchronise two workers of two nodes.");
  v.field("noise", c.noise, {.min = 0, .max = 1e9},
          "The gradient noise at the smallest batch, variance divided by squared norm; the larger, the more efficient "
          "large batches are.");
  v.field("restart_full_s", c.restart_full_s, kTime, "The time to stop, start and load everything.");
  v.field("restart_fast_s", c.restart_fast_s, kTime, "The time to rebuild the process group of workers that stay.");
  v.rule(c.batch_max >= c.batch_min, {"batch_max", "batch_min"}, "batch_max must be at least batch_min");
}

template <typename Visitor>
void describe(Visitor& v, ApplicationsSource& source) {
  v.plain(source, &ApplicationsFile::path, {},
          "The path of a training file, as `tangram import pollux` writes it from traces.");
  v.option("synthetic", source, std::vector<SyntheticApplication>{}, "A formula for each application.");
}

template <typename Visitor>
void describe(Visitor& v, SyntheticJobs& c) {
  v.about("Synthetic jobs", "Poisson arrivals, from the seed of the scenario.");
  v.field("count", c.count, {.min = 1, .max = 1e6, .required = true}, "The number of jobs.");
  v.field("gap_mean_s", c.gap_mean_s, {.max = 1e9, .above = 0, .required = true}, "The mean time between two jobs.");
  v.field("applications", c.applications,
          "The applications to draw from, uniformly; one that is listed twice is drawn twice as often. Default: all.");
}

template <typename Visitor>
void describe(Visitor& v, JobsSource& source) {
  v.plain(source, &JobsFile::path, {},
          "The path of a jobs file, or of a workload of Pollux or DeepBoot; only its training jobs are used.");
  v.option("synthetic", source, SyntheticJobs{}, "Generated jobs.");
}

template <typename Visitor>
void describe(Visitor& v, TrainingRecord& c) {
  v.about("Training", "Elastic training jobs on slices that inference does not need at the moment.");
  v.field("applications", c.applications, {.required = true},
          "The applications: the time of a step, and how well large batches work.");
  v.field("jobs", c.jobs, {.required = true}, "The jobs: their application and time of submission.");
  v.field("allocator", c.allocator, {.names = &allocator_names}, "The allocator: which job gets which GPUs.");
  v.field("lend", c.lend, "What inference lends.");
  v.field("gpus_per_node", c.gpus_per_node, {.min = 1, .max = 9},
          "The number of devices in a node, in the order of the plan.");
  v.field("interval_s", c.interval_s, {.min = 1, .max = 86400},
          "The longest time between two rounds of the allocator.");
  v.field("restart", c.restart, "The cost of a change of its GPUs for a job.");
  v.field("restart_full_s", c.restart_full_s, {.min = 0, .max = 1e6},
          "For applications from a file: the time to stop, start and load everything.");
  v.field("restart_fast_s", c.restart_fast_s, {.min = 0, .max = 1e6},
          "For applications from a file: the time to rebuild the process group.");
  v.field("slice_speeds", c.slice_speeds,
          "A measurements file of training on slices; its means give the speed of a slice relative to a whole GPU. "
          "Default: proportional to the compute slices.");
  v.field("guard_s", c.guard, {.min = 0, .max = 1e6}, "How long a service keeps slices after it last needed them.");
  v.field("rate_window_s", c.rate_window, {.min = 2, .max = 1e4},
          "The window in which the rates of services are measured.");
  v.field("overtime_s", c.overtime_s, {.min = 0, .max = 1e9},
          "The longest time that training continues after the last request; jobs that are still running then count as "
          "unfinished.");
}

// Reads the files that the section names. Null, with what is wrong added to `problems`, if it cannot be.
std::shared_ptr<const TrainingSetup> training_setup(const TrainingRecord& record, const formats::ReadFile& read_file,
                                                    std::uint64_t seed, formats::Problems& problems);

}  // namespace tangram::lab
