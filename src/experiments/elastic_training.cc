// Training in a shared cluster. Invariant: leases() - leases_ended() is the number of GPUs that jobs hold, because
// every change of an allocation and every end of a job is counted.

#include "experiments/elastic_training.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tangram::experiments {
namespace {

using train::Allocation;

constexpr double kEarlyGap_s = 5;  // Least time between two rounds of a prompt scheduler.

// Allocators that keep the user's batch must not have it chosen for them.
lab::JobTable::Options table_options(const train::Allocator& allocator, const SharedRun& run) {
  return {.learn_together = run.learn_together,
          .keeps_batches = allocator.keeps_batches(),
          .replicas_max = 64,
          .restart = run.restart};
}

std::unique_ptr<train::Allocator> allocator_of(const SharedRun& run) {
  const auto* info = train::find_allocator(run.allocator);
  TANGRAM_CHECK(info != nullptr, "the allocator is one of the list");
  return info->make(run.options);
}

void add_to_nodes(const Allocation& allocation, std::vector<int>& gpus) {
  for (const auto& share : allocation) gpus[static_cast<std::size_t>(share.node)] += share.gpus;
}

}  // namespace

std::vector<int> TrainingDraft::gpus_on_nodes(int nodes) const {
  std::vector<int> gpus(static_cast<std::size_t>(nodes), 0);
  for (const auto& allocation : allocations) add_to_nodes(allocation, gpus);
  return gpus;
}

int TrainingDraft::leave(int node) {
  int left = 0;
  for (auto& allocation : allocations) {
    // The predicate also counts: an allocation has at most one share of a node.
    std::erase_if(allocation, [&](const train::Share& share) {
      if (share.node != node) return false;
      left += share.gpus;
      return true;
    });
  }
  return left;
}

ElasticTraining::ElasticTraining(const train::Applications& applications, const std::vector<formats::ClusterJob>& jobs,
                                 const SharedRun& run)
    : run_(run), allocator_(allocator_of(run)), jobs_(table_options(*allocator_, run)) {
  for (const auto& job : jobs) {
    if (job.kind != formats::JobKind::training) continue;
    jobs_.add(applications.find(job.application)->second, job, sharing_costs(job.application).restart);
  }
}

int ElasticTraining::gpus() const {
  int gpus = 0;
  for (const std::size_t i : jobs_.present()) gpus += jobs_.job(i).gpus();
  return gpus;
}

std::vector<int> ElasticTraining::gpus_on_nodes() const {
  std::vector<int> gpus(static_cast<std::size_t>(run_.nodes), 0);
  for (const std::size_t i : jobs_.present()) add_to_nodes(jobs_.job(i).allocation(), gpus);
  return gpus;
}

void ElasticTraining::advance(double now_s, double next_s) {
  const bool ended =
      jobs_.advance(now_s, next_s - now_s, {}, [&](std::size_t i) { leases_ended_ += jobs_.job(i).gpus(); });
  changed_ = jobs_.admit(next_s) || ended || changed_;
}

// Changes that come within seconds of each other share a round: each round may restart jobs.
bool ElasticTraining::early_round_due(double now_s) const { return changed_ && now_s - last_round_s_ >= kEarlyGap_s; }

double ElasticTraining::next_look_s(double now_s) const {
  // No job ends before its epoch does, so the ends of epochs bound the time to look again from below.
  double next = std::ceil(jobs_.next_submit_s());
  if (changed_) next = std::min(next, last_round_s_ + kEarlyGap_s);
  for (const std::size_t i : jobs_.present()) next = std::min(next, now_s + jobs_.job(i).until_epoch_s());
  return next;
}

void ElasticTraining::hold_round(double now_s, std::vector<int> lendable) {
  // A round takes every change so far into account, also when no job is left to decide about.
  changed_ = false;
  last_round_s_ = now_s;
  const auto active = jobs_.ranked();
  if (active.empty()) return;
  ++rounds_;
  const auto views = jobs_.views_of(active, now_s);
  const auto allocations = allocator_->allocate({.now_s = now_s,
                                                 .interval_s = run_.interval_s,
                                                 .gpus_per_node = run_.gpus_per_node,
                                                 .gpus_free = lendable,
                                                 .jobs = views});
  // Called for its check that no GPU is used twice.
  train::free_beside(lendable, allocations);
  reallocate(active, allocations);
}

TrainingDraft ElasticTraining::draft(double now_s) const {
  TrainingDraft draft;
  draft.jobs = jobs_.ranked();
  for (const std::size_t i : draft.jobs) draft.allocations.push_back(jobs_.job(i).allocation());
  draft.views = jobs_.views_of(draft.jobs, now_s);
  // Views must follow the draft while it changes. The addresses stay valid when the draft is moved.
  for (std::size_t k = 0; k < draft.jobs.size(); ++k) draft.views[k].current = &draft.allocations[k];
  return draft;
}

void ElasticTraining::reallocate(const std::vector<std::size_t>& jobs, const std::vector<Allocation>& allocations) {
  for (std::size_t k = 0; k < jobs.size(); ++k) {
    // A job that moves to as many other GPUs begins no lease: leases are counted by number, not by place.
    const int before = jobs_.job(jobs[k]).gpus();
    const int after = train::gpus_of(allocations[k]);
    leases_ += std::max(after - before, 0);
    leases_ended_ += std::max(before - after, 0);
    jobs_.reallocate(jobs[k], allocations[k]);
  }
}

}  // namespace tangram::experiments
