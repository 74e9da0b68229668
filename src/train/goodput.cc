// The closed-form parts of the goodput model: synchronisation time, statistical efficiency and splits of the batch. The
// fit of its parameters is in fit.cc.

#include "train/goodput.h"

#include <algorithm>
#include <cmath>

#include "base/math.h"

namespace tangram::train {
namespace {

constexpr double kAsGoodAsNone = 1e-8;  // Of a rounding that should not count, and of a time that is as good as none.
constexpr int kCandidates = 50;

// A quotient that is whole but for rounding must not be rounded up to the next number.
double ceiling(double x) { return std::ceil(x - kAsGoodAsNone); }

// Passes besides the last, so that a worker's share fits. A single worker needs two passes for a larger batch than the
// smallest, because the noise of the gradient is measured between passes.
int accumulation_of(const BatchLimits& limits, double local, int replicas) {
  const int needed = static_cast<int>(ceiling(local / limits.local_batch_max)) - 1;
  if (replicas == 1 && local > limits.batch_min + kAsGoodAsNone) return std::max(needed, 1);
  return needed;
}

}  // namespace

double StepModel::sync_s(int nodes, int replicas) const {
  if (replicas <= 1) return kAsGoodAsNone;
  const double more = std::max(static_cast<double>(replicas - 2), kAsGoodAsNone);
  return nodes > 1 ? alpha_nodes + beta_nodes * more : alpha_local + beta_local * more;
}

BatchLimits limits_of(const Application& application) {
  return {.batch_min = application.batch_min(),
          .batch_max = application.batch_max(),
          .local_batch_min = application.local_batch_min(),
          .local_batch_max = application.local_batch_max()};
}

// With noise scale var / sqr: a step at a large batch averages out noise, but cannot gain more than (var + sqr) / sqr.
// Equal to 1 at the smallest batch. Without any gradient there is nothing to gain from a larger batch.
double gain(const Gradient& gradient, double batch, double batch_min) {
  const double denominator = gradient.var * batch_min / batch + gradient.sqr;
  return denominator > 0 ? (gradient.var + gradient.sqr) / denominator : 1;
}

double efficiency(const Gradient& gradient, double batch, double batch_min) {
  return gain(gradient, batch, batch_min) * batch_min / batch;
}

BatchChoice split_batch(const BatchLimits& limits, double batch, int replicas) {
  const double local = ceiling(batch / replicas);
  BatchChoice choice;
  choice.accumulation = accumulation_of(limits, local, replicas);
  choice.local_batch = static_cast<int>(ceiling(local / (choice.accumulation + 1)));
  // Rounding each share up must not exceed the largest batch.
  choice.local_batch = std::min(choice.local_batch, limits.batch_max / (replicas * (choice.accumulation + 1)));
  return choice;
}

std::vector<BatchChoice> batch_candidates(const BatchLimits& limits, int replicas) {
  const double low = std::max(limits.batch_min, limits.local_batch_min * replicas);
  const double ratio = math::log(limits.batch_max / low) / (kCandidates - 1);
  std::vector<BatchChoice> choices;
  for (int i = 0; i < kCandidates; ++i) {
    const double local = low * math::exp(ratio * i) / replicas;
    BatchChoice choice;
    choice.accumulation = accumulation_of(limits, local, replicas);
    choice.local_batch = static_cast<int>(ceiling(local / (choice.accumulation + 1)));
    // Neighbouring batches often round to the same split; each is kept once.
    const bool fits = limits.local_batch_min <= choice.local_batch && choice.local_batch <= limits.local_batch_max;
    if (fits && (choices.empty() || !(choices.back() == choice))) choices.push_back(choice);
  }
  return choices;
}

}  // namespace tangram::train
