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
  v.name("fast", kind, RestartKind::fast, "Workers that stay keep their process; only the group is rebuilt.");
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
  v.name("slices", mode, LendMode::slices, "Every slice that is not needed for now, and what the plan leaves uncut.");
  v.name("whole_gpu", mode, LendMode::whole_gpu, "Only GPUs of which nothing is needed for now.");
}

template <typename Visitor>
void describe(Visitor& v, SyntheticApplication& c) {
  v.about(
      "Training application",
      "A step takes fixed_ms + sample_ms for each sample of a worker; synchronising takes sync_local_ms within a node "
      "and sync_nodes_ms between nodes, a tenth more for each worker beyond two.");
  constexpr formats::Limits kTime{.min = 0, .max = 1e6};
  v.field("name", c.name, {.required = true, .text = formats::TextRule::name}, "What jobs call it.");
  v.field("epochs", c.epochs, {.min = 1, .max = 100000}, "After which a job ends.");
  v.field("epoch_steps", c.epoch_steps, {.max = 1e9, .above = 0}, "Steps of the smallest batch in an epoch.");
  v.field("batch_min", c.batch_min, {.min = 1, .max = 1e6}, "The smallest batch over all workers.");
  v.field("batch_max", c.batch_max, {.min = 1, .max = 1e8}, "The largest.");
  v.field("worker_batch_max", c.worker_batch_max, {.min = 1, .max = 1e6}, "What one worker can hold.");
  v.field("fixed_ms", c.fixed_ms, kTime, "Of a step, whatever its batch.");
  v.field("sample_ms", c.sample_ms, {.max = 1e6, .above = 0}, "Of each sample of a worker.");
  v.field("sync_local_ms", c.sync_local_ms, kTime, "Two workers of one node.");
  v.field("sync_nodes_ms", c.sync_nodes_ms, kTime, "Two workers of two nodes.");
  v.field("noise", c.noise, {.min = 0, .max = 1e9},
          "Variance over square of the gradient at the smallest batch: the larger, the better large batches are.");
  v.field("restart_full_s", c.restart_full_s, kTime, "To stop, start and load everything.");
  v.field("restart_fast_s", c.restart_fast_s, kTime, "To rebuild the group of workers that stay.");
  v.rule(c.batch_max >= c.batch_min, {"batch_max", "batch_min"}, "batch_max is at least batch_min");
}

template <typename Visitor>
void describe(Visitor& v, ApplicationsSource& source) {
  v.plain(source, &ApplicationsFile::path, {}, "A training file, as `tangram import pollux` makes it of traces.");
  v.option("synthetic", source, std::vector<SyntheticApplication>{}, "A formula for each.");
}

template <typename Visitor>
void describe(Visitor& v, SyntheticJobs& c) {
  v.about("Made jobs", "Poisson arrivals, the seed being that of the scenario.");
  v.field("count", c.count, {.min = 1, .max = 1e6, .required = true}, "How many.");
  v.field("gap_mean_s", c.gap_mean_s, {.max = 1e9, .above = 0, .required = true}, "Mean time between two of them.");
  v.field("applications", c.applications,
          "Drawn from evenly; one that stands twice comes twice as often. All if none is given.");
}

template <typename Visitor>
void describe(Visitor& v, JobsSource& source) {
  v.plain(source, &JobsFile::path, {},
          "A jobs file, or a workload as Pollux and DeepBoot have published them; its training jobs count.");
  v.option("synthetic", source, SyntheticJobs{}, "Jobs by chance.");
}

template <typename Visitor>
void describe(Visitor& v, TrainingRecord& c) {
  v.about("Training", "Elastic training jobs on what inference does not need for now.");
  v.field("applications", c.applications, {.required = true},
          "What is trained: how fast steps are, how well batches scale.");
  v.field("jobs", c.jobs, {.required = true}, "Who trains what, and when it is submitted.");
  v.field("allocator", c.allocator, {.names = &allocator_names}, "Which job gets which GPUs.");
  v.field("lend", c.lend, "What inference lends.");
  v.field("gpus_per_node", c.gpus_per_node, {.min = 1, .max = 9}, "Devices stand in nodes, in the order of the plan.");
  v.field("interval_s", c.interval_s, {.min = 1, .max = 86400}, "Between rounds of the allocator, at most.");
  v.field("restart", c.restart, "What a change of its GPUs costs a job.");
  v.field("restart_full_s", c.restart_full_s, {.min = 0, .max = 1e6},
          "To stop, start and load everything, for applications from a file.");
  v.field("restart_fast_s", c.restart_fast_s, {.min = 0, .max = 1e6}, "To rebuild the group, for those as well.");
  v.field("slice_speeds", c.slice_speeds,
          "A measurements file of training on slices, whose mean says how fast they are beside a whole GPU; otherwise "
          "as fast as their share of the compute slices.");
  v.field("guard_s", c.guard, {.min = 0, .max = 1e6}, "What a service needed is kept for it as long after.");
  v.field("rate_window_s", c.rate_window, {.min = 2, .max = 1e4}, "Over which the rates of services are measured.");
  v.field("overtime_s", c.overtime_s, {.min = 0, .max = 1e9},
          "After the last request training goes on for so long at most; jobs that have not ended then are counted so.");
}

// Reads the files that the section names. Null, with what is wrong added to `problems`, if it cannot be.
std::shared_ptr<const TrainingSetup> training_setup(const TrainingRecord& record, const formats::ReadFile& read_file,
                                                    std::uint64_t seed, formats::Problems& problems);

}  // namespace tangram::lab
