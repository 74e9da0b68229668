// Pollux (OSDI'21): workloads of training jobs, and traces of six applications.
//
// A workload becomes jobs. The files of the traces (placements, scalability, validation-<batch>) become one table with
// an application column taken from their folder; columns that a kind of file does not have stay blank.

#include <fmt/format.h>

#include "base/text.h"
#include "formats/detail/limits.h"
#include "formats/importers/importers.h"
#include "formats/jobs_file.h"

namespace tangram::formats::importers {
namespace {

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

// One row of the output, which is also what each input row is read into.
struct TraceRow {
  std::string application;
  std::string kind;
  std::optional<std::int64_t> nodes;
  std::optional<std::int64_t> replicas;
  std::optional<std::int64_t> local_batch;
  std::optional<double> step_s;
  std::optional<double> sync_s;
  std::optional<std::int64_t> batch;
  std::optional<double> progress;
  std::optional<std::int64_t> iteration;
  std::optional<double> metric;
  std::optional<double> grad_sqr;
  std::optional<double> grad_var;
};

template <typename Visitor>
void describe(Visitor& v, TraceRow& c) {
  v.field("application", c.application, "");
  v.field("kind", c.kind, "");
  v.field("nodes", c.nodes, "");
  v.field("replicas", c.replicas, "");
  v.field("local_batch", c.local_batch, "");
  v.field("step_s", c.step_s, "");
  v.field("sync_s", c.sync_s, "");
  v.field("batch", c.batch, "");
  v.field("progress", c.progress, "");
  v.field("iteration", c.iteration, "");
  v.field("metric", c.metric, "");
  v.field("grad_sqr", c.grad_sqr, "");
  v.field("grad_var", c.grad_var, "");
}

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
  std::vector<Job> result;
  const bool several = files.size() > 1;
  const auto problems =
      for_each_row_of<WorkloadRow>(files, [&](WorkloadRow row, const RowPlace&, Problems&, const Source& file) {
        // The workloads use the same names, so the file's goes in front.
        result.push_back({.name = several ? stem_of(file.name) + "/" + row.name : row.name,
                          .submit_s = row.time,
                          .application = row.application,
                          .replicas = row.num_replicas,
                          .batch = row.batch_size,
                          .kind = JobKind::training,
                          .duration_s = std::nullopt});
      });
  if (!problems.empty()) return problems.error();
  return write_jobs(result);
}

class TraceTable {
 public:
  void add_steps(const Source& file) {
    problems_.take(read<StepRow>(file, [&](const StepRow& row, const RowPlace& place, Problems& bad) {
      TraceRow out = row_of(file, row.placement ? "placement" : "scalability");
      out.nodes = row.num_nodes;
      out.replicas = row.num_replicas;
      if (row.placement && !spread(*row.placement, out)) {
        return bad.add(place.of("placement"), "placement must be a digit from 1 to 9 for each node");
      }
      if (!out.nodes || !out.replicas)
        return bad.add(place.of("local_bsz"), "the row says neither placement nor nodes and replicas");
      out.local_batch = row.local_bsz;
      out.step_s = row.step_time;
      out.sync_s = row.sync_time;
      rows_.push_back(std::move(out));
    }));
  }

  void add_validation(const Source& file) {
    const std::string stem = stem_of(file.name);
    const auto batch = text::parse_integer(std::string_view(stem).substr(stem.rfind('-') + 1));
    problems_.take(read<ValidationRow>(file, [&](const ValidationRow& row, const RowPlace&, Problems& bad) {
      if (!batch || *batch < 1)
        return bad.add({}, "the name of a validation file ends in its batch size: validation-128.csv");
      TraceRow out = row_of(file, "validation");
      out.batch = *batch;
      out.progress = row.progress;
      out.iteration = row.iteration;
      out.metric = row.metric;
      out.grad_sqr = row.grad_sqr;
      out.grad_var = row.grad_var;
      rows_.push_back(std::move(out));
    }));
  }

  void refuse(const Source& file) {
    Problems problems(file.name);
    problems.add({}, "neither placements, scalability nor validation; workloads are imported apart from traces");
    problems_.take(problems);
  }

  Result<std::string> finish() const {
    if (!problems_.empty()) return problems_.error();
    return write_table(rows_);
  }

 private:
  template <typename Row, typename Use>
  static Problems read(const Source& file, Use&& use) {
    Problems problems(file.name);
    for_each_row<Row>(file, Header::lenient, problems,
                      [&](Row row, const RowPlace& place) { use(row, place, problems); });
    return problems;
  }

  static TraceRow row_of(const Source& file, const char* kind) {
    TraceRow row;
    row.application = folder_of(file.name);
    row.kind = kind;
    return row;
  }

  static bool spread(const std::string& placement, TraceRow& out) {
    if (placement.find_first_not_of("123456789") != std::string::npos) return false;
    out.nodes = static_cast<std::int64_t>(placement.size());
    out.replicas = 0;
    for (const char digit : placement) *out.replicas += digit - '0';
    return true;
  }

  std::vector<TraceRow> rows_;
  FileProblems problems_;
};

}  // namespace

Result<std::string> pollux(const Files& files, std::string_view) {
  if (has_column(files.front(), "num_replicas") && has_column(files.front(), "application")) return jobs(files);
  TraceTable table;
  for (const auto& file : files) {
    if (has_column(file, "step_time")) {
      table.add_steps(file);
    } else if (has_column(file, "grad_sqr")) {
      table.add_validation(file);
    } else {
      table.refuse(file);
    }
  }
  return table.finish();
}

}  // namespace tangram::formats::importers
