#include "train/step_speeds.h"

#include <algorithm>

#include "base/math.h"
#include "train/goodput.h"

namespace tangram::train {

namespace {

double modelled_step_s(const StepModel& model, int trainers, int parts) {
  const double compute = model.compute_s(parts);
  const double sync = model.sync_s(1, trainers);
  return math::pow(math::pow(compute, model.gamma) + math::pow(sync, model.gamma), 1 / model.gamma);
}

}  // namespace

std::vector<double> speeds_from_steps(std::span<const double> timed_s, int parts) {
  // Each trainer computes its parts one after another, and the step ends with the slowest.
  const auto local = [&](int trainers) { return (parts + trainers - 1) / trainers; };
  std::vector<ProfilePoint> points;
  // How long a part takes is known best from the fewest trainers, which wait least for each other.
  double part_s = 0;
  int most = 0;
  for (int n = 1; n <= std::min(parts, static_cast<int>(timed_s.size())); ++n) {
    const double step = timed_s[static_cast<std::size_t>(n - 1)];
    if (step <= 0) continue;
    if (part_s == 0) part_s = step / local(n);
    const double sync = n == 1 ? 0 : std::max(0.0, step - part_s * local(n));
    points.push_back({.nodes = 1, .replicas = n, .local_batch = local(n), .time = {step, sync}});
    most = n;
  }
  if (points.empty()) return {};
  const StepModel model = fit_step_model(points, nullptr);
  std::vector<double> speeds;
  for (int n = 1; n <= std::min(parts, most + 1); ++n) {
    const auto at = static_cast<std::size_t>(n - 1);
    const double timed = at < timed_s.size() ? timed_s[at] : 0;
    speeds.push_back(1 / (timed > 0 ? timed : modelled_step_s(model, n, local(n))));
  }
  return speeds;
}

}  // namespace tangram::train
