// Separate from the factories, so that a program that only names engines does not link what they need.
#include "engines/batch_engine.h"

namespace tangram::engines {
namespace {

constexpr BatchEngineInfo kBatchEngines[] = {
#define TANGRAM_BATCH_ENGINE(name, summary) {#name, summary},
#include "engines/batch_engines.def"
#undef TANGRAM_BATCH_ENGINE
};

}  // namespace

std::span<const BatchEngineInfo> batch_engines() { return kBatchEngines; }

}  // namespace tangram::engines
