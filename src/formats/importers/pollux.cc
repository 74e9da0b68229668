// Pollux (OSDI'21): workloads of training jobs, and traces of six applications.
//
// A workload becomes a jobs file. The files of the traces (placements, scalability, validation-<batch>) become one
// training table with an application column, which is the name of their folder: bert/placements.csv has the application
// bert. Columns that a kind of file does not have stay blank.

#include <fmt/format.h>

#include "base/text.h"
#include "formats/detail/limits.h"
#include "formats/importers/importers.h"
#include "formats/jobs_file.h"
#include "formats/training_file.h"

namespace tangram::formats::importers {
namespace {

// A workload: one training job in each row.
struct WorkloadRow {
  std::string name;
  double time = 0;
  std::string application;
  std::int64_t num_replicas = 1;
  std::int64_t batch_size = 1;
};

template <typename Visitor>
void describe(Visitor& v, WorkloadRow& c) {
  v.field("name", c.name, {.required = true}, "");
  v.field("time", c.time, {.min = 0, .max = kSecondsMax, .required = true}, "");
  v.field("application", c.application, {.required = true}, "");
  v.field("num_replicas", c.num_replicas, {.min = 1, .max = 1e6, .required = true}, "");
  v.field("batch_size", c.batch_size, {.min = 1, .max = 1e9, .required = true}, "");
}

// placements.csv or scalability.csv: one timed step in each row.
struct StepRow {
  std::optional<std::string> placement;  // A digit for each node: how many replicas run there.
  std::optional<std::int64_t> num_nodes;
  std::optional<std::int64_t> num_replicas;
  std::int64_t local_bsz = 1;
  double step_time = 0;
  double sync_time = 0;
};

template <typename Visitor>
void describe(Visitor& v, StepRow& c) {
  v.field("placement", c.placement, "");
  v.field("num_nodes", c.num_nodes, {.min = 1, .max = 1e6}, "");
  v.field("num_replicas", c.num_replicas, {.min = 1, .max = 1e6}, "");
  v.field("local_bsz", c.local_bsz, {.min = 1, .max = 1e9, .required = true}, "");
  v.field("step_time", c.step_time, {.max = kSecondsMax, .above = 0, .required = true}, "");
  v.field("sync_time", c.sync_time, {.min = 0, .max = kSecondsMax, .required = true}, "");
}

// validation-<batch>.csv: progress and gradient statistics after some iterations.
struct ValidationRow {
  double progress = 0;
  std::int64_t iteration = 0;
  double metric = 0;
  double grad_sqr = 0;
  double grad_var = 0;
};

template <typename Visitor>
void describe(Visitor& v, ValidationRow& c) {
  v.field("progress", c.progress, {.min = 0, .required = true}, "");
  v.field("iteration", c.iteration, {.min = 0, .required = true}, "");
  v.field("metric", c.metric, {.required = true}, "");
  v.field("grad_sqr", c.grad_sqr, {.required = true}, "");
  v.field("grad_var", c.grad_var, {.required = true}, "");
}

Result<std::string> jobs(const Files& files) {
  std::vector<ClusterJob> result;
  // Different workloads use the same job names, so with several files the file's name becomes a prefix.
  TANGRAM_TRY(const auto prefixes, prefixes_of(files, "/"));
  const auto problems =
      for_each_row_of<WorkloadRow>(files, [&](WorkloadRow row, const RowPlace&, Problems&, const Source& file) {
        result.push_back({.name = prefixes.at(file.name) + row.name,
                          .submit_s = row.time,
                          .application = row.application,
                          .replicas = row.num_replicas,
                          .batch = row.batch_size,
                          .kind = JobKind::training,
                          .duration_s = std::nullopt});
      });
  if (!problems.empty()) return problems.error();
  if (result.empty()) return no_rows(files);
  return write_jobs(result);
}

// Collects rows of several files and the problems of all of them, so that one run reports every broken file.
class TrainingTable {
 public:
  void add_steps(const Source& file) {
    problems_.take(read<StepRow>(file, [&](const StepRow& row, const RowPlace& place, Problems& bad) {
      TrainingRow out = row_of(file, row.placement ? TrainingRowKind::placement : TrainingRowKind::scalability);
      out.nodes = row.num_nodes;
      out.replicas = row.num_replicas;
      // A placement says more than node and replica counts, which are computed from it; the other kind of file has the
      // counts.
      if (row.placement && !spread(*row.placement, out)) {
        return bad.add(place.of("placement"), "placement must be a digit from 1 to 9 for each node");
      }
      if (!out.nodes || !out.replicas)
        return bad.add(place.of("local_bsz"), "the row has neither placement nor nodes and replicas");
      out.local_batch = row.local_bsz;
      out.step_s = row.step_time;
      out.sync_s = row.sync_time;
      rows_.push_back(std::move(out));
    }));
  }

