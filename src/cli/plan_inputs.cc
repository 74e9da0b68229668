// Reads plans and run times from the files that users name.

#include "cli/plan_inputs.h"

#include <algorithm>

#include "cli/inputs.h"
#include "formats/import.h"
#include "formats/measurements_file.h"
#include "formats/plan_file.h"
#include "formats/recuts_file.h"
#include "lab/model_file.h"
#include "learn/models/table.h"
#include "plan/recut_times.h"

namespace tangram::cli {
namespace {

// The median time for each number of slices that are created or destroyed together, weighted by the number of runs.
std::vector<double> medians_of(const std::vector<formats::Recut>& recuts, formats::RecutAction action) {
  std::vector<plan::TimedRecut> timed;
  for (const auto& recut : recuts) {
    if (recut.action != action) continue;
    const auto slices = static_cast<std::size_t>(std::ranges::count(recut.slices, '+')) + 1;  // "4g+3g" is two slices.
    timed.push_back({slices, static_cast<double>(recut.runs), recut.p50_ms});
  }
  return plan::medians_ms(timed);
}

}  // namespace

Result<Plan> load_plan(const std::string& path) {
  TANGRAM_TRY(const auto source, read_source(path));
  return formats::parse_plan(source);
}

// A fitted model predicts what was not measured. A table only interpolates between its points, and does not know the
// rest.
Result<std::shared_ptr<const LatencyModel>> load_latency(const LatencySource& source) {
  using Answer = std::shared_ptr<const LatencyModel>;
  if (!source.given())
    return Error{ErrorCode::invalid, "expected --measurements FILE or --model FILE, to read the run times from"};
  TANGRAM_TRY(const auto text, read_source(source.model.empty() ? source.measurements : source.model));
  if (!source.model.empty()) {
    TANGRAM_TRY(auto model, lab::parse_model(text));
    return Answer(std::make_shared<learn::FittedModel>(std::move(model)));
  }
  TANGRAM_TRY(const auto measurements, formats::parse_measurements(text));
  return Answer(std::make_shared<learn::TableModel>(measurements));
}

Result<plan::RecutTimes> load_recut_times(const std::string& path) {
  TANGRAM_TRY(auto source, read_source(path));
  // The published timings may be used directly; they are recognised and imported on the way.
  const formats::ImportFormat* published = formats::find_import_format("mig-reconfig");
  if (published != nullptr && !formats::import_kind(*published, source).empty()) {
    TANGRAM_TRY(auto imported, formats::import_text(published->name, {source}));
    source.text = std::move(imported);
  }
  TANGRAM_TRY(const auto recuts, formats::parse_recuts(source));
  plan::RecutTimes times;
  times.create_ms = medians_of(recuts, formats::RecutAction::create);
  times.destroy_ms = medians_of(recuts, formats::RecutAction::destroy);
  // A transition creates and destroys, so one kind alone cannot time it.
  if (!times.create_ms.empty() && !times.destroy_ms.empty()) return times;
  return Error{ErrorCode::invalid, source.name + ": expected rows for both actions, create and destroy"};
}

}  // namespace tangram::cli
