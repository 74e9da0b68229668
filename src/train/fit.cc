// Fitting the step model: quasi-Newton steps (BFGS) on the logarithms of the parameters, within bounds.
//
// The error is that of Pollux: the root mean square of the logarithm, once for computing alone and once for the whole
// step, with a small penalty on gamma above 1 and on times that grow with the number of workers.
//
// Logarithms keep all times positive and make one step length fit parameters that differ by orders of magnitude. A
// parameter that the points say nothing about is fixed by letting its bounds meet; see StepFit::freeze.

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "base/math.h"
#include "train/goodput.h"

namespace tangram::train {
namespace {

constexpr std::size_t kParameters = 7;
constexpr std::size_t kGamma = 6;
constexpr int kIterationsMax = 80;
constexpr double kTolerance = 1e-7;  // Of the error, relative: below it another step does not change an allocation.
constexpr double kTiny = 1e-8;       // The least alpha and beta.

using Vector = std::array<double, kParameters>;  // In the order of StepModel; all but gamma are logarithms.
using Matrix = std::array<Vector, kParameters>;

StepModel model_of(const Vector& x) {
  return {math::exp(x[0]), math::exp(x[1]), math::exp(x[2]), math::exp(x[3]), math::exp(x[4]), math::exp(x[5]), x[6]};
}

double log_of(double value) { return math::log(std::max(value, kTiny)); }

Vector vector_of(const StepModel& m) {
  return {log_of(m.alpha_compute),
          log_of(m.beta_compute),
          log_of(m.alpha_nodes),
          log_of(m.beta_nodes),
          log_of(m.alpha_local),
          log_of(m.beta_local),
          m.gamma};
}

// Which parameters the points can determine. Example: without a placement on several nodes, nothing depends on
// alpha_nodes.
struct Seen {
  bool several_local_batches = false;
  bool several_nodes = false;
  bool workers_on_one_node = false;
  bool third_worker = false;
};

Seen seen_in(std::span<const ProfilePoint> points) {
  Seen seen;
  for (const auto& point : points) {
    seen.several_local_batches |= point.local_batch != points.front().local_batch;
    seen.several_nodes |= point.nodes > 1;
    seen.workers_on_one_node |= point.nodes == 1 && point.replicas > 1;
    seen.third_worker |= point.replicas > 2;
  }
  return seen;
}

// The problem of one fit: points, bounds, the error with its gradient, and the minimiser.
class StepFit {
 public:
  explicit StepFit(std::span<const ProfilePoint> points) : seen_(seen_in(points)) {
    lower_.fill(math::log(kTiny));
    lower_[kGamma] = 1;
    upper_.fill(50);  // e^50 seconds: never reached.
    upper_[kGamma] = 10;
    double compute_sum = 0;
    for (const auto& point : points) compute_sum += add(point);
    freeze(compute_sum / static_cast<double>(points.size()));
  }

  Vector clamp(Vector x) const {
    for (std::size_t i = 0; i < kParameters; ++i) x[i] = std::clamp(x[i], lower_[i], upper_[i]);
    return x;
  }

  // The error at `x`, and its gradient.
  double evaluate(const Vector& x, Vector& gradient) const;

  // The nearest minimum from `start` downwards, by BFGS steps.
  Vector minimise(const Vector& start) const;

  // Without a step on several nodes these are assumed to synchronise 10 % slower than one node.
  void apply_prior(StepModel& model) const {
    if (seen_.several_nodes) return;
    model.alpha_nodes = std::max(model.alpha_nodes, 1.1 * model.alpha_local);
    model.beta_nodes = std::max(model.beta_nodes, 1.1 * model.beta_local);
  }

 private:
  enum class Link { none, local, nodes };
  struct Point {
    Link link = Link::none;
    double local_batch = 1;
    double more = 0;  // Workers beyond the second.
    double log_compute = 0;
    double log_step = 0;
  };

  // A place in the space of parameters, with the error and its gradient there.
  struct Position {
    Vector x{};
    Vector gradient{};
    double error = 0;
  };

  // The quasi-Newton direction, without components that would leave the bounds.
  Vector direction_at(const Vector& x, const Vector& gradient, const Matrix& inverse) const;
  // The first place along `direction` that is enough of an improvement, trying shorter and shorter steps. `slope` is
  // that of the error along `direction`. Nothing if no step improves.
  std::optional<Position> search_along(const Vector& direction, double slope, const Position& from) const;

  // Takes one timed step in and returns its time without synchronisation.
  double add(const ProfilePoint& point) {
    const double compute = std::max(point.time.step_s - point.time.sync_s, kTiny);
    const Link link = point.replicas <= 1 ? Link::none : point.nodes > 1 ? Link::nodes : Link::local;
    points_.push_back({link, static_cast<double>(point.local_batch),
                       std::max(static_cast<double>(point.replicas - 2), kTiny), math::log(compute),
                       math::log(point.time.step_s)});
    return compute;
  }

