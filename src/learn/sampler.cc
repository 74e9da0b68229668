// Four samplers behind one function. Three follow an order that is fixed by the seed: random, Latin hypercube and grid.
// They are the baselines. The fourth, "active", fits a model after each measurement and asks where one more measurement
// is worth most.
//
// The active sampler starts with three anchors: a launch-bound run, then the most work that probably fits on the
// smallest and on the largest slice. After them it scores each candidate by two numbers: how much of the remaining
// uncertainty a measurement removes, and how much a plan could gain from knowing the candidate. Example: while the plan
// would lose nothing by any candidate, only the first number counts.
//
// Invariant: a choice is a function of the input and the seed. No state is kept between calls, so a resumed session
// makes the same choices as one that was never interrupted.

#include "learn/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>

#include "base/check.h"
#include "base/math.h"
#include "base/rng.h"
#include "learn/fit.h"
#include "learn/statistics.h"

namespace tangram::learn {
namespace {

using Indices = std::vector<std::size_t>;

constexpr std::array kKinds{
    std::pair{SamplerKind::active, std::string_view("active")},
    std::pair{SamplerKind::random, std::string_view("random")},
    std::pair{SamplerKind::latin, std::string_view("latin")},
    std::pair{SamplerKind::grid, std::string_view("grid")},
};

// The grid that ParvaGPU profiles.
constexpr std::int64_t kParvagpuBatchMax = 128;
constexpr std::int64_t kParvagpuProcessesMax = 3;

// The samplers with a fixed order.

Indices random_order(std::size_t count, std::uint64_t seed) {
  Indices order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  Rng rng = Rng(seed).stream("random-sampler");
  rng.shuffle(order);
  return order;
}

// Steps of the golden ratio visit the grid so that every prefix is spread evenly over it; then come the points that the
// steps missed, then the candidates outside of the grid. A budget as large as the grid measures all of it.
Indices grid_order(std::span<const Candidate> candidates) {
  constexpr double kGolden = 0.6180339887498949;
  const Indices grid = parvagpu_grid(candidates);
  std::set<std::size_t> taken;
  Indices order;
  const auto take = [&](std::size_t i) {
    if (taken.insert(i).second) order.push_back(i);
  };
  for (std::size_t i = 1; i <= 2 * grid.size(); ++i) {
    const double turn = static_cast<double>(i) * kGolden;
    take(grid[static_cast<std::size_t>((turn - std::floor(turn)) * static_cast<double>(grid.size()))]);
  }
  for (const std::size_t i : grid) take(i);
  for (std::size_t i = 0; i < candidates.size(); ++i) take(i);
  return order;
}

using Place = std::array<double, 4>;  // Slice by its order, and octaves of batch, size and processes.

// The position of each candidate on four axes. Octaves, because latency changes by ratios rather than by differences.
std::vector<Place> places_of(std::span<const Candidate> candidates, std::string_view device) {
  std::vector<Place> places;
  for (const auto& c : candidates) {
    const auto features = features_of(device, c);
    const auto octave = [](double x) { return math::log(x) / math::kLn2; };
    places.push_back({octave(features ? features->compute : 1), octave(static_cast<double>(c.batch)),
                      octave(static_cast<double>(c.size)), octave(static_cast<double>(c.processes))});
  }
  return places;
}

// Each axis is cut into `budget` equal steps over its distinct values, and each step is used once.
Indices latin_order(std::span<const Candidate> candidates, std::string_view device, std::size_t budget,
                    std::uint64_t seed) {
  const auto places = places_of(candidates, device);
  const std::size_t count = std::min(budget, candidates.size());
  std::vector<Place> wanted(count);
  for (std::size_t axis = 0; axis < 4; ++axis) {
    std::set<double> distinct;
    for (const auto& place : places) distinct.insert(place[axis]);
    const std::vector<double> levels(distinct.begin(), distinct.end());
    Indices steps(count);
    std::iota(steps.begin(), steps.end(), std::size_t{0});
    Rng rng = Rng(seed).stream("latin-sampler", axis);
    rng.shuffle(steps);
    for (std::size_t i = 0; i < count; ++i) wanted[i][axis] = levels[steps[i] * levels.size() / count];
  }
  // The design names positions, but candidates need not exist there: take the nearest one that is still free.
  std::set<std::size_t> taken;
  Indices order;
  for (const auto& place : wanted) {
    std::size_t best = candidates.size();
    double nearest = 0;
    for (std::size_t i = 0; i < places.size(); ++i) {
      double distance = 0;
      for (std::size_t axis = 0; axis < 4; ++axis) distance += std::abs(places[i][axis] - place[axis]);
      if (!taken.contains(i) && (best == candidates.size() || distance < nearest)) {
        best = i;
        nearest = distance;
      }
    }
    taken.insert(best);
    order.push_back(best);
  }
  return order;
}

// By candidate: whether it was measured, with or without success.
std::vector<bool> measured_flags(const SamplerInput& input) {
  std::set<Candidate> done;
  for (const auto& m : input.measured) done.insert(candidate_of(m));
  std::vector<bool> flags;
  for (const auto& c : input.candidates) flags.push_back(done.contains(c));
  return flags;
}

// The first candidate of `order` that was not measured.
SamplerChoice first_open(const Indices& order, const std::vector<bool>& done, std::string reason) {
  for (const std::size_t i : order) {
    if (!done[i]) return {.next = i, .reason = std::move(reason)};
  }
  return {.reason = "every candidate was measured"};
}

// The active sampler.

constexpr int kDraws = 32;
constexpr double kAnchorFits = 0.6;  // An anchor should rather fit: a run that fails tells nothing of latency.
constexpr std::size_t kRankMax = 48;
// The share of the plan in the score grows with what there is to gain; the rest is plain accuracy.
constexpr double kGainShareMax = 0.9;
constexpr double kGainHalf = 0.003;  // The largest gain at which half of that is reached.

// Joint draws of the candidates' latencies from the current posterior. Latencies are correlated: if one slice is slower
// than expected, its neighbours probably are too, so drawing each candidate alone would understate the regret.
class Draws {
 public:
  Draws(const Kriged::Joint& joint, const MemoryBelief& memory, std::span<const Candidate> candidates, Rng rng)
      : joint_(joint), memory_(memory), candidates_(candidates), rng_(rng), size_(joint.log_ms.size()) {
    factorise();
    for (const auto& c : candidates) capacities_.push_back(memory.capacity_mib(c).value_or(kOutOfMemory));
  }