  void add_validation(const Source& file) {
    // The batch size is in the name of the file only: validation-128.csv.
    const std::string stem = stem_of(file.name);
    const auto batch = text::parse_integer(std::string_view(stem).substr(stem.rfind('-') + 1));
    problems_.take(read<ValidationRow>(file, [&](const ValidationRow& row, const RowPlace&, Problems& bad) {
      if (!batch || *batch < 1)
        return bad.add({}, "the name of a validation file must end with its batch size: validation-128.csv");
      TrainingRow out = row_of(file, TrainingRowKind::validation);
      out.batch = *batch;
      out.progress = row.progress;
      out.iteration = row.iteration;
      out.metric = row.metric;
      out.grad_sqr = row.grad_sqr;
      out.grad_var = row.grad_var;
      rows_.push_back(std::move(out));
    }));
  }

  // Adds a problem of the whole file.
  void refuse(const Source& file, std::string text) {
    Problems problems(file.name);
    problems.add({}, std::move(text));
    problems_.take(problems);
  }

  // Problems win over rows: nothing is written if any file is broken.
  Result<std::string> finish(const Files& files) const {
    if (!problems_.empty()) return problems_.error();
    if (rows_.empty()) return no_rows(files);
    return write_training(rows_);
  }

 private:
  // Lenient: the published files have columns that are not needed here.
  template <typename Row, typename Use>
  static Problems read(const Source& file, Use&& use) {
    Problems problems(file.name);
    for_each_row<Row>(file, Header::lenient, problems,
                      [&](Row row, const RowPlace& place) { use(row, place, problems); });
    return problems;
  }

  // The folder is not empty: pollux() refuses files without one.
  static TrainingRow row_of(const Source& file, TrainingRowKind kind) {
    TrainingRow row;
    row.application = folder_of(file.name);
    row.kind = kind;
    return row;
  }

  // "12" means one worker on the first node and two on the second. False if it is no such text.
  static bool spread(const std::string& placement, TrainingRow& out) {
    if (placement.find_first_not_of("123456789") != std::string::npos) return false;
    out.placement = placement;
    out.nodes = static_cast<std::int64_t>(placement.size());
    out.replicas = 0;
    for (const char digit : placement) *out.replicas += digit - '0';
    return true;
  }

  std::vector<TrainingRow> rows_;
  FileProblems problems_;
};

}  // namespace

Result<std::string> pollux(const Files& files, std::string_view) {
  // One column of a workload is enough to recognise it. If another one is missing, the reader of workloads names it,
  // which is more helpful than "no file of Pollux".
  const auto of_workload = [&](const char* column) { return have_column(files, column); };
  if (of_workload("application") || of_workload("batch_size") || of_workload("time")) return jobs(files);
  TrainingTable table;
  for (const auto& file : files) {
    const auto columns = header_of(file);
    const bool known = columns.contains("step_time") || columns.contains("grad_sqr");
    if (known && folder_of(file.name).empty()) {
      table.refuse(file, "the folder name is the application; give a path that includes it: bert/" + file.name);
    } else if (columns.contains("step_time")) {
      table.add_steps(file);
    } else if (columns.contains("grad_sqr")) {
      table.add_validation(file);
    } else {
      table.refuse(file, "not a file of Pollux: neither a workload nor placements, scalability or validation");
    }
  }
  return table.finish(files);
}

}  // namespace tangram::formats::importers
