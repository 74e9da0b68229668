// Fitted models as JSON documents: what `tangram learn` writes and `tangram predict` reads.
#pragma once

#include <string>

#include "formats/describe.h"
#include "formats/source.h"
#include "learn/fitted_model.h"

namespace tangram::lab {

inline constexpr int kModelFileVersion = 2;

// Reads what write_model writes. The model read back predicts the same bytes.
Result<learn::FittedModel> parse_model(const formats::Source& source);
std::string write_model(const learn::FittedModel& model);

// For the schema and the reference page.
formats::Shape model_shape();

}  // namespace tangram::lab
