// One prediction of a fitted model, for people and for programs.
#pragma once

#include <string>

#include "learn/fitted_model.h"
#include "report/yaml.h"

namespace tangram::report {

// `estimate` is what `run` says of `candidate`.
std::string estimate_text(const learn::FittedRun& run, const learn::Candidate& candidate,
                          const learn::Estimate& estimate);
Json estimate_json(const learn::FittedRun& run, const learn::Candidate& candidate, const learn::Estimate& estimate);

}  // namespace tangram::report
