// A page about shared clusters: the ownership of GPUs over time, and completion times against the waits of requests.
#pragma once

#include <span>
#include <string>

#include "experiments/shared_cluster.h"

namespace tangram::experiments {

struct SharedReportRow {
  std::string workload;
  std::string allocator;
  std::string options;
  std::uint64_t seed = 1;
  double reduction = 0;
  const SharedResult* result = nullptr;
  int gpus = 64;
};

// One HTML page without anything to fetch.
std::string shared_report_html(std::span<const SharedReportRow> rows);

}  // namespace tangram::experiments
