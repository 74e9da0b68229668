// The formula, its derivatives, and its fit by Levenberg-Marquardt.
//
// The fit finds the most probable parameters: it minimises the squared residuals of log latency, whitened by their
// covariance, plus the squared distance to the prior. The prior is what makes twelve parameters safe to fit from a
// handful of measurements; a parameter that no measurement depends on stays where the prior puts it.
//
// All derivatives are exact and computed together with the value, in one pass. A finite difference would cost twelve
// more evaluations for each point and lose half of the digits.

#include "learn/models/analytic_fit.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/math.h"
#include "base/text.h"
#include "core/geometry.h"
#include "learn/detail/cholesky.h"

namespace tangram::learn {
namespace {

constexpr double kSmsOfOneSlice = 14;  // On an A100, the reference of `compute`.
constexpr int kStepsMax = 40;

struct Usual {
  std::string_view name;
  double mean;
  double deviation;
};
// The general prior. Wide on purpose: milliseconds differ by orders of magnitude between networks, shares and exponents
// do not.
constexpr std::array<Usual, kParameterCount> kUsual{{
    {"launch_log_ms", 1.6, 1.5},          // 5 ms
    {"work_log_ms", 1.0, 2.0},            // 2.7 ms a sample
    {"memory_share_log_ratio", -0.5, 1},  // m = 0.6 a
    {"constant_share_log_ratio", -2.5, 1},
    {"host_log_ratio", -3.0, 1.5},
    {"batch_offset_log", 0, 0.8},      // One sample.
    {"launch_growth_log", -4.0, 0.7},  // 2 % a process.
    {"sharpness_log", 1.8, 0.4},       // n = 6
    {"quadratic_log", -2.3, 1},        // 10 % at the reference size.
    {"size_exponent_log", 0, 0.3},     // Linear.
    {"batch_exponent_log", 0, 0.06},   // Nearly linear: large batches use a GPU a little better.
    {"overlap_log_odds", 1, 1.5},      // Most of it, or hardly any.
}};

std::optional<Features> host_features(std::string_view profile) {  // "1.5c"
  if (!profile.ends_with('c')) return std::nullopt;
  const auto cores = text::parse_number(profile.substr(0, profile.size() - 1));
  if (!cores || *cores <= 0) return std::nullopt;
  return Features{.compute = *cores, .bandwidth = *cores};
}

// Prefers the number of multiprocessors to that of compute slices where it is published, because slices of one size
// differ in it between devices. Bandwidth is in eighths of the device.
std::optional<Features> slice_features(std::string_view device, std::string_view profile) {
  if (device == "cpu") return host_features(profile);
  const Geometry* geometry = find_geometry(device);
  if (geometry == nullptr) return std::nullopt;
  const auto index = find_profile(*geometry, profile);
  if (!index) return std::nullopt;
  const MigProfile& found = geometry->profiles[*index];
  const bool sms_known = found.sm_count.evidence != Evidence::unknown && found.sm_count.value > 0;
  return Features{.compute = sms_known ? found.sm_count.value / kSmsOfOneSlice : found.compute_slices,
                  .bandwidth = 8.0 * found.units / geometry->units};
}

// The time of one batch when several processes share the GPU and do host work in between.
struct Cycle {
  double time = 0;
  double host_slope = 0;     // Derivative by `host`.
  double overlap_slope = 0;  // Derivative by `overlap`.
};

// The demands of one process: its time on the GPU, its time beside it, and how far host work of one overlaps GPU work
// of others (1: as chance has it, 0: all processes run in step).
struct Turns {
  double gpu = 0;
  double host = 0;
  double overlap = 1;
};

// Mean value analysis of a closed queue (Reiser and Lavenberg, 1980): each process spends `host` away from the GPU,
// then queues for `gpu`. By the arrival theorem a process among n finds the queue that n - 1 processes leave on
// average, so the recursion goes up from one process. Where processes run in step it finds all n - 1 others. The
// derivatives follow the same recursion. Cost: linear in the number of processes.
Cycle cycle_of(const Turns& turns, double processes) {
  double queued = 0;
  double queued_host = 0;  // Derivatives of `queued`.
  double queued_overlap = 0;
  Cycle cycle{turns.gpu + turns.host, 1, 0};
  for (double n = 1; n <= processes; ++n) {
    const double found = turns.overlap * queued + (1 - turns.overlap) * (n - 1);
    const double stay = turns.gpu * (1 + found);
    const double stay_host = turns.gpu * turns.overlap * queued_host;
    const double stay_overlap = turns.gpu * (queued - (n - 1) + turns.overlap * queued_overlap);
    cycle = {stay + turns.host, stay_host + 1, stay_overlap};
    const double square = cycle.time * cycle.time;
    queued = n * stay / cycle.time;
    queued_host = n * (stay_host * cycle.time - stay * cycle.host_slope) / square;
    queued_overlap = n * (stay_overlap * cycle.time - stay * cycle.overlap_slope) / square;
  }
  return cycle;
}

}  // namespace

std::string_view parameter_name(std::size_t parameter) { return kUsual[parameter].name; }

AnalyticPrior general_prior() {
  AnalyticPrior prior;
  for (std::size_t i = 0; i < kParameterCount; ++i) {
    prior.mean[i] = kUsual[i].mean;
    prior.covariance[i * kParameterCount + i] = kUsual[i].deviation * kUsual[i].deviation;
  }
  return prior;
}

std::optional<Features> features_of(std::string_view device, const Candidate& candidate) {
  auto features = slice_features(device, candidate.mig_profile);
  if (!features) return std::nullopt;
  features->batch = static_cast<double>(candidate.batch);
  features->size = static_cast<double>(candidate.size);
  features->processes = static_cast<double>(candidate.processes);
  return features;
}

AnalyticValue evaluate(const Parameters& parameters, double size_reference, const Features& at) {
  AnalyticValue value;
  Parameters& slope = value.gradient;
  // The launch. Each further process makes it slower by a constant share.
  const double growth = math::exp(parameters[kLaunchGrowth]) * (at.processes - 1);
  const double log_launch = parameters[kLaunch] + math::log(1 + growth);
  // The size: log g and its derivatives.
  const double exponent = math::exp(parameters[kSizeExponent]);
  const double log_ratio = exponent * math::log(at.size / size_reference);
  const double quadratic = math::exp(parameters[kQuadratic]);
  const double curved = quadratic * math::exp(log_ratio);
  // Divided by 1 + quadratic, so that the factor is 1 at the reference size and W keeps its meaning.
  const double log_size_factor = log_ratio + math::log((1 + curved) / (1 + quadratic));
  // The roofline in the bracket.
  const double memory = math::exp(parameters[kMemoryShare]);
  const double constant = math::exp(parameters[kConstantShare]);
  const double whole = 1 + memory + constant;
  const double bracket = (1 / at.compute + memory / at.bandwidth + constant) / whole;
  const double offset = math::exp(parameters[kBatchOffset]);
  const double batch_exponent = math::exp(parameters[kBatchExponent]);
  const double log_batch = math::log(at.batch + offset);
  const double gpu = math::exp(batch_exponent * log_batch) * bracket;
  const double host = math::exp(parameters[kHost]) * at.batch;
  const double overlap = 1 / (1 + math::exp(-parameters[kOverlap]));
  const Cycle cycle = cycle_of({gpu, host, overlap}, at.processes);
  // The cycle time is homogeneous of degree one in gpu and host, so the two logarithmic derivatives sum to 1.
  const double gpu_share = 1 - cycle.host_slope * host / cycle.time;
  const double log_work = parameters[kWork] + log_size_factor + math::log(cycle.time);
  // The smooth maximum: log T = log launch + softplus(n * (log work - log launch)) / n.
  const double n = math::exp(parameters[kSharpness]);
  const double gap = log_work - log_launch;
  // Written with -|gap|, so that the exponential cannot overflow.
  const double softplus = (gap > 0 ? n * gap : 0) + math::log(1 + math::exp(-n * std::abs(gap)));
  value.work_share = 1 / (1 + math::exp(-n * gap));
  value.log_ms = log_launch + softplus / n;
  const double work_share = value.work_share;
  // Launch and work share the derivative: where one is far larger, the other has no influence.
  slope[kLaunch] = 1 - work_share;
  slope[kLaunchGrowth] = (1 - work_share) * growth / (1 + growth);
  slope[kWork] = work_share;
  slope[kHost] = work_share * (1 - gpu_share);
  slope[kOverlap] = work_share * cycle.overlap_slope * overlap * (1 - overlap) / cycle.time;
  slope[kBatchOffset] = work_share * gpu_share * batch_exponent * offset / (at.batch + offset);
  slope[kBatchExponent] = work_share * gpu_share * batch_exponent * log_batch;
  slope[kMemoryShare] = work_share * gpu_share * memory / whole * (1 / at.bandwidth - bracket) / bracket;
  slope[kConstantShare] = work_share * gpu_share * constant / whole * (1 - bracket) / bracket;
  slope[kSharpness] = work_share * gap - softplus / n;
  slope[kQuadratic] = work_share * (curved / (1 + curved) - quadratic / (1 + quadratic));
  slope[kSizeExponent] = work_share * log_ratio * (1 + curved / (1 + curved));
  return value;
}

double size_reference_of(std::span<const Observation> observations) {
  const bool one_size = std::ranges::all_of(observations, [](const auto& o) { return o.features.size <= 1; });
  return one_size ? 1 : kTokensReference;
}

namespace {

// The objective of Levenberg-Marquardt: squared whitened residuals and the prior.
class Objective {
 public:
  Objective(std::span<const Observation> observations, const AnalyticPrior& prior, double size_reference,
            std::span<const double> whitening)
      : observations_(observations), prior_(prior), size_reference_(size_reference), whitening_(whitening) {
    precision_.assign(prior.covariance.begin(), prior.covariance.end());
    detail::factor(precision_, kParameterCount);
    precision_ = detail::inverse(precision_, kParameterCount);
  }

