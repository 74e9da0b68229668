// One point: load, warm up, repeat until the mean is known well enough.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "base/result.h"
#include "core/measurement.h"
#include "engines/engine.h"
#include "learn/candidate.h"
#include "measure/clock.h"
#include "measure/timing.h"

namespace tangram::measure {

// When the runs of a point are enough. An engine whose runs do not vary is asked once, without warm-up.
struct RepeatOptions {
  std::size_t warm_up = 3;      // Runs that are not timed: caches fill, clocks rise, kernels are chosen.
  std::size_t repeats_min = 8;  // Fewer say little about their own spread.
  std::size_t repeats_max = 100;
  double precision = 0.02;  // Enough when the 95 % interval of the mean is within this share on either side.
};

// The interval is looked at after repeats_min runs and then each time that their number has grown by this factor. A
// look after every run would stop too often at an interval that is narrow by luck: a stated 95 % interval would cover
// 89 % at a spread of 5 %; looking this rarely covers 92 % or more.
inline constexpr double kRunsGrowth = 1.5;

// Why a point ends before its interval is narrow. Asked before every run.
enum class Halt {
  no,
  out_of_time,  // What was timed so far is kept if it is repeats_min runs or more.
  interrupted,  // The point is abandoned, so that a run which resumes measures it as if nothing had happened.
};

struct Measured {
  Measurement measurement;
  Timing timing;  // Without runs where the point was out of memory.
};
struct Abandoned {
  Halt why = Halt::interrupted;
};
using PointOutcome = std::variant<Measured, engines::NotThere, Abandoned>;

// Measures points one after the other. The replica stays loaded while the next point wants the same one.
class PointMeter {
 public:
  // `engine` and `clock` outlive it. `halt` is asked before every run.
  PointMeter(engines::Engine& engine, Clock& clock, RepeatOptions options, std::function<Halt()> halt);

  Result<PointOutcome> measure(const learn::Target& target, const learn::Candidate& candidate);

 private:
  struct Run {
    double ms = 0;
    engines::Completed completed;
  };
  using RunAnswer = std::variant<Run, engines::OutOfMemory, engines::NotThere>;

  // Ensures that replica_ is the one of the candidate; otherwise answers the outcome of the point.
  Result<std::optional<PointOutcome>> ensure_loaded(const learn::Target& target, const learn::Candidate& candidate);
  // Runs one batch and times it. Requires a loaded replica.
  Result<RunAnswer> run(const engines::BatchShape& shape);
  // Warms up and runs until the mean is precise enough or `halt_` says stop. Requires a loaded replica.
  Result<PointOutcome> repeat(const learn::Target& target, const learn::Candidate& candidate);

  engines::Engine& engine_;
  Clock& clock_;
  RepeatOptions options_;
  std::function<Halt()> halt_;
  engines::Placement placement_;  // Of replica_.
  std::unique_ptr<engines::LoadedReplica> replica_;
};

}  // namespace tangram::measure
