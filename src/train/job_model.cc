// Goodput of a job for every size, with caches.
//
// An allocator asks for the same sizes hundreds of times between two observations, and each answer is a search over up
// to fifty splits of the batch. Both stages are therefore cached, throughput in StepKnowledge and the best split in
// JobModel, and are computed again only if their version has changed.

#include "train/job_model.h"

#include <algorithm>

#include "base/math.h"

namespace tangram::train {
namespace {

// Nodes, workers and local batch in one number; each has at least 16 bits.
std::uint64_t key_of(const ProfilePoint& point) {
  return static_cast<std::uint64_t>(point.nodes) << 48 | static_cast<std::uint64_t>(point.replicas) << 32 |
         static_cast<std::uint64_t>(point.local_batch);
}

}  // namespace

BatchMenu::BatchMenu(const BatchLimits& limits, int replicas_max) : limits_(limits) {
  by_replicas_.resize(static_cast<std::size_t>(replicas_max) + 1);
  // With more workers than batch_max / local_batch_min even the smallest share of each makes too large a batch.
  for (int replicas = 1; replicas <= replicas_max && replicas * limits.local_batch_min <= limits.batch_max;
       ++replicas) {
    by_replicas_[static_cast<std::size_t>(replicas)] = batch_candidates(limits, replicas);
    if (!by_replicas_[static_cast<std::size_t>(replicas)].empty()) replicas_max_ = replicas;
  }
}

void StepKnowledge::observe(const ProfilePoint& point, const Gradient& gradient) {
  // A repeated point would not change the fit, and fitting is the expensive part.
  if (!seen_.insert(key_of(point)).second) return;
  if (points_.empty()) gradient_first_ = gradient;
  points_.push_back(point);
  replicas_seen_max_ = std::max(replicas_seen_max_, point.replicas);
  // Starts from the last fit: one more point moves it little.
  model_ = fit_step_model(points_, model_ ? &*model_ : nullptr);
  ++version_;
}

void StepKnowledge::fill(Row& row, int nodes, int replicas) const {
  const auto choices = menu_->choices(replicas);
  const double sync = model_->sync_s(nodes, replicas);
  const double gamma = model_->gamma;
  const double log_sync = math::log(sync);
  row.throughput.resize(choices.size());
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const double compute = model_->compute_s(choices[i].local_batch);
    // (compute^gamma + sync^gamma)^(1/gamma), relative to the larger.
    const double apart = math::log(compute) - log_sync;
    const double ratio = math::exp(-gamma * std::abs(apart));
    const double step = std::max(compute, sync) * (ratio < 1e-9 ? 1 : math::exp(math::log(1 + ratio) / gamma));
    row.throughput[i] = choices[i].total(replicas) / (choices[i].accumulation * compute + step);
  }
  row.version = version_;
}

std::span<const double> StepKnowledge::throughput(int nodes, int replicas) const {
  // The model knows only one node or several, so two rows are enough.
  auto& rows = rows_[nodes > 1 ? 1 : 0];
  if (rows.size() <= static_cast<std::size_t>(replicas)) rows.resize(static_cast<std::size_t>(replicas) + 1);
  Row& row = rows[static_cast<std::size_t>(replicas)];
  if (row.version != version_) fill(row, nodes, replicas);
  return row.throughput;
}

void JobModel::observe(const ProfilePoint& point, const Gradient& gradient) {
  if (gradient_ != gradient) {
    gradient_ = gradient;
    ++gradient_version_;
  }
  steps_->observe(point, gradient);
}

const JobModel::Best& JobModel::best(int nodes, int replicas) const {
  auto& bests = bests_[nodes > 1 ? 1 : 0];
  if (bests.size() <= static_cast<std::size_t>(replicas)) bests.resize(static_cast<std::size_t>(replicas) + 1);
  Best& best = bests[static_cast<std::size_t>(replicas)];
  // Both versions must match: step times change with new placements, the gradient as training goes on.
  if (best.steps_version == steps_->version() && best.gradient_version == gradient_version_) return best;
  best = {steps_->version(), gradient_version_, 0, 0};
  const auto choices = steps_->menu().choices(replicas);
  const auto throughput = steps_->throughput(nodes, replicas);
  const Gradient& gradient = gradient_ ? *gradient_ : steps_->gradient_first();
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const double goodput = throughput[i] * efficiency(gradient, choices[i].total(replicas), limits().batch_min);
    if (goodput > best.goodput) {
      best.goodput = goodput;
      best.choice = i;
    }
  }
  return best;
}

BatchChoice JobModel::choose(int nodes, int replicas) const {
  if (fixed_batch_) return split_batch(limits(), *fixed_batch_, replicas);
  if (known()) {
    const Best& found = best(nodes, replicas);
    if (found.goodput > 0) {
      BatchChoice choice = steps_->menu().choices(replicas)[found.choice];
      // Rounding a share up may exceed the largest batch by a few samples.
      choice.local_batch = std::min(choice.local_batch, limits().batch_max / (replicas * (choice.accumulation + 1)));
      return choice;
    }
  }
  // Nothing is known: the smallest batch that gives every worker its minimum.
  return split_batch(limits(), std::max(limits().batch_min, limits().local_batch_min * replicas), replicas);
}

double JobModel::goodput(int nodes, int replicas) const { return best(nodes, replicas).goodput; }

}  // namespace tangram::train