  // The value that the fit minimises: whitened residuals and the distance to the prior, both squared.
  double cost(const Parameters& parameters) const {
    auto residuals = whitened_residuals(parameters);
    double sum = 0;
    for (const double r : residuals) sum += r * r;
    const Parameters away = from_prior(parameters);
    for (std::size_t i = 0; i < kParameterCount; ++i) sum += away[i] * pull(away, i);
    return sum;
  }

  // The normal equations at `parameters`: curvature (row-major) and descent.
  void linearise(const Parameters& parameters, std::vector<double>& curvature, Parameters& descent) const {
    const std::size_t n = observations_.size();
    std::vector<std::vector<double>> columns(kParameterCount, std::vector<double>(n));
    std::vector<double> residuals(n);
    for (std::size_t i = 0; i < n; ++i) {
      const auto value = evaluate(parameters, size_reference_, observations_[i].features);
      residuals[i] = observations_[i].log_ms - value.log_ms;
      for (std::size_t p = 0; p < kParameterCount; ++p) columns[p][i] = value.gradient[p];
    }
    // Whitening turns correlated residuals into independent ones: points that repeat each other count less.
    detail::solve_lower(whitening_, n, residuals);
    for (auto& column : columns) detail::solve_lower(whitening_, n, column);
    const Parameters away = from_prior(parameters);
    curvature = precision_;
    for (std::size_t p = 0; p < kParameterCount; ++p) {
      descent[p] = -pull(away, p);
      for (std::size_t i = 0; i < n; ++i) descent[p] += columns[p][i] * residuals[i];
      // Only the lower triangle: the factorisation does not read the rest.
      for (std::size_t q = 0; q <= p; ++q) {
        double sum = 0;
        for (std::size_t i = 0; i < n; ++i) sum += columns[p][i] * columns[q][i];
        curvature[p * kParameterCount + q] += sum;
      }
    }
  }

