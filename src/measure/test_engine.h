// An engine and a clock that do what a test wrote down.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engines/engine.h"
#include "measure/clock.h"

namespace tangram::measure {

class ScriptedClock final : public Clock {
 public:
  TimePoint now() override { return now_; }
  void pass(Duration d) { now_ += d; }

 private:
  TimePoint now_{};
};

// `script` answers each run; it is told the point and how many runs of this point came before. A completed run takes
// its time on the clock, and reports it only if the engine times itself.
class ScriptedEngine final : public engines::Engine {
 public:
  using Script = std::function<Result<engines::RunOutcome>(const RunPoint&, std::size_t run)>;

  ScriptedEngine(ScriptedClock& clock, Script script) : clock_(clock), script_(std::move(script)) {}

  engines::Capabilities capabilities() const override { return {.times_itself = times_itself, .varies = varies}; }
  std::optional<std::string> why_not(const RunPoint& point) const override {
    return refuse ? refuse(point) : std::nullopt;
  }
  Result<engines::LoadOutcome> load(const engines::Placement& placement) override {
    loads.push_back(placement);
    return engines::LoadOutcome(std::make_unique<Replica>(*this, placement));
  }

  bool times_itself = false;
  bool varies = true;
  std::function<std::optional<std::string>(const RunPoint&)> refuse;
  std::vector<engines::Placement> loads;
  std::vector<engines::BatchShape> asked;  // Every run, in order.

 private:
  class Replica final : public engines::LoadedReplica {
   public:
    Replica(ScriptedEngine& engine, engines::Placement placement) : engine_(engine), placement_(std::move(placement)) {}

    Result<engines::RunOutcome> run(const engines::BatchShape& shape) override {
      if (!engine_.asked.empty() && engine_.asked.back().batch != shape.batch) runs_ = 0;
      engine_.asked.push_back(shape);
      const RunPoint point{placement_.device, placement_.mig_profile, placement_.model, shape.batch,
                           shape.size,        placement_.processes};
      auto outcome = engine_.script_(point, runs_++);
      if (!outcome) return outcome;
      if (auto* completed = std::get_if<engines::Completed>(&*outcome)) {
        engine_.clock_.pass(*completed->duration);
        if (!engine_.times_itself) completed->duration.reset();
      }
      return outcome;
    }

   private:
    ScriptedEngine& engine_;
    engines::Placement placement_;
    std::size_t runs_ = 0;
  };

  ScriptedClock& clock_;
  Script script_;
};

inline Result<engines::RunOutcome> takes(Duration duration, std::optional<double> memory_mib = std::nullopt) {
  return engines::RunOutcome(engines::Completed{duration, std::nullopt, memory_mib});
}

}  // namespace tangram::measure
