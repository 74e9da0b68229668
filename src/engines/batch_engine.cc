// The factories of the engines that run tensors, from the table batch_engines.def.
#include "engines/batch_engine.h"

#include <fmt/format.h>

namespace tangram::engines {

#define TANGRAM_BATCH_ENGINE(name, summary) std::unique_ptr<BatchEngine> make_batch_##name(const BatchEngineConfig&);
#include "engines/batch_engines.def"
#undef TANGRAM_BATCH_ENGINE

Result<std::unique_ptr<BatchEngine>> make_batch_engine(std::string_view name, const BatchEngineConfig& config) {
#define TANGRAM_BATCH_ENGINE(engine, summary) \
  if (name == #engine) return make_batch_##engine(config);
#include "engines/batch_engines.def"
#undef TANGRAM_BATCH_ENGINE
  return Error{ErrorCode::not_found, fmt::format("unknown engine '{}'; expected one that runs tensors", name)};
}

}  // namespace tangram::engines
