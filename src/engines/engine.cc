// The table of measurable engines, from engines.def: a new engine is one file and one line there.
#include "engines/engine.h"

namespace tangram::engines {

#define TANGRAM_ENGINE(name, summary) std::unique_ptr<Engine> make_##name(const EngineConfig&);
#include "engines/engines.def"
#undef TANGRAM_ENGINE

namespace {

constexpr EngineInfo kEngines[] = {
#define TANGRAM_ENGINE(name, summary) {#name, summary, make_##name},
#include "engines/engines.def"
#undef TANGRAM_ENGINE
};

}  // namespace

std::span<const EngineInfo> engines() { return kEngines; }

const EngineInfo* find_engine(std::string_view name) {
  for (const auto& engine : kEngines) {
    if (engine.name == name) return &engine;
  }
  return nullptr;
}

}  // namespace tangram::engines
