// Which points are measured, in which order, and when it is enough.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engines/engine.h"
#include "learn/candidate.h"
#include "learn/sampler.h"
#include "measure/clock.h"
#include "measure/point.h"

namespace tangram::measure {

// Chooses the next candidate, as learn::next_measurement does, from the candidates and the measurements so far.
using Choose =
    std::function<learn::SamplerChoice(std::span<const learn::Candidate>, std::span<const Measurement> measured)>;

struct Budget {
  std::size_t measurements_max = 15;  // Of the target in all, with those that were there before.
  std::optional<Duration> time_max;   // Of this session.
};

struct Task {
  learn::Target target;
  std::vector<learn::Candidate> candidates;  // Each once.
  Measurements before;                       // What is known of the target already, in the order of measuring.
  RepeatOptions repeats;
  Budget budget;
};

// What the session touches. All outlive it; functions may be empty but for `choose` and `store`.
struct Surroundings {
  engines::Engine& engine;
  Clock& clock;
  Choose choose;
  // Keeps everything measured of the target so far. Called after every point, so that nothing is lost.
  std::function<Result<Nothing>(const Measurements&)> store;
  std::function<bool()> interrupted;           // Asked before every run.
  std::function<void(double share)> progress;  // Of the budget; before every run.
};

enum class Stop {
  enough,  // The sampler wants no more: the stated error is reached, or everything was measured.
  budget,  // As many measurements as were allowed.
  out_of_time,
  interrupted,
};
std::string_view to_string(Stop stop);

struct MeasuredPoint {
  Measurement measurement;
  Timing timing;
  std::string reason;  // Why the sampler chose it.
};

// Candidates that were not measured, by what kept them from it.
struct Skipped {
  std::string reason;
  std::vector<learn::Candidate> candidates;
};

struct Report {
  std::vector<MeasuredPoint> points;  // Of this session, in order.
  std::vector<Skipped> skipped;
  Measurements measurements;  // Of the target: those before and those of this session.
  Stop stop = Stop::enough;
  std::string stop_reason;    // For people.
  double expected_error = 0;  // As the sampler last stated them; 0 where it computes none.
  double expected_regret = 0;
  Duration elapsed{};
};

// Measures until the sampler is satisfied or the budget is used up. After an out-of-memory run, no candidate is
// measured that is at least as large in batch, size and processes on the same profile. Which points are measured
// depends only on the task and on earlier measurements, so a session that starts with the measurements of an
// interrupted one ends as that one would have. An error of the engine or of `store` ends the session; what was stored
// before stays.
Result<Report> measure(const Task& task, const Surroundings& surroundings);

}  // namespace tangram::measure
