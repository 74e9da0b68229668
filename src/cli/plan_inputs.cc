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

std::vector<double> medians_of(const std::vector<formats::Recut>& recuts, formats::RecutAction action) {
  std::vector<plan::TimedRecut> timed;
  for (const auto& recut : recuts) {
    if (recut.action != action) continue;
    const auto slices = static_cast<std::size_t>(std::ranges::count(recut.slices, '+')) + 1;  // "4g+3g" are two.
    timed.push_back({slices, static_cast<double>(recut.runs), recut.p50_ms});
  }
  return plan::medians_ms(timed);
}

}  // namespace

Result<Plan> load_plan(const std::string& path) {
  const auto source = read_source(path);
  if (!source) return source.error();
  return formats::parse_plan(*source);
}

Result<std::shared_ptr<const LatencyModel>> load_latency(const LatencySource& source) {
  using Answer = std::shared_ptr<const LatencyModel>;
  if (!source.given())
    return Error{ErrorCode::invalid, "expected --measurements or --model: where run times come from"};
  const auto text = read_source(source.model.empty() ? source.measurements : source.model);
  if (!text) return text.error();
  if (!source.model.empty()) {
    auto model = lab::parse_model(*text);
    if (!model) return model.error();
    return Answer(std::make_shared<learn::FittedModel>(std::move(*model)));
  }
  const auto measurements = formats::parse_measurements(*text);
  if (!measurements) return measurements.error();
  return Answer(std::make_shared<learn::TableModel>(*measurements));
}

Result<plan::RecutTimes> load_recut_times(const std::string& path) {
  auto source = read_source(path);
  if (!source) return source.error();
  const formats::ImportFormat* published = formats::find_import_format("mig-reconfig");
  if (published != nullptr && !formats::import_kind(*published, *source).empty()) {
    auto imported = formats::import_text(published->name, {*source});
    if (!imported) return imported.error();
    source->text = std::move(*imported);
  }
  const auto recuts = formats::parse_recuts(*source);
  if (!recuts) return recuts.error();
  plan::RecutTimes times;
  times.create_ms = medians_of(*recuts, formats::RecutAction::create);
  times.destroy_ms = medians_of(*recuts, formats::RecutAction::destroy);
  if (!times.create_ms.empty() && !times.destroy_ms.empty()) return times;
  return Error{ErrorCode::invalid, source->name + ": expected rows of both actions, create and destroy"};
}

}  // namespace tangram::cli
