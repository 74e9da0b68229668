// The jobs file: one job of a cluster trace in each row. The description says everything; there are no checks between
// rows.

#include "formats/jobs_file.h"

#include "formats/detail/limits.h"
#include "formats/detail/shapes.h"
#include "formats/table.h"

namespace tangram::formats {

template <typename Visitor>
void describe(Visitor& v, JobKind& kind) {
  v.name("training", kind, JobKind::training, "Runs until its work is done, on as many slices as it gets.");
  v.name("inference", kind, JobKind::inference, "Uses one slice for its duration.");
}

template <typename Visitor>
void describe(Visitor& v, ClusterJob& c) {
  v.about("Jobs", "One job of a cluster trace in each row.");
  v.field("name", c.name, {.required = true}, "The name of the job, unique in the file.");
  v.field("submit_s", c.submit_s, {.min = 0, .max = kSecondsMax, .required = true},
          "The time of submission, in seconds from the start.");
  v.field("application", c.application, {.required = true}, "The application that the job trains or runs.");
  v.field("replicas", c.replicas, {.min = 1, .max = 1e6},
          "The number of workers requested; an elastic scheduler may give another number.");
  v.field("batch", c.batch, {.min = 1, .max = 1e9}, "The batch size over all workers.");
  v.field("kind", c.kind, "The kind of job.");
  v.field("duration_s", c.duration_s, {.min = 0, .max = kSecondsMax}, "The duration; blank: until its work is done.");
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
