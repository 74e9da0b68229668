// What an engine that does not run models answers from: recorded rows, or a model fitted to them.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "engines/engine.h"
#include "learn/candidate.h"
#include "learn/fitted_model.h"

namespace tangram::measure {

struct RecordedSource {
  Measurements rows;                                 // Of a measurements file, or those that a model was fitted to.
  std::shared_ptr<const learn::FittedModel> fitted;  // Of a model file; null: the rows are all there is.
};
RecordedSource source_of(learn::FittedModel model);

// The rows about the target. Errors, which name `path` and what it has instead: there are none.
Result<Measurements> select_target(const Measurements& all, const learn::Target& target, const std::string& path);
// Some row says how much its runs varied.
bool has_spread(const Measurements& rows);

// Makes the engine `emulated` answer from `source`. Memory comes from the fitted model, infinite where a run more
// probably does not fit, or is interpolated between the rows.
void set_emulation(engines::EngineConfig& config, const RecordedSource& source);

}  // namespace tangram::measure
