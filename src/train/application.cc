// Interpolation between measured training steps, and limits that follow from what was measured.
//
// A placement that was timed is looked up. Any other is interpolated, first over the number of workers at the two
// nearest numbers of nodes, then between these two. Beyond the measured range the nearest value is used: extrapolated
// step times could become negative. Example: 2 nodes with 6 workers, timed with 4 and 8 workers, take the mean of the
// two curves.

#include "train/application.h"

#include <algorithm>
#include <numeric>

namespace tangram::train {
namespace {

// Nodes are alike, so rotations of a placement take the same time: {2, 1} and {1, 2} are one entry.
Placement smallest_rotation(const Placement& placement) {
  Placement best = placement;
  Placement turned = placement;
  for (std::size_t i = 1; i < placement.size(); ++i) {
    std::ranges::rotate(turned, turned.begin() + 1);
    best = std::min(best, turned);
  }
  return best;
}

StepTime mix(StepTime a, StepTime b, double weight) {
  return {a.step_s + weight * (b.step_s - a.step_s), a.sync_s + weight * (b.sync_s - a.sync_s)};
}

double mix(double a, double b, double weight) { return a + weight * (b - a); }

// The weighted mean of two curves at all timed batch sizes up to the longer curve. The shorter one is constant beyond
// its end.
StepCurve mix(const StepCurve& a, const StepCurve& b, double weight, std::span<const int> local_batches) {
  StepCurve mixed;
  const int most = std::max(a.local_batch_max(), b.local_batch_max());
  for (const int local_batch : local_batches) {
    if (local_batch <= most) mixed.add(local_batch, mix(a.at(local_batch), b.at(local_batch), weight));
  }
  return mixed;
}

// The entries of an ascending map around `key`, both the same at the ends and on a hit.
template <typename Map>
auto around(const Map& map, int key) {
  auto high = map.lower_bound(key);
  if (high == map.end()) --high;
  auto low = high;
  if (low->first > key && low != map.begin()) --low;
  return std::pair(low, high);
}

// 0 at `low`, 1 at `high`; no extrapolation.
double weight_between(int low, int high, int at) {
  if (high <= low) return 0;
  return std::clamp(static_cast<double>(at - low) / (high - low), 0.0, 1.0);
}

}  // namespace

int replicas_of(const Placement& placement) { return std::accumulate(placement.begin(), placement.end(), 0); }

void StepCurve::finish() {
  std::ranges::stable_sort(points_, {}, &Point::local_batch);
  // Several timings of one size become their mean, so that sizes ascend strictly and at() never divides by 0.
  std::vector<Point> joined;
  for (std::size_t i = 0; i < points_.size();) {
    std::size_t end = i;
    StepTime sum;
    for (; end < points_.size() && points_[end].local_batch == points_[i].local_batch; ++end) {
      sum.step_s += points_[end].time.step_s;
      sum.sync_s += points_[end].time.sync_s;
    }
    const auto count = static_cast<double>(end - i);
    joined.push_back({points_[i].local_batch, {sum.step_s / count, sum.sync_s / count}});
    i = end;
  }
  points_ = std::move(joined);
}

StepTime StepCurve::at(double local_batch) const {
  const auto high = std::ranges::lower_bound(points_, local_batch, {}, &Point::local_batch);
  // Constant beyond both ends.
  if (high == points_.begin()) return points_.front().time;
  if (high == points_.end()) return points_.back().time;
  const Point& low = *(high - 1);
  return mix(low.time, high->time, (local_batch - low.local_batch) / (high->local_batch - low.local_batch));
}

Result<Application> Application::make(std::string name, std::span<const TimedStep> steps,
                                      std::span<const ValidationRun> runs) {
  if (steps.empty() || runs.empty()) {
    return Error{ErrorCode::invalid, name + ": needs timed steps and validations for a simulation"};
  }
  Application app;
  app.name_ = std::move(name);
  app.runs_.assign(runs.begin(), runs.end());
  std::ranges::sort(app.runs_, {}, &ValidationRun::batch);
  app.batch_min_ = app.runs_.front().batch;
  app.batch_max_ = app.runs_.back().batch;
  // The shortest run decides: beyond it one batch size would have no data to interpolate.
  std::size_t epochs = app.runs_.front().progress.size();
  for (const auto& run : app.runs_) epochs = std::min(epochs, run.progress.size());
  app.epochs_ = static_cast<int>(epochs);
  app.progress_.assign(epochs + 1, 0);
  for (std::size_t e = 0; e < epochs; ++e) {
    app.progress_[e + 1] = app.runs_.front().progress[e];
    // The least progress over all batch sizes: each of them has reached it after so many epochs.
    for (const auto& run : app.runs_) app.progress_[e + 1] = std::min(app.progress_[e + 1], run.progress[e]);
  }
  for (const auto& step : steps) {
    app.local_batches_.push_back(step.local_batch);
    app.groups_[step.nodes][step.replicas].add(step.local_batch, step.time);
    if (!step.placement.empty()) {
      app.placements_[smallest_rotation(step.placement)].add(step.local_batch, step.time);
    }
  }
  for (auto& [placement, curve] : app.placements_) curve.finish();
  for (auto& [nodes, by_replicas] : app.groups_) {
    for (auto& [replicas, curve] : by_replicas) curve.finish();
  }
  std::ranges::sort(app.local_batches_);
  const auto rest = std::ranges::unique(app.local_batches_);
  app.local_batches_.erase(rest.begin(), rest.end());
  app.local_batch_min_ = app.local_batches_.front();
  app.local_batch_max_ = app.find_local_batch_max(app.local_batches_.back());
  return app;
}

// Traces leave out runs that failed. A curve that ends below a size that its workers could have used within batch_max
// shows that this size does not fit into memory.
int Application::find_local_batch_max(int measured_max) const {
  int most = measured_max;
  for (const auto& [nodes, by_replicas] : groups_) {
    for (const auto& [replicas, curve] : by_replicas) {
      if (curve.local_batch_max() < std::min(most, batch_max_ / replicas)) most = curve.local_batch_max();
    }
  }
  return most;
}

// Cost: a map lookup, or four curves mixed into one.
StepCurve Application::curve(const Placement& placement) const {
  const auto found = placements_.find(smallest_rotation(placement));
  if (found != placements_.end()) return found->second;
  return interpolate(static_cast<int>(placement.size()), replicas_of(placement));
}

StepCurve Application::interpolate(int nodes, int replicas) const {
  const auto [low, high] = around(groups_, nodes);
  if (low == high) return interpolate_replicas(low->first, replicas);
  return mix(interpolate_replicas(low->first, replicas), interpolate_replicas(high->first, replicas),
             weight_between(low->first, high->first, nodes), local_batches_);
}

StepCurve Application::interpolate_replicas(int nodes, int replicas) const {
  const auto [low, high] = around(groups_.at(nodes), replicas);
  // Exactly this number, or beyond the measured ones.
  if (low == high) return low->second;
  return mix(low->second, high->second, weight_between(low->first, high->first, replicas), local_batches_);
}

// Constant beyond the validated batch sizes, where both ends are the same run and the weight does not matter.
Application::Bracket Application::bracket(double batch) const {
  const auto high = std::ranges::lower_bound(runs_, batch, {}, &ValidationRun::batch);
  if (high == runs_.begin()) return {&runs_.front(), &runs_.front(), 0};
  if (high == runs_.end()) return {&runs_.back(), &runs_.back(), 0};
  const ValidationRun& low = *(high - 1);
  return {&low, &*high, (batch - low.batch) / (high->batch - low.batch)};
}

Gradient Application::gradient(double batch, int epoch) const {
  const auto [low, high, weight] = bracket(batch);
  const Gradient& a = low->gradients[static_cast<std::size_t>(epoch)];
  const Gradient& b = high->gradients[static_cast<std::size_t>(epoch)];
  return {mix(a.sqr, b.sqr, weight), mix(a.var, b.var, weight)};
}

double Application::iterations(double batch, int epoch) const {
  const auto [low, high, weight] = bracket(batch);
  return mix(low->iterations[static_cast<std::size_t>(epoch)], high->iterations[static_cast<std::size_t>(epoch)],
             weight);
}

}  // namespace tangram::train
