#include "train/allocator.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace tangram::train {

#define TANGRAM_ALLOCATOR(name, summary) std::unique_ptr<Allocator> make_##name(const AllocatorOptions& options);
#include "train/allocators/allocators.def"
#undef TANGRAM_ALLOCATOR

namespace {

constexpr AllocatorInfo kAllocators[] = {
#define TANGRAM_ALLOCATOR(name, summary) {#name, summary, make_##name},
#include "train/allocators/allocators.def"
#undef TANGRAM_ALLOCATOR
};

// The node with the fewest free GPUs that still holds `wanted`, or else the one with the most.
int choose_node(std::span<const int> free, int wanted) {
  int tightest = -1;
  int emptiest = 0;
  for (int node = 0; node < static_cast<int>(free.size()); ++node) {
    const int here = free[static_cast<std::size_t>(node)];
    if (here > free[static_cast<std::size_t>(emptiest)]) emptiest = node;
    if (here >= wanted && (tightest < 0 || here < free[static_cast<std::size_t>(tightest)])) tightest = node;
  }
  return tightest >= 0 ? tightest : emptiest;
}

}  // namespace

std::span<const AllocatorInfo> allocators() { return kAllocators; }

const AllocatorInfo* find_allocator(std::string_view name) {
  const auto* const found = std::ranges::find(kAllocators, name, &AllocatorInfo::name);
  return found == std::end(kAllocators) ? nullptr : found;
}

int RoundView::gpus() const {
  int sum = 0;
  for (const int free : gpus_free) sum += free;
  return sum;
}

int gpus_of(const Allocation& allocation) {
  int sum = 0;
  for (const auto& share : allocation) sum += share.gpus;
  return sum;
}

Placement placement_of(const Allocation& allocation) {
  Placement placement;
  for (const auto& share : allocation) placement.push_back(share.gpus);
  return placement;
}

Speedup::Speedup(const JobModel& model, int gpus, int jobs) : model_(&model) {
  const int fair = std::max((gpus + jobs - 1) / jobs, 1);
  fair_ = model.known() ? model.goodput(1, fair) : fair;
}

double Speedup::operator()(int nodes, int replicas) const {
  if (replicas == 0) return 0;
  if (!model_->known()) return replicas / fair_;
  return fair_ > 0 ? model_->goodput(nodes, replicas) / fair_ : 0;
}

double restart_factor(const JobView& job, double restart_s) {
  return std::max(job.age_s - job.restarts * restart_s, 0.0) / (job.age_s + restart_s);
}

void add_gpus(Allocation& allocation, int node, int gpus) {
  const auto place = std::ranges::lower_bound(allocation, node, {}, &Share::node);
  if (place != allocation.end() && place->node == node) {
    place->gpus += gpus;
  } else {
    allocation.insert(place, {node, gpus});
  }
}

void remove_gpu(Allocation& allocation, int node) {
  const auto place = std::ranges::find(allocation, node, &Share::node);
  TANGRAM_CHECK(place != allocation.end(), "a job gives up only GPUs that it has");
  if (--place->gpus == 0) allocation.erase(place);
}

std::vector<int> free_beside(std::span<const int> gpus_free, std::span<const Allocation> allocations) {
  std::vector<int> left(gpus_free.begin(), gpus_free.end());
  for (const auto& allocation : allocations) {
    for (const auto& share : allocation) left[static_cast<std::size_t>(share.node)] -= share.gpus;
  }
  for (const int gpus : left) TANGRAM_CHECK(gpus >= 0, "a GPU has one owner");
  return left;
}

std::vector<Allocation> place_counts(const RoundView& view, std::span<const int> counts) {
  std::vector<Allocation> allocations(counts.size());
  std::vector<std::size_t> moved;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (gpus_of(*view.jobs[i].current) == counts[i]) {
      allocations[i] = *view.jobs[i].current;
    } else if (counts[i] > 0) {
      moved.push_back(i);
    }
  }
  std::vector<int> free = free_beside(view.gpus_free, allocations);
  std::ranges::stable_sort(moved, {}, [&](std::size_t i) { return counts[i]; });
  for (const std::size_t i : moved) {
    for (int wanted = counts[i]; wanted > 0;) {
      const int node = choose_node(free, wanted);
      int& here = free[static_cast<std::size_t>(node)];
      const int taken = std::min(wanted, here);
      TANGRAM_CHECK(taken > 0, "more GPUs are placed than there are");
      add_gpus(allocations[i], node, taken);
      here -= taken;
      wanted -= taken;
    }
  }
  return allocations;
}

}  // namespace tangram::train
