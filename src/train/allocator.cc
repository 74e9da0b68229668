// The list of allocators, and the placement that those share which decide only numbers of GPUs.
//
// Placement packs: a job that fits on one node should not be split, because synchronisation between nodes is slower,
// and large holes are kept for the jobs that need them. Jobs whose number does not change are never moved, since a move
// costs a full restart.

#include "train/allocator.h"

#include <algorithm>
#include <bit>
#include <utility>

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

// Nodes by how many GPUs they have free: a row of bits for each number, a bit for each node. Finding the best node
// costs a few words and not a scan over all nodes; a round places hundreds of jobs. Invariant: node n is in the row
// free_[n] and in no other.
class FreeNodes {
 public:
  explicit FreeNodes(std::vector<int> free) : free_(std::move(free)) {
    const auto rows = static_cast<std::size_t>(*std::ranges::max_element(free_)) + 1;
    by_free_.assign(rows, std::vector<std::uint64_t>((free_.size() + 63) / 64, 0));
    for (std::size_t node = 0; node < free_.size(); ++node) flip(node);
  }

  // The first node with the fewest free GPUs that still holds `wanted`, or else the first of those with the most.
  int choose(int wanted) const {
    for (std::size_t free = static_cast<std::size_t>(wanted); free < by_free_.size(); ++free) {
      if (const int node = first(by_free_[free]); node >= 0) return node;
    }
    // No node holds it whole: the emptiest node makes for the fewest nodes.
    for (std::size_t free = by_free_.size(); free-- > 0;) {
      if (const int node = first(by_free_[free]); node >= 0) return node;
    }
    return 0;
  }

  int free(int node) const { return free_[static_cast<std::size_t>(node)]; }

  void take(int node, int gpus) {
    const auto at = static_cast<std::size_t>(node);
    // Out of the old row, into the new one.
    flip(at);
    free_[at] -= gpus;
    flip(at);
  }

 private:
  void flip(std::size_t node) {
    by_free_[static_cast<std::size_t>(free_[node])][node / 64] ^= std::uint64_t{1} << (node % 64);
  }

  static int first(const std::vector<std::uint64_t>& row) {
    for (std::size_t word = 0; word < row.size(); ++word) {
      if (row[word] != 0) return static_cast<int>(word * 64) + std::countr_zero(row[word]);
    }
    return -1;
  }

  std::vector<int> free_;
  std::vector<std::vector<std::uint64_t>> by_free_;
};

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
  // In a large cluster with few jobs a fair share is more than a job can use.
  int fair = std::clamp((gpus + jobs - 1) / jobs, 1, model.replicas_max());
  fair_ = model.known() ? model.goodput(1, fair) : fair;
  // The fair share may be a number of workers among which no batch can be divided; the next smaller one that works is
  // used.
  while (fair_ == 0 && fair > 1) fair_ = model.goodput(1, --fair);
}

double Speedup::operator()(int nodes, int replicas) const {
  if (replicas == 0) return 0;
  // An unknown job is taken to scale perfectly, so that it gets a chance to run and become known.
  if (!model_->known()) return replicas / fair_;
  return fair_ > 0 ? model_->goodput(nodes, replicas) / fair_ : 0;
}

// The share of its life that the job would have computed. A young job pays more for the same restart than an old one.
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
  // An empty share would break the comparison of allocations.
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
  if (moved.empty()) return allocations;
  FreeNodes free(free_beside(view.gpus_free, allocations));
  // Smallest first: a small job fits into a hole over which a larger one would have to be split.
  std::ranges::stable_sort(moved, {}, [&](std::size_t i) { return counts[i]; });
  for (const std::size_t i : moved) {
    for (int wanted = counts[i]; wanted > 0;) {
      const int node = free.choose(wanted);
      const int taken = std::min(wanted, free.free(node));
      TANGRAM_CHECK(taken > 0, "more GPUs are placed than there are");
      add_gpus(allocations[i], node, taken);
      free.take(node, taken);
      wanted -= taken;
    }
  }
  return allocations;
}

}  // namespace tangram::train
