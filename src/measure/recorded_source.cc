// What recorded engines answer from, and the error messages if a file does not have the target.
//
// A file of measurements answers by interpolation between its rows; a fitted model answers for every point.

#include "measure/recorded_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "base/text.h"
#include "engines/recorded_memory.h"
#include "learn/models/table.h"

namespace tangram::measure {
namespace {

std::string join_names(const std::set<std::string>& names) { return fmt::format("{}", fmt::join(names, ", ")); }

// Memory as the fitted model believes it; nullopt if the model has no such target or never saw a peak.
std::optional<double> believed_memory_mib(const learn::FittedModel& model, const RunPoint& point) {
  const auto estimate = model.estimate(point);
  if (!estimate) return std::nullopt;
  // A run that probably does not fit has no memory figure to compare with the slice: infinite is more than any slice.
  if (estimate->fits_probability < 0.5) return std::numeric_limits<double>::infinity();
  return estimate->memory_mib;
}

}  // namespace

RecordedSource source_of(learn::FittedModel model) {
  RecordedSource source{{}, std::make_shared<learn::FittedModel>(std::move(model))};
  for (const auto& run : source.fitted->runs()) {
    source.rows.insert(source.rows.end(), run.measured.begin(), run.measured.end());
  }
  return source;
}

Result<Measurements> select_target(const Measurements& all, const learn::Target& target, const std::string& path) {
  std::set<std::string> devices;
  std::set<std::string> models;
  for (const auto& m : all) {
    devices.insert(m.device);
    if (m.device == target.device) models.insert(m.model);
  }
  // From the general to the specific, so that the message names the first thing that is wrong: no rows, another device,
  // another model.
  if (all.empty()) return invalid_input(path + ": has no measurements");
  if (!devices.contains(target.device)) {
    return invalid_input(
        fmt::format("{}: has no measurements on {}; it has {}", path, target.device, join_names(devices)));
  }
  if (models.contains(target.model)) return learn::select(all, target);
  const std::vector<std::string> known(models.begin(), models.end());
  const auto near = text::nearest(target.model, known);
  return invalid_input(fmt::format("{}: has no measurements of {} on {}{}; it has {}", path, target.model,
                                   target.device, near ? fmt::format(", did you mean {}?", *near) : "",
                                   join_names(models)));
}

bool has_spread(const Measurements& rows) {
  return std::ranges::any_of(rows, [](const Measurement& m) { return m.latency_spread_ms.value_or(0) > 0; });
}

void set_emulation(engines::EngineConfig& config, const RecordedSource& source) {
  if (source.fitted) {
    config.latency = source.fitted;
    config.memory_mib = [model = source.fitted](const RunPoint& point) { return believed_memory_mib(*model, point); };
    return;
  }
  // The functions own what they read, so the configuration does not depend on the lifetime of `source`.
  config.latency = std::make_shared<learn::TableModel>(source.rows);
  const auto memory = std::make_shared<engines::RecordedMemory>(source.rows);
  config.memory_mib = [memory](const RunPoint& point) { return memory->mib(point); };
}

}  // namespace tangram::measure