  // Holds one parameter at `value`: its bounds meet there.
  void fix(std::size_t i, double value) { lower_[i] = upper_[i] = value; }

  // Fixes every parameter that the points say nothing about, so that the fit does not wander along it.
  void freeze(double compute_mean) {
    if (!seen_.several_local_batches) fix(0, math::log(compute_mean / 2));
    if (!seen_.several_nodes) fix(2, lower_[2]);
    if (!seen_.several_nodes || !seen_.third_worker) fix(3, lower_[3]);
    if (!seen_.workers_on_one_node) fix(4, lower_[4]);
    if (!seen_.workers_on_one_node || !seen_.third_worker) fix(5, lower_[5]);
    // Without a second worker nothing depends on gamma but its price.
    if (!seen_.several_nodes && !seen_.workers_on_one_node) fix(kGamma, 1);
  }

  Seen seen_;
  std::vector<Point> points_;
  Vector lower_{};
  Vector upper_{};
};

double StepFit::evaluate(const Vector& x, Vector& gradient) const {
  const StepModel m = model_of(x);
  const double gamma = m.gamma;
  const auto count = static_cast<double>(points_.size());
  double squares_compute = 0;
  double squares_step = 0;
  Vector compute_slope{};
  Vector step_slope{};
  for (const auto& p : points_) {
    const double compute = m.alpha_compute + m.beta_compute * p.local_batch;
    const double log_compute = math::log(compute);
    // Derivatives of log compute by log alpha and log beta are the shares of the two terms.
    const double share_alpha = m.alpha_compute / compute;
    const double miss = log_compute - p.log_compute;
    squares_compute += miss * miss;
    compute_slope[0] += miss * share_alpha;
    compute_slope[1] += miss * (1 - share_alpha);
    if (p.link == Link::none) {  // Synchronising takes no time, whatever gamma says.
      const double step_miss = log_compute - p.log_step;
      squares_step += step_miss * step_miss;
      step_slope[0] += step_miss * share_alpha;
      step_slope[1] += step_miss * (1 - share_alpha);
      continue;
    }
    // Indices into the vector: 2 and 3 are alpha and beta between nodes, 4 and 5 within a node.
    const std::size_t link = p.link == Link::nodes ? 2 : 4;
    const double alpha = link == 2 ? m.alpha_nodes : m.alpha_local;
    const double beta = link == 2 ? m.beta_nodes : m.beta_local;
    const double sync = alpha + beta * p.more;
    const double log_sync = math::log(sync);
    // log (compute^gamma + sync^gamma) / gamma, taken relative to the larger so that nothing overflows.
    const double larger = std::max(log_compute, log_sync);
    const double apart = math::exp(-gamma * std::abs(log_compute - log_sync));
    const double log_step = larger + math::log(1 + apart) / gamma;
    const double share_compute = log_compute >= log_sync ? 1 / (1 + apart) : apart / (1 + apart);
    const double step_miss = log_step - p.log_step;
    squares_step += step_miss * step_miss;
    step_slope[0] += step_miss * share_compute * share_alpha;
    step_slope[1] += step_miss * share_compute * (1 - share_alpha);
    const double share_sync_alpha = alpha / sync;
    step_slope[link] += step_miss * (1 - share_compute) * share_sync_alpha;
    step_slope[link + 1] += step_miss * (1 - share_compute) * (1 - share_sync_alpha);
    step_slope[kGamma] += step_miss * (share_compute * log_compute + (1 - share_compute) * log_sync - log_step) / gamma;
  }
  // A root has no slope at 0; the small constant keeps exact fits of single points smooth.
  const double error_compute = std::sqrt(squares_compute / count + 1e-12);
  const double error_step = std::sqrt(squares_step / count + 1e-12);
  for (std::size_t i = 0; i < kParameters; ++i) {
    gradient[i] = compute_slope[i] / (count * error_compute) + step_slope[i] / (count * error_step);
  }
  // Penalties of Pollux: 1e-3 on (gamma - 1)^2, and 1e-2 on (beta / alpha)^2 of each link, which prefers a constant
  // synchronisation time where the points do not decide.
  gradient[kGamma] += 2e-3 * (gamma - 1);
  double price = 1e-3 * (gamma - 1) * (gamma - 1);
  for (const std::size_t link : {std::size_t{2}, std::size_t{4}}) {
    const double ratio = math::exp(2 * (x[link + 1] - x[link]));
    price += 1e-2 * ratio;
    gradient[link] -= 2e-2 * ratio;
    gradient[link + 1] += 2e-2 * ratio;
  }
  // A fixed parameter must not contribute to the slope, or the line search would wait for a gain that cannot come.
  for (std::size_t i = 0; i < kParameters; ++i) {
    if (lower_[i] == upper_[i]) gradient[i] = 0;
  }
  return error_compute + error_step + price;
}

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < kParameters; ++i) sum += a[i] * b[i];
  return sum;
}

