// DeepBoot's simulator: training jobs among inference tasks that hold a device for a while.
//
// The application of an inference task begins with "infer-". A training job ends when its work is done. Files with
// training only mark this by a duration of -1. Mixed files mark it by a num_task of -1; they fill in a duration for all
// rows, which means nothing for training.

#include "formats/detail/limits.h"
#include "formats/importers/importers.h"
#include "formats/jobs_file.h"

namespace tangram::formats::importers {
namespace {

struct Row {
  std::string name;
  double time = 0;
  std::string application;
  std::int64_t num_replicas = 1;
  std::int64_t batch_size = 1;
  std::optional<double> duration;
  std::optional<std::int64_t> num_task;

  bool inference() const { return application.starts_with("infer-"); }
  bool lasts() const { return duration && *duration >= 0; }
};

template <typename Visitor>
void describe(Visitor& v, Row& c) {
  v.field("name", c.name, {.required = true}, "");
  v.field("time", c.time, {.min = 0, .max = kSecondsMax, .required = true}, "");
  v.field("application", c.application, {.required = true}, "");
  v.field("num_replicas", c.num_replicas, {.min = 1, .max = 1e6, .required = true}, "");
  v.field("batch_size", c.batch_size, {.min = 1, .max = 1e9, .required = true}, "");
  v.field("duration", c.duration, {.min = -1, .max = kSecondsMax, .required = true}, "");
  v.field("num_task", c.num_task, {.min = -1, .max = 1e12}, "");
  v.rule(!c.inference() || c.lasts(), {"duration", "application"}, "an inference task needs a duration of at least 0");
  // A training row with a duration and without the mark is ambiguous, so it is refused instead of guessed.
  v.rule(c.inference() || !c.lasts() || c.num_task == -1, {"duration", "application", "num_task"},
         "a training job has a duration of -1 or a num_task of -1");
}

}  // namespace

Result<std::string> deepboot(const Files& files, std::string_view) {
  std::vector<ClusterJob> jobs;
  TANGRAM_TRY(const auto prefixes, prefixes_of(files, "/"));
  const auto problems = for_each_row_of<Row>(files, [&](Row row, const RowPlace&, Problems&, const Source& file) {
    jobs.push_back({.name = prefixes.at(file.name) + row.name,
                    .submit_s = row.time,
                    .application = row.application,
                    .replicas = row.num_replicas,
                    .batch = row.batch_size,
                    .kind = row.inference() ? JobKind::inference : JobKind::training,
                    .duration_s = row.inference() ? row.duration : std::nullopt});
  });
  if (!problems.empty()) return problems.error();
  if (jobs.empty()) return no_rows(files);
  return write_jobs(jobs);
}

}  // namespace tangram::formats::importers
