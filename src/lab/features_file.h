// What is known of networks without running them: CSV with one row for each model, or for each of its sizes.
#pragma once

#include "formats/describe.h"
#include "formats/source.h"
#include "learn/knowledge.h"

namespace tangram::lab {

// Columns: model, and any of parameters, flops_per_sample and size.
Result<std::vector<learn::ModelFeatures>> parse_features(const formats::Source& source);

}  // namespace tangram::lab
