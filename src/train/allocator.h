// Which training job gets which GPUs.
//
// An allocator is called at every scheduling round. It reads a view of the jobs and of the GPUs that training may use,
// and answers one allocation for each job; the caller applies them and pays for the changes. Allocators are seeded and
// read no clock, so a round is repeatable.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "train/application.h"
#include "train/job_model.h"

namespace tangram::train {

// So many GPUs of one node.
struct Share {
  int node = 0;
  int gpus = 0;

  auto operator<=>(const Share&) const = default;
};

// The GPUs of one job: ascending by node, no node twice, no share empty. So equal allocations compare equal.
using Allocation = std::vector<Share>;

int gpus_of(const Allocation& allocation);
Placement placement_of(const Allocation& allocation);

// One queued or running job.
struct JobView {
  std::uint32_t id = 0;  // Stays with the job over all rounds.
  const Application* application = nullptr;
  const JobModel* model = nullptr;
  const Allocation* current = nullptr;
  double submit_s = 0;
  double age_s = 0;          // Since submission.
  double attained_s = 0;     // GPU-seconds received.
  double progress_left = 0;  // In steps of the smallest batch, as the job's epochs say.
  int restarts = 0;
  int epoch = 0;
  int replicas_asked = 1;  // By the user, for allocators that do not choose it.
  int batch_asked = 1;
  int replicas_max = 1;        // What an elastic allocator may give.
  double restart_full_s = 30;  // From nothing, or moved.
  double restart_fast_s = 30;  // With workers that stay.
};

struct RoundView {
  double now_s = 0;
  double interval_s = 60;
  int gpus_per_node = 4;
  std::span<const int> gpus_free;  // On each node: all that training may use, those that it has included.
  std::span<const JobView> jobs;   // Ascending by attained service, then by submission.
  bool spread_apart = true;        // `pollux`: at most one job of several nodes on a node.

  int nodes() const { return static_cast<int>(gpus_free.size()); }
  int gpus() const;
};

struct AllocatorOptions {
  std::uint64_t seed = 1;
  int population = 100;   // `pollux`
  int generations = 100;  // `pollux`
  double restart_s = 30;  // `pollux`: the delay that a change is priced with.
  bool work_left_known =
      true;                   // `tangram`: false treats all jobs alike, as if nobody had said how many epochs they run.
  double horizon_min_s = 60;  // `tangram`: for how long a change is taken to last, at least
  double horizon_max_s = 600;  // and at most.
};

class Allocator {
 public:
  virtual ~Allocator() = default;
  // One allocation for each job of the view, in its order.
  virtual std::vector<Allocation> allocate(const RoundView& view) = 0;
  // True if jobs run with the batch that their users asked for.
  virtual bool keeps_batches() const { return false; }
};

struct AllocatorInfo {
  std::string_view name;
  std::string_view summary;
  std::unique_ptr<Allocator> (*make)(const AllocatorOptions& options);
};

// In the order of the list.
std::span<const AllocatorInfo> allocators();
// Null if there is none of that name.
const AllocatorInfo* find_allocator(std::string_view name);

// How many times faster a job learns with so many GPUs than with its fair share, that is, ceil(`gpus` / `jobs`).
class Speedup {
 public:
  Speedup(const JobModel& model, int gpus, int jobs);
  // 0 without GPUs. A job that has not run yet is taken to scale perfectly.
  double operator()(int nodes, int replicas) const;

 private:
  const JobModel* model_;
  double fair_;  // Goodput, or GPUs for a job that is not known.
};

// Pollux's price of a change: the share of its life that a job would have computed, had it restarted once more.
double restart_factor(const JobView& job, double restart_s);

// Places `counts[i]` GPUs for job i: jobs whose number stays keep their GPUs, the others follow, smallest first. A job
// that fits on a node gets the fullest node that holds it; a larger one takes the emptiest nodes whole.
std::vector<Allocation> place_counts(const RoundView& view, std::span<const int> counts);

// The GPUs of `gpus_free` that no allocation uses; checks that none is used twice.
std::vector<int> free_beside(std::span<const int> gpus_free, std::span<const Allocation> allocations);

// Adds GPUs to an allocation, keeping its order.
void add_gpus(Allocation& allocation, int node, int gpus);
// Takes one away; the node must be there.
void remove_gpu(Allocation& allocation, int node);

}  // namespace tangram::train
