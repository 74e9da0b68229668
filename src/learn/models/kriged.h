// The formula, and on top of it what its residuals have in common.
//
// Real kernels jump at certain batches and slices. Such a jump shows at every slice for the same batch, and so on, so
// the residual of log latency is modelled as a sum of smooth random functions of batch, slice, size and processes
// alone and together (a Gaussian process; kriging, where it is used for maps). Both the parameters of the formula and
// the residuals are uncertain, and the predicted deviation counts both.
#pragma once

#include <span>
#include <vector>

#include "learn/models/analytic_fit.h"

namespace tangram::learn {

// Standard deviations of the parts of the residual of log latency.
struct KrigedScale {
  double batch = 0.06;      // A function of the batch alone.
  double slice = 0.04;      // Of the slice alone.
  double processes = 0.04;  // Of the number of processes alone.
  double size = 0.05;       // Of the input size alone.
  double together = 0.05;   // Of all of them.
  double launch = 0.03;     // Where launching decides.
  double noise = 0.02;      // Of a single measurement.

  bool operator==(const KrigedScale&) const = default;
};

struct Forecast {
  double log_ms = 0;
  double deviation = 0;  // Of a new measurement's log latency.
};

class Kriged {
 public:
  Kriged() = default;
  // Solves once: cubic in the number of observations, of which at most kKrigedPointsMax are used.
  Kriged(const AnalyticFit& analytic, const KrigedScale& scale, double inflation,
         std::vector<Observation> observations);

  Forecast forecast(const Features& features) const;
  // Each observation predicted from all others.
  std::vector<Forecast> leave_one_out() const;

  // Covariances of several points after the observations, without noise: what a sampler needs. Row-major.
  struct Joint {
    std::vector<double> log_ms;
    std::vector<double> covariance;
  };
  Joint joint(std::span<const Features> points) const;

  // How uncertain the formula's parameters still are after the observations. Row-major.
  std::array<double, kParameterCount * kParameterCount> parameter_covariance() const;

  const KrigedScale& scale() const { return scale_; }
  // Predicted deviations are multiplied by this, because the model's own errors were larger or smaller than usual.
  double inflation() const { return inflation_; }
  const std::vector<Observation>& observations() const { return observations_; }

 private:
  struct Point {
    Features features;
    AnalyticValue value;
    Parameters loaded;           // prior covariance times gradient
    std::array<double, 4> axes;  // e^(octaves / length) of batch, compute, size, processes
  };
  // Evaluates the formula and its gradient at `features`, once for each point.
  Point point_of(const Features& features) const;
  // The prior covariance of log latency at two points, without noise.
  double covariance(const Point& a, const Point& b) const;
  // The prior mean of log latency: the formula linearised at its fit, at the prior mean of the parameters.
  double mean(const Point& point) const;

  AnalyticFit analytic_;
  KrigedScale scale_;
  double inflation_ = 1;
  std::vector<Observation> observations_;
  std::vector<Point> points_;
  std::vector<double> factor_;  // Lower Cholesky factor, row-major.
  std::vector<double> solved_;  // Covariance^-1 * (observed - mean).
};

// Solving is cubic, so of more observations than this an even choice is used, in their order.
inline constexpr std::size_t kKrigedPointsMax = 512;
std::vector<Observation> thinned(std::vector<Observation> observations);

// The covariance of the residuals of `observations` around the formula at `parameters`, noise included; the lower
// Cholesky factor of it, row-major.
std::vector<double> residual_factor(std::span<const Observation> observations, const AnalyticFit& analytic,
                                    const KrigedScale& scale);

}  // namespace tangram::learn