  // One possible reality: latencies in milliseconds, infinite where memory runs out.
  std::vector<double> next() {
    std::vector<double> log_ms = joint_.log_ms;
    for (const auto& column : columns_) {
      const double z = rng_.normal();
      for (std::size_t i = 0; i < size_; ++i) log_ms[i] += z * column[i];
    }
    // One guess for all candidates: memory needs are tied together by the same two constants.
    const MemoryGuess& guess = memory_.guesses[draw_guess()];
    std::vector<double> ms(size_);
    for (std::size_t i = 0; i < size_; ++i) {
      // What the columns leave out is independent noise of each candidate.
      log_ms[i] += std::sqrt(std::max(rest_[i], 0.0)) * rng_.normal();
      ms[i] = memory_.mib(guess, candidates_[i]) > capacities_[i] ? kOutOfMemory : math::exp(log_ms[i]);
    }
    return ms;
  }

 private:
  // Pivoted partial Cholesky: a few directions hold nearly all of the covariance, and the rest is drawn point by point.
  void factorise() {
    for (std::size_t i = 0; i < size_; ++i) rest_.push_back(joint_.covariance[i * size_ + i]);
    const double first = *std::ranges::max_element(rest_);
    while (columns_.size() < kRankMax) {
      const auto pivot = static_cast<std::size_t>(std::ranges::max_element(rest_) - rest_.begin());
      if (rest_[pivot] <= 1e-4 * first || rest_[pivot] <= 1e-12) return;
      std::vector<double> column(size_);
      const double scale = 1 / std::sqrt(rest_[pivot]);
      for (std::size_t i = 0; i < size_; ++i) {
        double value = joint_.covariance[i * size_ + pivot];
        for (const auto& other : columns_) value -= other[i] * other[pivot];
        column[i] = value * scale;
      }
      for (std::size_t i = 0; i < size_; ++i) rest_[i] -= column[i] * column[i];
      rest_[pivot] = 0;
      columns_.push_back(std::move(column));
    }
  }

