// The latency formula with fitted parameters.
//
//   T = ( launch^n + turns(gpu, host, processes)^n )^(1/n)      a smooth maximum
//   launch = L * (1 + e * (processes - 1))                      what starting the kernels costs, whatever they do
//   gpu    = W * (batch + b0)^y * g(size) * (a / compute + m / bandwidth + d)
//   host   = H * W * batch * g(size)                            work on the host, which processes overlap in part
//   g      = r^x * (1 + q * r^x) / (1 + q), r = size / reference   attention's quadratic term
//
// The bracket is the roofline: a share `a` of the work scales with the compute of the slice, `m` with its memory
// bandwidth, and `d` not at all; a + m + d = 1. Processes take turns on the GPU: `turns` is the cycle time of that
// closed queue, gpu + host for one process. How far they overlap what they do beside it is the share o: with o = 1 a
// process finds queued what chance leaves there, with o = 0 all others, so that it cycles in processes * gpu + host.
// A100's 3g and 4g have the same bandwidth, which is why they differ so little. The constant b0 is the weight traffic
// that every batch pays.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "learn/candidate.h"

namespace tangram::learn {

// Parameters are unbounded numbers, so that a normal distribution can describe where they lie.
enum Parameter : std::size_t {
  kLaunch,         // log L, milliseconds
  kWork,           // log W, milliseconds for one sample of the reference size on one compute slice
  kMemoryShare,    // log(m / a)
  kConstantShare,  // log(d / a)
  kHost,           // log H
  kBatchOffset,    // log b0
  kLaunchGrowth,   // log e
  kSharpness,      // log n
  kQuadratic,      // log q
  kSizeExponent,   // log x
  kBatchExponent,  // log y
  kOverlap,        // log(o / (1 - o))
  kParameterCount,
};
using Parameters = std::array<double, kParameterCount>;

std::string_view parameter_name(std::size_t parameter);

// A normal distribution of parameters. `covariance` is row-major.
struct AnalyticPrior {
  Parameters mean{};
  std::array<double, kParameterCount * kParameterCount> covariance{};
  std::size_t models = 0;  // How many models it was learnt from; 0: general experience.

  bool operator==(const AnalyticPrior&) const = default;
};

// What holds for most networks on most accelerators, and is wide.
AnalyticPrior general_prior();

// A configuration as the formula sees it.
struct Features {
  double compute = 1;    // Streaming multiprocessors over those of one compute slice; cores on the host.
  double bandwidth = 1;  // Share of the memory units, 8 for the whole device; cores on the host.
  double batch = 1;
  double size = 1;
  double processes = 1;

  bool operator==(const Features&) const = default;
};
// Nothing where the device has no such profile.
std::optional<Features> features_of(std::string_view device, const Candidate& candidate);

// The formula's value with its derivatives.
struct AnalyticValue {
  double log_ms = 0;
  double work_share = 0;  // How far work and not the launch decides, 0..1.
  Parameters gradient{};  // Of log_ms.
};
AnalyticValue evaluate(const Parameters& parameters, double size_reference, const Features& features);

struct AnalyticFit {
  Parameters parameters{};
  AnalyticPrior prior;
  double size_reference = 1;

  double log_ms(const Features& features) const { return evaluate(parameters, size_reference, features).log_ms; }

  bool operator==(const AnalyticFit&) const = default;
};

// One observation: where, and log latency in milliseconds.
struct Observation {
  Features features;
  double log_ms = 0;

  bool operator==(const Observation&) const = default;
};

// A usual length in tokens. Only the meaning of W and q depends on it.
inline constexpr double kTokensReference = 64;

// 1 where the model has one size, otherwise a fixed length, so that parameters of different models can be compared.
double size_reference_of(std::span<const Observation> observations);

// The most probable parameters given `observations` and `prior`. `whitening` is the lower Cholesky factor, row-major,
// of the covariance of the observations' errors. Levenberg-Marquardt, a fixed number of steps.
AnalyticFit fit_analytic(std::span<const Observation> observations, const AnalyticPrior& prior, double size_reference,
                         std::span<const double> whitening);

}  // namespace tangram::learn
