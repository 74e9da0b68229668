// The jobs file: one job of a cluster trace in each row. The description says everything; there are no checks between
// rows.

#include "formats/jobs_file.h"

#include "formats/detail/limits.h"
#include "formats/detail/shapes.h"
#include "formats/table.h"

namespace tangram::formats {

template <typename Visitor>
void describe(Visitor& v, JobKind& kind) {
  v.name("training", kind, JobKind::training, "Runs until its work is done, on as many slices as it is given.");
  v.name("inference", kind, JobKind::inference, "Holds one slice for its duration.");
}

template <typename Visitor>
void describe(Visitor& v, ClusterJob& c) {
  v.about("Jobs", "One job of a cluster trace in each row.");
  v.field("name", c.name, {.required = true}, "Unique in the file.");
  v.field("submit_s", c.submit_s, {.min = 0, .max = kSecondsMax, .required = true},
          "When it was submitted, in seconds from the beginning.");
  v.field("application", c.application, {.required = true}, "What it runs.");
  v.field("replicas", c.replicas, {.min = 1, .max = 1e6},
          "Workers it asked for; an elastic scheduler may give another number.");
  v.field("batch", c.batch, {.min = 1, .max = 1e9}, "Batch size over all workers.");
  v.field("kind", c.kind, "What kind of job it is.");
  v.field("duration_s", c.duration_s, {.min = 0, .max = kSecondsMax},
          "How long it runs; blank: until its work is done.");
}

Result<std::vector<ClusterJob>> parse_jobs(const Source& source) {
  Problems problems(source.name);
  std::vector<ClusterJob> jobs;
  for_each_row<ClusterJob>(source, Header::strict, problems,
                           [&](ClusterJob job, const RowPlace&) { jobs.push_back(std::move(job)); });
  if (!problems.empty()) return problems.error();
  return jobs;
}

std::string write_jobs(const std::vector<ClusterJob>& jobs) { return write_table(jobs); }

// Quoted fields may span lines and empty lines are skipped, so line numbers cannot be computed from the row's index.
std::vector<int> row_lines(const Source& source) {
  Problems ignored(source.name);
  CsvReader reader(source.text, ignored);
  std::vector<CsvField> row;
  std::vector<int> lines;
  reader.next(row);  // The header.
  while (reader.next(row)) lines.push_back(row.front().line);
  return lines;
}

Shape job_shape() { return shape_of<ClusterJob>(); }

}  // namespace tangram::formats