  // The last guess takes what rounding leaves over.
  std::size_t draw_guess() {
    double left = rng_.uniform();
    for (std::size_t i = 0; i + 1 < memory_.weights.size(); ++i) {
      left -= memory_.weights[i];
      if (left < 0) return i;
    }
    return memory_.weights.size() - 1;
  }

  const Kriged::Joint& joint_;
  const MemoryBelief& memory_;
  std::span<const Candidate> candidates_;
  Rng rng_;
  std::size_t size_;
  std::vector<std::vector<double>> columns_;
  std::vector<double> rest_;
  std::vector<double> capacities_;
};

// What the current model says about all candidates, and what it would be worth to know more.
struct Outlook {
  Kriged::Joint joint;
  std::vector<Belief> believed;
  std::vector<double> gains;  // Of knowing each candidate; empty where there is no plan.
  double regret = 0;
  double noise = 0;
};

// The mean loss of the plan made from the belief, over draws of what the latencies may really be. Measured candidates
// are the same in every draw, because there is nothing left to learn about them.
double expected_regret(const SamplerInput& input, const FittedRun& run, const Outlook& outlook,
                       const std::vector<bool>& done, Rng rng) {
  Draws draws(outlook.joint, run.memory, input.candidates, rng);
  std::vector<std::vector<double>> realities;
  for (int d = 0; d < kDraws; ++d) {
    auto& real = realities.emplace_back(draws.next());
    for (std::size_t i = 0; i < real.size(); ++i) {
      const Belief& belief = outlook.believed[i];
      if (done[i]) real[i] = belief.fits > 0 ? math::exp(belief.log_ms) : kOutOfMemory;
    }
  }
  return input.regret->loss(outlook.believed, realities);
}

// Cost: a joint forecast, quadratic in the number of candidates, and kDraws draws if there is a plan.
Outlook look_ahead(const SamplerInput& input, const FittedRun& run, const std::vector<bool>& done, Rng rng) {
  Outlook outlook;
  std::vector<Features> points;
  for (const auto& c : input.candidates) {
    const auto features = features_of(input.target.device, c);
    TANGRAM_CHECK(features.has_value(), "candidates are profiles of the device");
    points.push_back(*features);
  }
  outlook.joint = run.kriged.joint(points);
  outlook.noise = run.kriged.scale().noise;
  const std::size_t n = points.size();
  for (std::size_t i = 0; i < n; ++i) {
    Belief belief{outlook.joint.log_ms[i], std::sqrt(std::max(outlook.joint.covariance[i * n + i], 0.0)),
                  run.memory.fits_probability(input.candidates[i])};
    if (done[i]) {
      // A measured candidate is known exactly, deviation 0, and whether it fitted is known too.
      const auto estimate = run.estimate(input.candidates[i]);
      belief = {math::log(estimate->mean_ms), 0, estimate->fits_probability};
    }
    outlook.believed.push_back(belief);
  }
  if (input.regret == nullptr) return outlook;
  outlook.regret = expected_regret(input, run, outlook, done, rng);
  outlook.gains = input.regret->gain(outlook.believed);
  return outlook;
}

// The share of the total standard deviation of all candidates that measuring `c` removes, weighted by the probability
// that a candidate fits. Measuring `c` reduces the variance of `j` by the square of their covariance over the variance
// of `c`. A run that does not fit shows no latency, so the result is weighted by the probability that `c` fits.
double accuracy_of(const Outlook& outlook, std::size_t c) {
  const std::size_t n = outlook.believed.size();
  const auto& covariance = outlook.joint.covariance;
  const double variance = std::max(covariance[c * n + c], 0.0) + outlook.noise * outlook.noise;
  double removed = 0;
  double deviations = 0;
  for (std::size_t j = 0; j < n; ++j) {
    const double before = std::max(covariance[j * n + j], 1e-12);
    // Rounding may make the reduction larger than the variance itself, of which no root exists.
    const double gone = std::min(covariance[c * n + j] * covariance[c * n + j] / variance, before);
    const double weight = outlook.believed[j].fits;
    removed += weight * (std::sqrt(before) - std::sqrt(before - gone));
    deviations += weight * std::sqrt(before);
  }
  return outlook.believed[c].fits * removed / std::max(deviations, 1e-12);
}

// The candidate with the highest score; the reason says whether accuracy or the gain of a plan decided it.
void choose_next(const Outlook& outlook, const std::vector<bool>& done, SamplerChoice& choice) {
  // `share` goes to 0 as the largest gain does: once the plan cannot improve, accuracy decides alone.
  const double most = outlook.gains.empty() ? 0 : *std::ranges::max_element(outlook.gains);
  const double share = kGainShareMax * most / (most + kGainHalf);
  double best = -1;
  for (std::size_t c = 0; c < done.size(); ++c) {
    if (done[c]) continue;
    const double accuracy = accuracy_of(outlook, c);
    const double gain = most > 0 ? outlook.gains[c] / most : 0;
    const double score = (1 - share) * accuracy + share * gain;
    if (score <= best) continue;
    best = score;
    choice.next = c;
    choice.reason = share * gain > (1 - share) * accuracy
                        ? fmt::format("may improve a plan by {:.1f} %", 100 * outlook.gains[c])
                        : fmt::format("removes {:.0f} % of the uncertainty", 100 * accuracy);
  }
  if (!choice.next) choice.reason = "every candidate was measured";
}

// The first measurement: the run that needs the least memory, one sample on the largest slice alone. It shows the
// launch time.
std::size_t first_anchor(const SamplerInput& input) {
  const auto better = [&](std::size_t a, std::size_t b) {
    const auto key = [&](std::size_t i) {
      const Candidate& c = input.candidates[i];
      return std::tuple(c.batch * c.processes, c.size, -features_of(input.target.device, c)->compute);
    };
    return key(a) < key(b);
  };
  std::size_t best = 0;
  for (std::size_t i = 1; i < input.candidates.size(); ++i) best = better(i, best) ? i : best;
  return best;
}

// The largest work of one process that probably fits on the smallest or the largest slice: it shows what work costs
// there and where memory ends.
std::size_t work_anchor(const SamplerInput& input, const MemoryBelief& memory, const std::vector<bool>& done,
                        bool largest) {
  std::size_t best = input.candidates.size();
  std::tuple<double, double, double> best_key;
  for (std::size_t i = 0; i < input.candidates.size(); ++i) {
    const Candidate& c = input.candidates[i];
    if (done[i] || memory.fits_probability(c) < kAnchorFits) continue;
    const double compute = features_of(input.target.device, c)->compute;
    const std::tuple key(largest ? compute : -compute, -static_cast<double>(c.processes),
                         static_cast<double>(c.batch * c.size));
    if (best == input.candidates.size() || key > best_key) {
      best = i;
      best_key = key;
    }
  }
  return best;
}

// The expected median error over the candidates that were not measured and probably fit; nullopt if there are none.
// Measured candidates would only hide how little is known of the rest.
std::optional<double> expected_error_of(const Outlook& outlook, const std::vector<bool>& done) {
  std::vector<double> deviations;
  for (std::size_t i = 0; i < done.size(); ++i) {
    if (!done[i] && outlook.believed[i].fits >= 0.5) deviations.push_back(outlook.believed[i].deviation);
  }
  if (deviations.empty()) return std::nullopt;
  // The median of |error| of a normal error is 0.674 deviations.
  return 0.674 * quantile(std::move(deviations), 0.5);
}

SamplerChoice next_active(const SamplerInput& input, const SamplerOptions& options, const std::vector<bool>& done) {
  if (input.measured.empty()) return {.next = first_anchor(input), .reason = "anchor: launch on the largest slice"};
  const Measurements measured(input.measured.begin(), input.measured.end());
  const auto run = fit_target(measured, *input.knowledge, {.kind = "kriged"});
  if (!run) {
    // Every run so far was out of memory, so there is no latency to fit: try the run that needs the least memory for
    // the bandwidth, and with it the memory, of its slice.
    Indices order(input.candidates.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t i) {
      const Candidate& c = input.candidates[i];
      return static_cast<double>(c.batch * c.size * c.processes) / features_of(input.target.device, c)->bandwidth;
    });
    return first_open(order, done, "no run has fitted into memory yet");
  }
  // Two more anchors, at the ends of the slices: interpolation between them is much safer than extrapolation from one.
  if (measured.size() <= 2) {
    const bool largest = measured.size() == 2;
    const std::size_t anchor = work_anchor(input, run->memory, done, largest);
    if (anchor < done.size()) {
      return {.next = anchor,
              .reason = fmt::format("anchor: work and memory on the {} slice", largest ? "largest" : "smallest")};
    }
  }
  // A separate stream for each step, so that a resumed session draws the same numbers.
  const Rng rng = Rng(options.seed).stream("active-sampler", input.measured.size());
  const Outlook outlook = look_ahead(input, *run, done, rng);
  const auto error = expected_error_of(outlook, done);
  SamplerChoice choice{.expected_error = error.value_or(0), .expected_regret = outlook.regret};
  // With very few measurements the model cannot notice its own errors, so its stated error does not count before
  // stop_min.
  const bool enough = options.target_error > 0 && measured.size() >= options.stop_min;
  if (enough && choice.expected_error <= options.target_error && choice.expected_regret <= options.target_regret) {
    choice.reason = error ? fmt::format("the expected error of {:.1f} % is small enough", 100 * *error)
                          : "every candidate that probably fits into memory was measured";
    return choice;
  }
  choose_next(outlook, done, choice);
  return choice;
}

}  // namespace

