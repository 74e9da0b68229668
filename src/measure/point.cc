// Measuring one point: load the replica, warm up, then repeat until the mean is known precisely enough.
//
// Loading dominates the time of a short point, so the replica stays loaded from one point to the next while only batch
// and size change. At most one replica is loaded at a time.

#include "measure/point.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace tangram::measure {
namespace {

using engines::BatchShape;
using engines::Completed;
using engines::NotThere;
using engines::OutOfMemory;

// The row of a point without results. As it is, without a latency, it means "out of memory".
Measurement empty_measurement(const learn::Target& target, const learn::Candidate& candidate) {
  Measurement m;
  m.device = target.device;
  m.model = target.model;
  m.mig_profile = candidate.mig_profile;
  m.batch = candidate.batch;
  m.size = candidate.size;
  m.processes = candidate.processes;
  return m;
}

PointOutcome out_of_memory(const learn::Target& target, const learn::Candidate& candidate) {
  return Measured{empty_measurement(target, candidate), {}};
}

// Files hold whole nanoseconds. Digits below are noise, and a rounded number reads back exactly as it was written.
double whole_nanoseconds(double ms) { return std::round(ms * 1e6) / 1e6; }

// Six digits are more than the precision of any run.
double six_digits(double value) {
  const double scale = std::pow(10.0, 5 - std::floor(std::log10(value)));
  return std::round(value * scale) / scale;
}

// The timed runs of one point.
struct Series {
  std::vector<double> ms;
  std::optional<double> memory_mib;
  std::optional<double> spread_ms;  // As the engine knows it.

  void add(double run_ms, const Completed& completed) {
    ms.push_back(run_ms);
    if (completed.spread) spread_ms = to_milliseconds(*completed.spread);
    // The peak over all runs: memory is about whether every run fits.
    if (completed.memory_mib) memory_mib = std::max(memory_mib.value_or(0), *completed.memory_mib);
  }
};

// Turns the series into a row. A spread that the engine states itself is better than that of the few runs here.
Measured conclude(Measurement m, const Series& series) {
  const Timing timing = summarise(series.ms);
  // A latency of 0 would have no logarithm for the fit; a nanosecond is the least that a file can hold.
  m.latency_ms = std::max(1e-6, whole_nanoseconds(timing.mean_ms));
  if (series.spread_ms) {
    m.latency_spread_ms = whole_nanoseconds(*series.spread_ms);
  } else if (timing.runs - timing.outliers > 1) {
    m.latency_spread_ms = whole_nanoseconds(timing.spread_ms);
  }
  if (series.memory_mib) m.memory_mib = std::round(*series.memory_mib * 1e3) / 1e3;
  m.throughput_per_s = six_digits(static_cast<double>(m.batch * m.processes) / *m.latency_ms * 1e3);
  return {std::move(m), timing};
}

}  // namespace

PointMeter::PointMeter(engines::Engine& engine, Clock& clock, RepeatOptions options, std::function<Halt()> halt)
    : engine_(engine), clock_(clock), options_(options), halt_(std::move(halt)) {
  TANGRAM_CHECK(options.repeats_min >= 1 && options.repeats_min <= options.repeats_max, "repeats are a range");
  // One run says everything of an engine whose runs do not vary.
  if (!engine.capabilities().varies) options_ = {.warm_up = 0, .repeats_min = 1, .repeats_max = 1};
}

Result<std::optional<PointOutcome>> PointMeter::ensure_loaded(const learn::Target& target,
                                                              const learn::Candidate& candidate) {
  const engines::Placement wanted{target.device, candidate.mig_profile, target.model, candidate.processes};
  if (replica_ != nullptr && placement_ == wanted) return std::optional<PointOutcome>();
  replica_.reset();  // First, because two do not fit on one slice.
  TANGRAM_TRY(auto loaded, engine_.load(wanted));
  if (auto* missing = std::get_if<NotThere>(&loaded)) return std::optional<PointOutcome>(std::move(*missing));
  if (std::holds_alternative<OutOfMemory>(loaded)) return std::optional(out_of_memory(target, candidate));
  replica_ = std::move(std::get<std::unique_ptr<engines::LoadedReplica>>(loaded));
  placement_ = wanted;
  return std::optional<PointOutcome>();
}

Result<PointMeter::RunAnswer> PointMeter::run(const BatchShape& shape) {
  const TimePoint begin = clock_.now();
  auto outcome = replica_->run(shape);
  // An engine that knows the duration is trusted, since the clock here also counts the call itself.
  const Duration watched = clock_.now() - begin;
  if (!outcome) return outcome.error();
  if (std::holds_alternative<OutOfMemory>(*outcome)) return RunAnswer(OutOfMemory{});
  if (auto* missing = std::get_if<NotThere>(&*outcome)) return RunAnswer(std::move(*missing));
  Completed& completed = std::get<Completed>(*outcome);
  const Duration duration = std::max(Duration(1), completed.duration.value_or(watched));
  return RunAnswer(Run{to_milliseconds(duration), completed});
}

Result<PointOutcome> PointMeter::measure(const learn::Target& target, const learn::Candidate& candidate) {
  TANGRAM_TRY(auto ended, ensure_loaded(target, candidate));
  if (ended) return std::move(*ended);
  return repeat(target, candidate);
}

Result<PointOutcome> PointMeter::repeat(const learn::Target& target, const learn::Candidate& candidate) {
  const BatchShape shape{candidate.batch, candidate.size};
  Series series;
  std::size_t next_look = options_.repeats_min;
  for (std::size_t runs = 0; series.ms.size() < options_.repeats_max; ++runs) {
    const Halt halt = halt_();
    // Out of time keeps a point that has enough runs. An interruption keeps nothing, so that the resumed session
    // measures the point as if it had never begun.
    const bool usable = series.ms.size() >= options_.repeats_min;
    if (halt == Halt::interrupted || (halt == Halt::out_of_time && !usable)) return PointOutcome(Abandoned{halt});
    if (halt == Halt::out_of_time) break;
    TANGRAM_TRY(auto answer, run(shape));
    if (auto* missing = std::get_if<NotThere>(&answer)) return PointOutcome(std::move(*missing));
    if (std::holds_alternative<OutOfMemory>(answer)) return out_of_memory(target, candidate);
    if (runs < options_.warm_up) continue;
    const Run& timed = std::get<Run>(answer);
    series.add(timed.ms, timed.completed);
    // Looking after each run would stop at an interval that is narrow by luck; see kRunsGrowth.
    if (series.ms.size() < next_look) continue;
    if (summarise(series.ms).half_width <= options_.precision) break;
    next_look = static_cast<std::size_t>(std::ceil(static_cast<double>(next_look) * kRunsGrowth));
  }
  Measured measured = conclude(empty_measurement(target, candidate), series);
  const engines::LoadFacts facts = replica_->load_facts();
  if (facts.duration) measured.measurement.load_ms = whole_nanoseconds(to_milliseconds(*facts.duration));
  if (facts.weights_mib) measured.measurement.weights_mib = std::round(*facts.weights_mib * 1e3) / 1e3;
  return PointOutcome(std::move(measured));
}

}  // namespace tangram::measure
