// The Gaussian process over log latency: covariance, forecast, leave-one-out errors and joint covariance.
//
// The mean is the formula linearised at its fit. The covariance has two parts: uncertain parameters of the formula,
// carried to latency by its gradient, and a residual that is similar at similar points. Example: a kernel that is slow
// at batch 9 is slow at batch 9 on every slice, so a measurement on one slice corrects the others.
//
// Everything is solved once in the constructor, n^3 / 3 operations; a forecast then costs n^2. n is at most
// kKrigedPointsMax.

#include "learn/models/kriged.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/math.h"
#include "learn/detail/cholesky.h"

namespace tangram::learn {
namespace {

// The distance along an axis, in octaves, at which the correlation of residuals has fallen to 1/e.
constexpr std::array<double, 4> kOctaves{2.0, 1.5, 2.0, 2.0};

// exp(-|a - b| / length) of an axis, from e^(a / length) and e^(b / length): no exponential for each pair of points.
double alike(double a, double b) { return a < b ? a / b : b / a; }

std::array<double, 4> axes_of(const Features& f) {
  const std::array<double, 4> values{f.batch, f.compute, f.size, f.processes};
  std::array<double, 4> axes{};
  for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = math::pow(values[i], 1 / (kOctaves[i] * math::kLn2));
  return axes;
}

// What the residual's covariance needs to know of a point.
struct Located {
  std::array<double, 4> axes;
  double work_share;
};

// A sum of one function for each axis, which all points with the same batch (or slice, size, processes) share, and one
// of all axes together. Where the launch decides, none of the work's residuals show, so the parts are weighted by the
// share of work at both points. A sum of products of exponential kernels is positive definite.
double residual_covariance(const KrigedScale& scale, const Located& a, const Located& b) {
  const double batch = alike(a.axes[0], b.axes[0]);
  const double slice = alike(a.axes[1], b.axes[1]);
  const double size = alike(a.axes[2], b.axes[2]);
  const double processes = alike(a.axes[3], b.axes[3]);
  const double together = batch * slice * size * processes;
  const auto square = [](double x) { return x * x; };
  const double work = square(scale.batch) * batch + square(scale.slice) * slice + square(scale.size) * size +
                      square(scale.processes) * processes + square(scale.together) * together;
  const double launch = square(scale.launch) * together;
  return a.work_share * b.work_share * work + (1 - a.work_share) * (1 - b.work_share) * launch;
}

}  // namespace

std::vector<Observation> thinned(std::vector<Observation> observations) {
  const std::size_t n = observations.size();
  if (n <= kKrigedPointsMax) return observations;
  // Evenly over the input order, so that no part of the data is left out.
  std::vector<Observation> kept;
  for (std::size_t i = 0; i < kKrigedPointsMax; ++i) kept.push_back(observations[i * n / kKrigedPointsMax]);
  return kept;
}

// The covariance of the residuals alone, without that of the parameters, which the fit of the formula estimates itself.
std::vector<double> residual_factor(std::span<const Observation> observations, const AnalyticFit& analytic,
                                    const KrigedScale& scale) {
  const std::size_t n = observations.size();
  std::vector<Located> located;
  for (const auto& o : observations) {
    located.push_back(
        {axes_of(o.features), evaluate(analytic.parameters, analytic.size_reference, o.features).work_share});
  }
  std::vector<double> matrix(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) matrix[i * n + j] = residual_covariance(scale, located[i], located[j]);
    matrix[i * n + i] += scale.noise * scale.noise;
  }
  detail::factor(matrix, n);
  return matrix;
}

Kriged::Kriged(const AnalyticFit& analytic, const KrigedScale& scale, double inflation,
               std::vector<Observation> observations)
    : analytic_(analytic), scale_(scale), inflation_(inflation), observations_(thinned(std::move(observations))) {
  const std::size_t n = observations_.size();
  for (const auto& o : observations_) points_.push_back(point_of(o.features));
  factor_.resize(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) factor_[i * n + j] = covariance(points_[i], points_[j]);
    factor_[i * n + i] += scale_.noise * scale_.noise;
    solved_.push_back(observations_[i].log_ms - mean(points_[i]));
  }
  detail::factor(factor_, n);
  detail::solve_lower(factor_, n, solved_);
  detail::solve_upper(factor_, n, solved_);
}

Kriged::Point Kriged::point_of(const Features& features) const {
  Point point{features, evaluate(analytic_.parameters, analytic_.size_reference, features), {}, axes_of(features)};
  for (std::size_t p = 0; p < kParameterCount; ++p) {
    for (std::size_t q = 0; q < kParameterCount; ++q) {
      point.loaded[p] += analytic_.prior.covariance[p * kParameterCount + q] * point.value.gradient[q];
    }
  }
  return point;
}