std::optional<SamplerKind> parse_sampler_kind(std::string_view name) {
  for (const auto& [kind, text] : kKinds) {
    if (text == name) return kind;
  }
  return std::nullopt;
}

std::string_view to_string(SamplerKind kind) {
  for (const auto& [known, text] : kKinds) {
    if (known == kind) return text;
  }
  return "active";
}

bool at_least_as_large(const Candidate& candidate, const Candidate& failed) {
  return candidate.mig_profile == failed.mig_profile && candidate.batch >= failed.batch &&
         candidate.size >= failed.size && candidate.processes >= failed.processes;
}

std::vector<std::size_t> parvagpu_grid(std::span<const Candidate> candidates) {
  Indices grid;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].batch <= kParvagpuBatchMax && candidates[i].processes <= kParvagpuProcessesMax) grid.push_back(i);
  }
  return grid;
}

SamplerChoice next_measurement(const SamplerInput& input, const SamplerOptions& options) {
  TANGRAM_CHECK(input.knowledge != nullptr, "a sampler has knowledge, possibly empty");
  if (input.candidates.empty()) return {.reason = "there are no candidates to measure"};
  if (input.measured.size() >= options.budget) {
    return {.reason = fmt::format("the budget of {} is reached", options.budget)};
  }
  const auto done = measured_flags(input);
  switch (options.kind) {
    case SamplerKind::random: return first_open(random_order(done.size(), options.seed), done, "at random");
    case SamplerKind::latin:
      return first_open(latin_order(input.candidates, input.target.device, options.budget, options.seed), done,
                        "Latin hypercube");
    case SamplerKind::grid: return first_open(grid_order(input.candidates), done, "grid");
    case SamplerKind::active: break;
  }
  return next_active(input, options, done);
}

}  // namespace tangram::learn
