// The regret of choosing by a fitted model, and what a further measurement is expected to gain.
//
// A configuration is worth its samples a second for each compute slice, provided that its latency keeps the Slo.
// Believed latency is log-normal: log_ms with a standard deviation, and a probability that the model fits into memory.
// The planner takes the highest expected worth; the regret compares the real worth of that choice with the best real
// one. Example: two configurations, A worth 10 if it keeps the Slo (probability 0.6), B worth 7 (0.99). The planner
// takes B; if A does keep the Slo in reality, the regret is 0.3.

#include "lab/slo_regret.h"

#include <algorithm>

#include "base/check.h"
#include "base/math.h"
#include "learn/models/analytic_fit.h"
#include "learn/statistics.h"

namespace tangram::lab {
namespace {

constexpr std::size_t kSloCount = 12;
// A gain is looked for this much further out than the model believes possible. Where few measurements mislead a model,
// its deviations are too small as well, and a candidate that it takes for too slow would never be measured.
constexpr double kGainDoubt = 1.5;

using learn::Candidate;

// The worth of each candidate at a latency of one millisecond: samples per millisecond and compute slice. Divided by
// the latency it is the throughput, so it has to be computed only once.
std::vector<double> values_of(const std::string& device, const std::vector<Candidate>& candidates) {
  std::vector<double> values;
  for (const auto& c : candidates) {
    const auto features = learn::features_of(device, c);
    TANGRAM_CHECK(features.has_value(), "measurements name profiles of their device");
    values.push_back(static_cast<double>(c.batch * c.processes) / features->compute);
  }
  return values;
}

// The probability that a latency keeps the Slo. A deviation of 0 is a measured candidate, whose latency is known.
double keeps_probability(const learn::Belief& belief, double log_slo) {
  if (belief.deviation <= 0) return belief.log_ms <= log_slo ? 1 : 0;
  return math::normal_cdf((log_slo - belief.log_ms) / belief.deviation);
}

// Picks the configuration with the most throughput of a compute slice that keeps a promise.
class Chooser {
 public:
  // `values` are throughputs at a latency of one millisecond.
  explicit Chooser(std::vector<double> values) : values_(std::move(values)) {}

  double value(std::size_t i, const std::vector<double>& real_ms) const { return values_[i] / real_ms[i]; }

  struct Choice {
    std::size_t index = 0;
    double expected = 0;  // Throughput times the probability that it counts.
  };
  // The highest throughput times the probability that it fits and keeps the promise.
  std::optional<Choice> choose(std::span<const learn::Belief> believed, double slo_ms) const {
    const double log_slo = math::log(slo_ms);
    std::optional<Choice> chosen;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const double hoped = chosen ? chosen->expected : 0;
      const double reward = believed[i].fits * values_[i] * math::exp(-believed[i].log_ms);
      // The probability is at most 1, so a reward below the best expectation cannot win, and normal_cdf need not be
      // called.
      if (reward <= hoped) continue;
      const double expected = reward * keeps_probability(believed[i], log_slo);
      if (expected > hoped) chosen = Choice{i, expected};
    }
    return chosen;
  }

  // Expected improvement: the mean, over what `belief` allows, of how far candidate `i` exceeds `bar` while it keeps
  // the Slo. With x normal, the mean of e^-x below a limit is e^(variance / 2 - mean) times a share of the normal
  // distribution.
  double excess(std::size_t i, const learn::Belief& belief, double bar, double slo_ms) const {
    const double spread = kGainDoubt * belief.deviation;
    if (spread <= 0 || belief.fits <= 0) return 0;
    // Two conditions bound the latency from above, to keep the Slo and to exceed the bar. The tighter one counts.
    const double limit = std::min(math::log(slo_ms), bar > 0 ? math::log(values_[i] / bar) : learn::kOutOfMemory);
    const double away = (limit - belief.log_ms) / spread;
    const double reached = values_[i] * math::exp(spread * spread / 2 - belief.log_ms);
    const double more = reached * math::normal_cdf(away + spread) - bar * math::normal_cdf(away);
    return belief.fits * std::max(more, 0.0);
  }

  // The candidate that is best in reality; nullopt if none keeps the Slo.
  std::optional<std::size_t> best(const std::vector<double>& real_ms, double slo_ms) const {
    std::optional<std::size_t> right;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (real_ms[i] <= slo_ms && (!right || value(i, real_ms) > value(*right, real_ms))) right = i;
    }
    return right;
  }

 private:
  std::vector<double> values_;
};

// The mean relative loss over all Slos and realities, from 0 (the best choice everywhere) to 1.
double loss_of(const Chooser& chooser, std::span<const double> slos, std::span<const learn::Belief> believed,
               std::span<const std::vector<double>> realities) {
  double loss_sum = 0;
  for (const double slo : slos) {
    const auto chosen = chooser.choose(believed, slo);
    for (const auto& real : realities) {
      const auto right = chooser.best(real, slo);
      if (!right) continue;  // Nothing keeps this promise, so nothing can be lost.
      const bool kept = chosen && real[chosen->index] <= slo;
      // A choice that breaks the promise, or no choice at all, loses everything.
      loss_sum += kept ? 1 - chooser.value(chosen->index, real) / chooser.value(*right, real) : 1;
    }
  }
  return loss_sum / static_cast<double>(slos.size() * realities.size());
}

// For each candidate the expected improvement over the present choice, relative to it, averaged over the Slos.
std::vector<double> gains_of(const Chooser& chooser, std::span<const double> slos,
                             std::span<const learn::Belief> believed) {
  std::vector<double> gains(believed.size());
  for (const double slo : slos) {
    const auto chosen = chooser.choose(believed, slo);
    if (!chosen) continue;
    const double share = 1 / (chosen->expected * static_cast<double>(slos.size()));
    for (std::size_t i = 0; i < gains.size(); ++i) {
      gains[i] += share * chooser.excess(i, believed[i], chosen->expected, slo);
    }
  }
  return gains;
}

}  // namespace

std::vector<double> typical_slos_ms(const Measurements& measurements) {
  std::vector<double> latencies;
  for (const auto& m : measurements) {
    if (m.latency_ms) latencies.push_back(*m.latency_ms);
  }
  // Below 1.5 times the least latency hardly any configuration qualifies, and above the p95 nearly all do: neither
  // would tell models apart.
  const double low = 1.5 * learn::quantile(latencies, 0);
  const double high = std::max(low, learn::quantile(latencies, 0.95));
  std::vector<double> slos;
  for (std::size_t i = 0; i < kSloCount; ++i) {
    slos.push_back(low * math::pow(high / low, static_cast<double>(i) / (kSloCount - 1)));
  }
  return slos;
}

learn::Regret slo_regret(std::string device, std::vector<Candidate> candidates, std::vector<double> slos_ms) {
  const Chooser chooser(values_of(device, candidates));
  return {.loss = [chooser, slos = slos_ms](auto believed,
                                            auto realities) { return loss_of(chooser, slos, believed, realities); },
          .gain = [chooser, slos = slos_ms](auto believed) { return gains_of(chooser, slos, believed); }};
}

}  // namespace tangram::lab
