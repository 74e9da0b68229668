// How long it takes to cut a device, as CSV.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/source.h"

namespace tangram::formats {

enum class RecutAction { create, destroy };

// All runs of one action on the slices of one layout, summed up.
struct Recut {
  std::string slices;  // Their compute slices in the order of creation: "4g+3g".
  RecutAction action = RecutAction::create;
  std::int64_t runs = 1;
  double mean_ms = 0;
  double p50_ms = 0;
  double p99_ms = 0;
  double max_ms = 0;

  bool operator==(const Recut&) const = default;
};

Result<std::vector<Recut>> parse_recuts(const Source& source);
std::string write_recuts(const std::vector<Recut>& recuts);

}  // namespace tangram::formats
