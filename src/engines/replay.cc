// Answers from a measurements file, so that a measuring strategy can be judged on real data without the hardware.
//
// Without noise a run takes exactly the recorded latency, and the recorded spread is reported beside it. With noise it
// is drawn around it. A point that is not in the file is answered with "not measured there".

#include <map>
#include <tuple>

#include "engines/detail/noise.h"

namespace tangram::engines {
namespace {

constexpr const char* kNotThere = "the measurements file has no such run";

using Key = std::tuple<std::string, std::string, std::string, std::int64_t, std::int64_t, std::int64_t>;

Key key_of(const RunPoint& point) {
  return {std::string(point.device),
          std::string(point.mig_profile),
          std::string(point.model),
          point.batch,
          point.size,
          point.processes};
}

RunPoint point_of(const Placement& placement, const BatchShape& shape) {
  return {placement.device, placement.mig_profile, placement.model, shape.batch, shape.size, placement.processes};
}

// The state shared by all replicas. It is built once and then only read.
struct Recording {
  explicit Recording(const EngineConfig& config) : noise(config.noise), seed(config.seed), sleep(config.sleep) {
    for (const auto& m : config.measurements) {
      runs.emplace(Key{m.device, m.mig_profile, m.model, m.batch, m.size, m.processes}, m);
    }
  }

  const Measurement* find(const RunPoint& point) const {
    const auto found = runs.find(key_of(point));
    return found == runs.end() ? nullptr : &found->second;
  }

  bool noise;
  std::uint64_t seed;
  std::function<void(Duration)> sleep;
  std::map<Key, Measurement> runs;
};

class RecordedReplica final : public LoadedReplica {
 public:
  RecordedReplica(const Recording& recording, Placement placement)
      : recording_(recording), placement_(std::move(placement)), noise_(recording.seed, placement_) {}

  Result<RunOutcome> run(const BatchShape& shape) override {
    const Measurement* recorded = recording_.find(point_of(placement_, shape));
    if (recorded == nullptr) return RunOutcome(NotThere{kNotThere});
    if (recorded->out_of_memory()) return RunOutcome(OutOfMemory{});
    const Completed completed = complete(shape, *recorded);
    if (recording_.sleep) recording_.sleep(*completed.duration);
    return RunOutcome(completed);
  }

 private:
  Completed complete(const BatchShape& shape, const Measurement& recorded) {
    // Requires a run that was not out of memory: only those have a latency.
    const Duration mean = from_milliseconds(*recorded.latency_ms);
    std::optional<Duration> spread;
    if (recorded.latency_spread_ms) spread = from_milliseconds(*recorded.latency_spread_ms);
    // With noise the spread is not reported: the caller estimates it from the draws, as it would on hardware.
    if (!recording_.noise) return {mean, spread, recorded.memory_mib};
    return {noise_.draw(shape, {mean, spread.value_or(Duration::zero())}), std::nullopt, recorded.memory_mib};
  }

  const Recording& recording_;
  Placement placement_;
  detail::Noise noise_;
};

class Replay final : public Engine {
 public:
  explicit Replay(const EngineConfig& config) : recording_(config) {}

  Capabilities capabilities() const override {
    return {.times_itself = true, .reports_memory = true, .varies = recording_.noise};
  }

  std::optional<std::string> why_not(const RunPoint& point) const override {
    if (recording_.find(point) != nullptr) return std::nullopt;
    return kNotThere;
  }

  Result<LoadOutcome> load(const Placement& placement) override {
    return LoadOutcome(std::make_unique<RecordedReplica>(recording_, placement));
  }

 private:
  Recording recording_;
};

}  // namespace

std::unique_ptr<Engine> make_replay(const EngineConfig& config) { return std::make_unique<Replay>(config); }

}  // namespace tangram::engines
