#include "cli/plan_inputs.h"

#include "cli/inputs.h"
#include "formats/measurements_file.h"
#include "formats/plan_file.h"
#include "lab/model_file.h"
#include "learn/models/table.h"

namespace tangram::cli {

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

}  // namespace tangram::cli
