// Training and inference jobs of a cluster trace, as CSV.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/source.h"

namespace tangram::formats {

enum class JobKind { training, inference };

// One job as it was submitted.
struct ClusterJob {
  std::string name;
  double submit_s = 0;
  std::string application;
  std::int64_t replicas = 1;  // As asked for; an elastic scheduler may give another number.
  std::int64_t batch = 1;     // Over all replicas.
  JobKind kind = JobKind::training;
  std::optional<double> duration_s;  // Nothing: it ends when its work is done.

  bool operator==(const ClusterJob&) const = default;
};

// CSV `name,submit_s,application,replicas,batch,kind,duration_s`, the last two optional.
Result<std::vector<ClusterJob>> parse_jobs(const Source& source);
std::string write_jobs(const std::vector<ClusterJob>& jobs);

// The lines on which the rows of a CSV file begin, for messages about them: its header and empty lines do not count.
std::vector<int> row_lines(const Source& source);

}  // namespace tangram::formats