 private:
  std::vector<double> whitened_residuals(const Parameters& parameters) const {
    std::vector<double> residuals;
    residuals.reserve(observations_.size());
    for (const auto& o : observations_) {
      residuals.push_back(o.log_ms - evaluate(parameters, size_reference_, o.features).log_ms);
    }
    detail::solve_lower(whitening_, residuals.size(), residuals);
    return residuals;
  }

  Parameters from_prior(const Parameters& parameters) const {
    Parameters away{};
    for (std::size_t i = 0; i < kParameterCount; ++i) away[i] = parameters[i] - prior_.mean[i];
    return away;
  }

  // One row of precision * away: the gradient of half the prior term.
  double pull(const Parameters& away, std::size_t parameter) const {
    double sum = 0;
    for (std::size_t j = 0; j < kParameterCount; ++j) sum += precision_[parameter * kParameterCount + j] * away[j];
    return sum;
  }

  std::span<const Observation> observations_;
  const AnalyticPrior& prior_;
  double size_reference_;
  std::span<const double> whitening_;
  std::vector<double> precision_;
};

// The start of the iteration. The two scales come from the data: the shortest run bounds the launch time, and work is
// shifted so that the longest run is matched. Shapes come from the prior.
Parameters first_guess(std::span<const Observation> observations, const AnalyticPrior& prior, double size_reference) {
  Parameters guess = prior.mean;
  const auto by_latency = [](const auto& a, const auto& b) { return a.log_ms < b.log_ms; };
  const auto [shortest, longest] = std::ranges::minmax_element(observations, by_latency);
  guess[kLaunch] = std::min(prior.mean[kLaunch], shortest->log_ms);
  const AnalyticValue there = evaluate(guess, size_reference, longest->features);
  guess[kWork] += longest->log_ms - there.log_ms;
  return guess;
}

// One damped Gauss-Newton step. Large damping shortens it and turns it towards steepest descent.
Parameters improved(const Parameters& from, std::vector<double> curvature, const Parameters& descent, double damping) {
  for (std::size_t i = 0; i < kParameterCount; ++i) curvature[i * kParameterCount + i] *= 1 + damping;
  detail::factor(curvature, kParameterCount);
  Parameters step = descent;
  detail::solve_lower(curvature, kParameterCount, step);
  detail::solve_upper(curvature, kParameterCount, step);
  Parameters to = from;
  // A linearisation says nothing about points far away, so no parameter moves by more than a factor of e^2 at once.
  for (std::size_t i = 0; i < kParameterCount; ++i) to[i] += std::clamp(step[i], -2.0, 2.0);
  return to;
}

}  // namespace

AnalyticFit fit_analytic(std::span<const Observation> observations, const AnalyticPrior& prior, double size_reference,
                         std::span<const double> whitening) {
  TANGRAM_CHECK(!observations.empty(), "a fit needs an observation");
  const Objective objective(observations, prior, size_reference, whitening);
  Parameters best = first_guess(observations, prior, size_reference);
  double best_cost = objective.cost(best);
  double damping = 1e-2;
  std::vector<double> curvature;
  Parameters descent{};
  objective.linearise(best, curvature, descent);
  // The usual damping schedule: a step that fails is tried again ten times as cautiously, without a new linearisation.
  for (int step = 0; step < kStepsMax && damping < 1e8; ++step) {
    const Parameters next = improved(best, curvature, descent, damping);
    const double cost = objective.cost(next);
    // Written so that a cost that is not a number counts as a failure.
    if (!(cost < best_cost)) {
      damping *= 10;
      continue;
    }
    const double gain = best_cost - cost;
    best = next;
    best_cost = cost;
    damping = std::max(damping / 10, 1e-9);
    if (gain < 1e-6 * (1 + cost)) break;
    objective.linearise(best, curvature, descent);
  }
  return {best, prior, size_reference};
}

}  // namespace tangram::learn
