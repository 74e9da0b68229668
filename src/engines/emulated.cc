// Takes the time that a latency model predicts.
//
// With a `sleep` the time passes for real and the caller measures it, as with a real engine;
// without, runs end at once and report what they would have taken. A run whose memory exceeds the slice's is out of
// memory.

#include <algorithm>

#include "core/geometry.h"
#include "engines/detail/noise.h"

namespace tangram::engines {
namespace {

constexpr const char* kNotPredicted = "the latency model has no prediction for this run";
constexpr double kMibPerGib = 1024;
// The p99 of a normal spread lies this many standard deviations above the mean.
constexpr double kP99Deviations = 2.326;

// The memory of the slice if the geometry tables know it. CPU slices share the host's memory and have no limit of their
// own.
std::optional<double> slice_memory_mib(const RunPoint& point) {
  const Geometry* geometry = find_geometry(point.device);
  if (geometry == nullptr) return std::nullopt;
  const auto profile = find_profile(*geometry, point.mig_profile);
  if (!profile) return std::nullopt;
  const auto& memory = geometry->profiles[*profile].memory_gib;
  if (memory.evidence == Evidence::unknown) return std::nullopt;
  return memory.value * kMibPerGib;
}

// The limit of a slice without one. It is finite, so that infinite memory (a run known to fail) still exceeds it.
constexpr double kUnlimitedMib = 1e15;

struct MemoryAnswer {
  std::optional<double> mib;
  bool fits = true;
};

MemoryAnswer memory_of(const EngineConfig& config, const RunPoint& point) {
  if (!config.memory_mib) return {};
  const auto mib = config.memory_mib(point);
  const auto limit = config.memory_limit_mib ? config.memory_limit_mib : slice_memory_mib(point);
  return {mib, mib.value_or(0) <= limit.value_or(kUnlimitedMib)};
}

class EmulatedReplica final : public LoadedReplica {
 public:
  EmulatedReplica(const EngineConfig& config, Placement placement)
      : config_(config), placement_(std::move(placement)), noise_(config.seed, placement_) {}

  Result<RunOutcome> run(const BatchShape& shape) override {
    const RunPoint point{placement_.device, placement_.mig_profile, placement_.model, shape.batch,
                         shape.size,        placement_.processes};
    const MemoryAnswer memory = memory_of(config_, point);
    if (!memory.fits) return RunOutcome(OutOfMemory{});
    const auto prediction = config_.latency->predict(point);
    if (!prediction) return RunOutcome(NotThere{kNotPredicted});
    const Duration duration = duration_of(shape, *prediction);
    if (!config_.sleep) return RunOutcome(Completed{duration, std::nullopt, memory.mib});
    config_.sleep(duration);
    return RunOutcome(Completed{std::nullopt, std::nullopt, memory.mib});
  }

 private:
  Duration duration_of(const BatchShape& shape, const Prediction& prediction) {
    if (!config_.noise) return prediction.mean;
    const double spread_s = to_seconds(std::max(Duration::zero(), prediction.p99 - prediction.mean)) / kP99Deviations;
    return noise_.draw(shape, {prediction.mean, from_seconds(spread_s)});
  }

  const EngineConfig& config_;
  Placement placement_;
  detail::Noise noise_;
};

class Emulated final : public Engine {
 public:
  explicit Emulated(const EngineConfig& config) : config_(config) {
    TANGRAM_CHECK(config.latency != nullptr, "an emulated engine has a latency model");
  }

  Capabilities capabilities() const override {
    const bool real_time = static_cast<bool>(config_.sleep);
    return {.times_itself = !real_time,
            .reports_memory = static_cast<bool>(config_.memory_mib),
            .varies = config_.noise || real_time};
  }

  // A run out of memory has no prediction either, but its outcome is known and worth measuring.
  std::optional<std::string> why_not(const RunPoint& point) const override {
    if (config_.latency->predict(point) || !memory_of(config_, point).fits) return std::nullopt;
    return kNotPredicted;
  }

  Result<LoadOutcome> load(const Placement& placement) override {
    return LoadOutcome(std::make_unique<EmulatedReplica>(config_, placement));
  }

 private:
  EngineConfig config_;
};

}  // namespace

std::unique_ptr<Engine> make_emulated(const EngineConfig& config) { return std::make_unique<Emulated>(config); }

}  // namespace tangram::engines