// The prior covariance of two points: uncertain parameters, linearised at the fit, and the residual on top.
double Kriged::covariance(const Point& a, const Point& b) const {
  double parameters = 0;
  for (std::size_t p = 0; p < kParameterCount; ++p) parameters += a.value.gradient[p] * b.loaded[p];
  return parameters + residual_covariance(scale_, {a.axes, a.value.work_share}, {b.axes, b.value.work_share});
}

// The formula at the prior mean of its parameters, linearised at the fit: the process then moves the parameters itself.
double Kriged::mean(const Point& point) const {
  double log_ms = point.value.log_ms;
  for (std::size_t p = 0; p < kParameterCount; ++p) {
    log_ms += point.value.gradient[p] * (analytic_.prior.mean[p] - analytic_.parameters[p]);
  }
  return log_ms;
}

Forecast Kriged::forecast(const Features& features) const {
  const std::size_t n = points_.size();
  const Point point = point_of(features);
  // Conditioning of a normal distribution: mean + k^T C^-1 r, and variance k0 - |L^-1 k|^2.
  std::vector<double> shared(n);
  for (std::size_t i = 0; i < n; ++i) shared[i] = covariance(points_[i], point);
  double log_ms = mean(point);
  for (std::size_t i = 0; i < n; ++i) log_ms += shared[i] * solved_[i];
  detail::solve_lower(factor_, n, shared);
  double variance = covariance(point, point) + scale_.noise * scale_.noise;
  for (const double s : shared) variance -= s * s;
  // Rounding can make the difference negative; a new measurement is never more certain than its noise.
  return {log_ms, inflation_ * std::sqrt(std::max(variance, scale_.noise * scale_.noise))};
}

// With C the covariance, the error of leaving out i is solved_i / (C^-1)_ii and its variance 1 / (C^-1)_ii.
std::vector<Forecast> Kriged::leave_one_out() const {
  const std::size_t n = points_.size();
  const auto inverse = detail::inverse(factor_, n);
  std::vector<Forecast> forecasts;
  for (std::size_t i = 0; i < n; ++i) {
    const double variance = 1 / inverse[i * n + i];
    forecasts.push_back({observations_[i].log_ms - solved_[i] * variance, inflation_ * std::sqrt(variance)});
  }
  return forecasts;
}

Kriged::Joint Kriged::joint(std::span<const Features> at) const {
  const std::size_t n = points_.size();
  const std::size_t m = at.size();
  Joint joint;
  std::vector<Point> points;
  for (const auto& features : at) points.push_back(point_of(features));
  std::vector<double> shared(m * n);
  for (std::size_t i = 0; i < m; ++i) {
    const std::span row(&shared[i * n], n);
    double log_ms = mean(points[i]);
    for (std::size_t k = 0; k < n; ++k) {
      row[k] = covariance(points_[k], points[i]);
      log_ms += row[k] * solved_[k];
    }
    joint.log_ms.push_back(log_ms);
    detail::solve_lower(factor_, n, row);
  }
  // Cost: m^2 n for m points. The posterior covariance, symmetric, without noise.
  joint.covariance.resize(m * m);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double c = covariance(points[i], points[j]);
      for (std::size_t k = 0; k < n; ++k) c -= shared[i * n + k] * shared[j * n + k];
      c *= inflation_ * inflation_;
      joint.covariance[i * m + j] = joint.covariance[j * m + i] = c;
    }
  }
  return joint;
}

// With P the prior covariance, G the gradients and C = L L^T the covariance of the observations: P - P G^T C^-1 G P.
std::array<double, kParameterCount * kParameterCount> Kriged::parameter_covariance() const {
  const std::size_t n = points_.size();
  std::array<std::vector<double>, kParameterCount> known;
  for (std::size_t p = 0; p < kParameterCount; ++p) {
    for (const auto& point : points_) known[p].push_back(point.loaded[p]);
    detail::solve_lower(factor_, n, known[p]);
  }
  auto covariance = analytic_.prior.covariance;
  for (std::size_t p = 0; p < kParameterCount; ++p) {
    for (std::size_t q = 0; q < kParameterCount; ++q) {
      covariance[p * kParameterCount + q] -=
          std::inner_product(known[p].begin(), known[p].end(), known[q].begin(), 0.0);
    }
  }
  return covariance;
}

}  // namespace tangram::learn
