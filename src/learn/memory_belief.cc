// Bayesian inference over a grid of guesses of two constants: MiB for each process and MiB for each sample.
//
// Each measurement multiplies the weight of a guess by its likelihood. A run that fitted excludes guesses that need too
// much memory, an out-of-memory run those that need too little, and a measured peak leaves a narrow ridge. A grid,
// because the evidence is mostly inequalities, for which there is no closed form.
//
// Invariant of a finished belief: it has at least one guess, and the weights sum to 1.

#include "learn/memory_belief.h"

#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "core/geometry.h"
#include "learn/models/analytic_fit.h"

namespace tangram::learn {
namespace {

constexpr double kBaseMibMin = 200;
constexpr double kSampleMibMin = 0.25;
constexpr int kBaseSteps = 15;    // 200 MiB to 25 GiB.
constexpr int kSampleSteps = 30;  // 0.25 MiB to 6 GiB.
constexpr double kStep = 0.35;    // Of the natural logarithm.
constexpr double kFineStep = 0.06;
// A measured peak is matched to a few percent: the formula is simpler than an allocator.
constexpr double kPeakSpread = 0.05;
constexpr double kOthersSpread = 0.8;  // Of log MiB between models.
// A run may fail or fit against all expectation, for example because of another process. Without this floor one such
// run would exclude the true guess for good.
constexpr double kSurprise = 0.01;

// From 0 where memory is certainly too small to 1 where it is certainly enough, linear between.
double share_that_fits(std::optional<double> capacity, double mib) {
  if (!capacity) return 1;
  return std::clamp(0.5 + (*capacity / mib - 1) / (4 * kCapacitySpread), 0.0, 1.0);
}

// A logarithmic grid: memory needs of networks differ by orders of magnitude.
struct GuessGrid {
  MemoryGuess least;
  int base_steps = kBaseSteps;
  int sample_steps = kSampleSteps;
  double step = kStep;
};

std::vector<MemoryGuess> guesses_of(const GuessGrid& grid, bool sized) {
  std::vector<MemoryGuess> guesses;
  // Only models with several input sizes can show a quadratic term.
  const std::vector<double> quadratics = sized ? std::vector<double>{0, 0.03, 0.1, 0.3, 1} : std::vector<double>{0};
  for (const double quadratic : quadratics) {
    for (int i = 0; i < grid.base_steps; ++i) {
      const double base = grid.least.base_mib * math::exp(grid.step * i);
      for (int j = 0; j < grid.sample_steps; ++j) {
        guesses.push_back({base, grid.least.sample_mib * math::exp(grid.step * j), quadratic});
      }
    }
  }
  return guesses;
}

// Requires normalised weights. The centre is what later models take as their prior.
void set_centre(MemoryBelief& belief) {
  belief.base_log_mib = belief.sample_log_mib = 0;
  for (std::size_t i = 0; i < belief.guesses.size(); ++i) {
    belief.base_log_mib += belief.weights[i] * math::log(belief.guesses[i].base_mib);
    belief.sample_log_mib += belief.weights[i] * math::log(belief.guesses[i].sample_mib);
  }
}

// The prior weight of a guess: a normal around each model seen, and a little of everything, so that a model unlike all
// others can still be learnt.
double usual(const MemoryGuess& guess, std::span<const MemoryBelief> others) {
  const double log_base = math::log(guess.base_mib);
  const double log_sample = math::log(guess.sample_mib);
  double sum = 0.05;
  for (const auto& other : others) {
    const double base = (log_base - other.base_log_mib) / kOthersSpread;
    const double sample = (log_sample - other.sample_log_mib) / kOthersSpread;
    sum += math::exp(-0.5 * (base * base + sample * sample)) / static_cast<double>(others.size());
  }
  return sum;
}

// By guess: the likelihood of the measurement. A measured peak is much stronger evidence than "it fitted".
std::vector<double> likelihoods(const MemoryBelief& belief, const Measurement& m) {
  const Candidate candidate = candidate_of(m);
  auto result = belief.fits(candidate);
  const bool peak = m.memory_mib && !m.out_of_memory() && *m.memory_mib > 0;
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (peak) {
      const double away = math::log(belief.mib(belief.guesses[i], candidate) / *m.memory_mib) / kPeakSpread;
      // The bound keeps likelihoods above 0 even if no guess is near the peak.
      result[i] = math::exp(-0.5 * std::min(away * away, 50.0));
    } else {
      result[i] = kSurprise + (1 - 2 * kSurprise) * (m.out_of_memory() ? 1 - result[i] : result[i]);
    }
  }
  return result;
}

void weigh(MemoryBelief& belief, std::span<const Measurement> measurements) {
  for (const auto& m : measurements) {
    const auto likely = likelihoods(belief, m);
    double most = 0;
    for (std::size_t i = 0; i < likely.size(); ++i) most = std::max(most, belief.weights[i] *= likely[i]);
    // Scaled after each measurement, because the product of many likelihoods would underflow.
    for (double& w : belief.weights) w /= most;
  }
}

// Drops guesses with less than 1e-4 of the largest weight and makes the weights sum to 1. A belief is kept for each
// model and scanned for each candidate, so it should be small.
void prune(MemoryBelief& belief) {
  const double most = *std::ranges::max_element(belief.weights);
  MemoryBelief kept = belief;
  kept.guesses.clear();
  kept.weights.clear();
  double sum = 0;
  for (std::size_t i = 0; i < belief.guesses.size(); ++i) {
    if (belief.weights[i] < 1e-4 * most) continue;
    kept.guesses.push_back(belief.guesses[i]);
    kept.weights.push_back(belief.weights[i]);
    sum += belief.weights[i];
  }
  for (double& w : kept.weights) w /= sum;
  belief = std::move(kept);
  set_centre(belief);
}

// Replaces the grid by a finer one around the current centre and weighs it by the measurements alone. The coarse step
// of 0.35 is far wider than the 5 % to which a measured peak pins the sum.
void refine(MemoryBelief& belief, std::span<const Measurement> measurements, bool sized) {
  const MemoryGuess least{math::exp(belief.base_log_mib - 6 * kFineStep),
                          math::exp(belief.sample_log_mib - 12 * kFineStep), 0};
  belief.guesses = guesses_of({least, 13, 25, kFineStep}, sized);
  belief.weights.assign(belief.guesses.size(), 1);
  weigh(belief, measurements);
  prune(belief);
}

}  // namespace

