// DeepBoot's simulator: training jobs, whose duration is -1, among inference tasks that hold a device for a while.

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
  double duration = -1;
};

template <typename Visitor>
void describe(Visitor& v, Row& c) {
  v.field("name", c.name, {.required = true}, "");
  v.field("time", c.time, {.min = 0, .max = kSecondsMax, .required = true}, "");
  v.field("application", c.application, {.required = true}, "");
  v.field("num_replicas", c.num_replicas, {.min = 1, .max = 1e6, .required = true}, "");
  v.field("batch_size", c.batch_size, {.min = 1, .max = 1e9, .required = true}, "");
  v.field("duration", c.duration, {.min = -1, .max = kSecondsMax, .required = true}, "");
  v.rule(c.duration == -1 || c.duration >= 0, "duration", "duration must be -1 for training, or at least 0");
}

}  // namespace

Result<std::string> deepboot(const Files& files, std::string_view) {
  std::vector<Job> jobs;
  const auto problems = for_each_row_of<Row>(files, [&](Row row, const RowPlace&, Problems&, const Source&) {
    const bool training = row.duration < 0;
    jobs.push_back({.name = row.name,
                    .submit_s = row.time,
                    .application = row.application,
                    .replicas = row.num_replicas,
                    .batch = row.batch_size,
                    .kind = training ? JobKind::training : JobKind::inference,
                    .duration_s = training ? std::nullopt : std::optional(row.duration)});
  });
  if (!problems.empty()) return problems.error();
  return write_jobs(jobs);
}

}  // namespace tangram::formats::importers
