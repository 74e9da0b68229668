// What to measure next.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "learn/candidate.h"
#include "learn/knowledge.h"
#include "learn/regret.h"

namespace tangram::learn {

enum class SamplerKind {
  active,  // The point that most reduces the expected regret of the plan.
  random,  // Uniform, without repetition.
  latin,   // Latin hypercube: every slice, batch, size and number of processes about equally often.
  grid,    // Evenly over the grid that ParvaGPU suggests: batches to 128, one to three processes.
};
std::optional<SamplerKind> parse_sampler_kind(std::string_view name);
std::string_view to_string(SamplerKind kind);

struct SamplerOptions {
  SamplerKind kind = SamplerKind::active;
  std::size_t budget = 15;      // Measurements in all, out-of-memory runs included.
  double target_error = 0;      // Stops when the expected median error of the rest is below; 0: never.
  double target_regret = 0.02;  // ... and the expected regret too.
  std::size_t stop_min = 8;     // Measurements before it may stop by itself: fewer cannot tell that they mislead.
  std::uint64_t seed = 1;
};

// Everything the choice depends on: called twice with the same, it answers the same, so an interrupted run resumes.
struct SamplerInput {
  Target target;
  std::span<const Candidate> candidates;  // What may be measured, each once.
  std::span<const Measurement> measured;  // In the order in which they were measured.
  const Knowledge* knowledge = nullptr;   // Never null.
  const Regret* regret = nullptr;         // Null: only uncertainty counts.
};

struct SamplerChoice {
  std::optional<std::size_t> next{};  // Index of a candidate that was not measured; nothing: stop.
  std::string reason{};               // For people: "memory frontier of 1g.10gb", "the budget of 15 is reached".
  // Median over the candidates that were not measured and probably fit, by the model itself; 0 where not computed.
  double expected_error = 0;
  double expected_regret = 0;
};

SamplerChoice next_measurement(const SamplerInput& input, const SamplerOptions& options);

// True if `candidate` cannot fit because `failed` did not: a larger batch, input or number of processes never needs
// less memory on the same slice. Such candidates are not worth a measurement.
bool at_least_as_large(const Candidate& candidate, const Candidate& failed);

// The candidates among `candidates` that ParvaGPU's method would measure: batches to 128 and at most three processes.
std::vector<std::size_t> parvagpu_grid(std::span<const Candidate> candidates);

}  // namespace tangram::learn