double MemoryBelief::mib(const MemoryGuess& guess, const Candidate& candidate) const {
  const double ratio = static_cast<double>(candidate.size) / size_reference;
  const double factor = ratio * (1 + guess.quadratic * ratio) / (1 + guess.quadratic);
  return static_cast<double>(candidate.processes) *
         (guess.base_mib + guess.sample_mib * static_cast<double>(candidate.batch) * factor);
}

double MemoryBelief::mean_mib(const Candidate& candidate) const {
  double sum = 0;
  for (std::size_t i = 0; i < guesses.size(); ++i) sum += weights[i] * mib(guesses[i], candidate);
  return sum;
}

std::optional<double> MemoryBelief::capacity_mib(const Candidate& candidate) const {
  const Geometry* geometry = find_geometry(device);
  if (geometry == nullptr) return std::nullopt;
  const auto index = find_profile(*geometry, candidate.mig_profile);
  if (!index) return std::nullopt;
  const auto& memory = geometry->profiles[*index].memory_gib;
  // A capacity that is not published excludes nothing.
  if (memory.evidence == Evidence::unknown) return std::nullopt;
  return memory.value * 1024;
}

std::vector<double> MemoryBelief::fits(const Candidate& candidate) const {
  const auto capacity = capacity_mib(candidate);
  std::vector<double> shares;
  shares.reserve(guesses.size());
  for (const auto& guess : guesses) shares.push_back(share_that_fits(capacity, mib(guess, candidate)));
  return shares;
}

double MemoryBelief::fits_probability(const Candidate& candidate) const {
  const auto shares = fits(candidate);
  double sum = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) sum += weights[i] * shares[i];
  return std::min(sum, 1.0);
}

MemoryBelief believe_memory(const std::string& device, std::span<const Measurement> measurements,
                            std::span<const MemoryBelief> others) {
  MemoryBelief belief;
  belief.device = device;
  const bool sized = std::ranges::any_of(measurements, [](const auto& m) { return m.size > 1; });
  belief.size_reference = sized ? kTokensReference : 1;
  belief.measured = std::ranges::any_of(measurements, [](const auto& m) { return m.memory_mib.has_value(); });
  belief.guesses = guesses_of({.least = {kBaseMibMin, kSampleMibMin, 0}}, sized);
  for (const auto& guess : belief.guesses) belief.weights.push_back(usual(guess, others));
  weigh(belief, measurements);
  prune(belief);
  if (belief.measured) refine(belief, measurements, sized);
  return belief;
}

}  // namespace tangram::learn