Matrix identity(double scale) {
  Matrix m{};
  for (std::size_t i = 0; i < kParameters; ++i) m[i][i] = scale;
  return m;
}

// The update of the inverse Hessian by a step `s` that changed the gradient by `y`.
void update(Matrix& inverse, const Vector& s, const Vector& y, double sy) {
  Vector hy{};
  for (std::size_t i = 0; i < kParameters; ++i) hy[i] = dot(inverse[i], y);
  const double scale = (1 + dot(y, hy) / sy) / sy;
  for (std::size_t i = 0; i < kParameters; ++i) {
    for (std::size_t j = 0; j < kParameters; ++j) {
      inverse[i][j] += scale * s[i] * s[j] - (hy[i] * s[j] + s[i] * hy[j]) / sy;
    }
  }
}

Vector StepFit::direction_at(const Vector& x, const Vector& gradient, const Matrix& inverse) const {
  Vector direction{};
  for (std::size_t i = 0; i < kParameters; ++i) {
    direction[i] = -dot(inverse[i], gradient);
    // A parameter at its bound whose step points outward is not moved.
    const bool out = (x[i] <= lower_[i] && direction[i] < 0) || (x[i] >= upper_[i] && direction[i] > 0);
    if (out) direction[i] = 0;
  }
  return direction;
}

std::optional<StepFit::Position> StepFit::search_along(const Vector& direction, double slope,
                                                       const Position& from) const {
  double length = 1;
  Position next = from;
  // 0.4^25 is 1e-10 of the first length: a direction that gains nothing by then gains nothing.
  for (int shortening = 0; shortening < 25; ++shortening, length *= 0.4) {
    // A step multiplies a parameter by at most e^3, about 20: beyond, the quadratic model says nothing.
    for (std::size_t i = 0; i < kParameters; ++i) next.x[i] = from.x[i] + length * std::clamp(direction[i], -3.0, 3.0);
    next.x = clamp(next.x);
    next.error = evaluate(next.x, next.gradient);
    // Armijo's condition: a ten-thousandth of what the slope promises is enough.
    if (next.error <= from.error + 1e-4 * length * slope) return next;
  }
  return std::nullopt;
}

Vector StepFit::minimise(const Vector& start) const {
  Position at;
  at.x = clamp(start);
  at.error = evaluate(at.x, at.gradient);
  // A short first step, since nothing is known of the curvature yet.
  Matrix inverse = identity(0.1);
  bool fresh = true;  // `inverse` has learnt nothing yet: its direction is that of steepest descent.
  for (int iteration = 0; iteration < kIterationsMax; ++iteration) {
    const Vector direction = direction_at(at.x, at.gradient, inverse);
    const double slope = dot(direction, at.gradient);
    std::optional<Position> next;
    if (!(slope > -1e-12)) next = search_along(direction, slope, at);
    if (!next) {
      if (fresh) break;
      // The curvature from earlier steps is wrong here: restart with steepest descent.
      inverse = identity(0.1);
      fresh = true;
      continue;
    }
    Vector s{};
    Vector y{};
    for (std::size_t i = 0; i < kParameters; ++i) {
      s[i] = next->x[i] - at.x[i];
      y[i] = next->gradient[i] - at.gradient[i];
    }
    const double sy = dot(s, y);
    // Only a positive curvature keeps the inverse positive definite, and with it every direction a descent.
    if (sy > 1e-14) update(inverse, s, y, sy);
    const double gained = at.error - next->error;
    at = *next;
    fresh = false;
    if (gained < kTolerance * std::max(at.error, 1e-3)) break;
  }
  return at.x;
}

}  // namespace

StepModel fit_step_model(std::span<const ProfilePoint> points, const StepModel* start) {
  const StepFit fit(points);
  const Vector usual = vector_of(StepModel{});
  Vector from = start == nullptr ? usual : vector_of(*start);
  // A logarithm near its lower bound has no slope to follow, so a parameter that was fixed there restarts from its
  // default once the points determine it.
  for (std::size_t i = 0; i < kGamma; ++i) {
    if (from[i] < math::log(100 * kTiny)) from[i] = usual[i];
  }
  StepModel model = model_of(fit.minimise(from));
  fit.apply_prior(model);
  return model;
}

}  // namespace tangram::train
