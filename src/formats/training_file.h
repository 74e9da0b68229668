// How training applications behave, as CSV: step times over placements and sizes, and the statistics of gradients.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/source.h"

namespace tangram::formats {

enum class TrainingRowKind { placement, scalability, validation };

// One row. Rows of kind placement and scalability are timed steps and have the fields from `nodes` to `sync_s`. Rows of
// kind validation have the fields from `batch` on.
struct TrainingRow {
  std::string application;
  TrainingRowKind kind = TrainingRowKind::placement;
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
  std::optional<std::string> placement;  // Of a step: how many workers ran on each node, a digit for each.

  bool operator==(const TrainingRow&) const = default;
};

Result<std::vector<TrainingRow>> parse_training(const Source& source);
std::string write_training(const std::vector<TrainingRow>& rows);

}  // namespace tangram::formats
