// A formula with hand-written parameters, for planning before anything has been measured. Whether a run fits is decided
// by the memory in the tables of the device type.

#include "learn/models/analytic.h"

#include <algorithm>

#include "base/math.h"
#include "base/text.h"
#include "core/geometry.h"

namespace tangram::learn {
namespace {

struct SliceSize {
  double slices = 0;                 // Compute slices, or cores.
  std::optional<double> memory_gib;  // Nothing: not known.
};

std::optional<SliceSize> size_of(std::string_view device, std::string_view profile) {
  // A host slice is a number of cores, "1.5c", and has no memory of its own.
  if (device == "cpu") {  // "1.5c"
    const auto cores = text::parse_number(profile.substr(0, profile.size() - (profile.ends_with('c') ? 1 : 0)));
    if (!cores || *cores <= 0) return std::nullopt;
    return SliceSize{*cores, std::nullopt};
  }
  const Geometry* geometry = find_geometry(device);
  if (geometry == nullptr) return std::nullopt;
  const auto index = find_profile(*geometry, profile);
  if (!index) return std::nullopt;
  const MigProfile& found = geometry->profiles[*index];
  const bool known = found.memory_gib.evidence != Evidence::unknown;
  return SliceSize{static_cast<double>(found.compute_slices),
                   known ? std::optional(found.memory_gib.value) : std::nullopt};
}

}  // namespace

// The entry for exactly this device wins over the general one, in whatever order they are listed.
const AnalyticRun* AnalyticModel::find(std::string_view model, std::string_view device) const {
  const AnalyticRun* general = nullptr;
  for (const auto& run : runs_) {
    if (run.model != model) continue;
    if (run.device == device) return &run;
    if (!run.device && general == nullptr) general = &run;
  }
  return general;
}

std::optional<Prediction> AnalyticModel::predict(const RunPoint& point) const {
  const AnalyticRun* run = find(point.model, point.device);
  const auto slice = size_of(point.device, point.mig_profile);
  if (run == nullptr || !slice) return std::nullopt;
  const double work_per_sample = math::pow(static_cast<double>(point.size) / run->size_reference, run->size_exponent);
  const auto batch = static_cast<double>(point.batch);
  const auto processes = static_cast<double>(point.processes);
  const double memory = processes * (run->memory_gib + run->memory_sample_gib * batch * work_per_sample);
  // A slice of unknown memory, and the host, hold everything.
  if (slice->memory_gib && memory > *slice->memory_gib) return std::nullopt;
  // Below proportional if slice_exponent is less than 1: large slices are harder to fill.
  const double speed = math::pow(slice->slices, run->slice_exponent);
  // A batch never takes less than the launch, however little work it is.
  const double mean_ms = std::max(run->launch_ms, run->sample_ms * batch * work_per_sample * processes / speed);
  Prediction prediction{from_milliseconds(mean_ms), from_milliseconds(mean_ms * run->p99_factor)};
  if (memory > 0) prediction.memory_mib = 1024 * memory;
  return prediction;
}

std::optional<double> AnalyticModel::weights_mib(std::string_view device, std::string_view /*mig_profile*/,
                                                 std::string_view model) const {
  const AnalyticRun* run = find(model, device);
  if (run == nullptr || run->memory_gib <= 0) return std::nullopt;
  return 1024 * run->memory_gib;
}

}  // namespace tangram::learn
