// The common part of allocators that give each job a number of GPUs by an exact knapsack.
//
// Such an allocator differs from the others only in what a job is worth with 1, 2, 3, ... GPUs. The numbers with the
// greatest sum are found by solve_knapsack and placed by place_counts. Example: with two GPUs and the values {3, 4} and
// {2, 2.5}, each job gets one, because 3 + 2 is more than 4 or 2.5.
#pragma once

#include <vector>

#include "train/allocator.h"

namespace tangram::train {

class KnapsackAllocator : public Allocator {
 public:
  std::vector<Allocation> allocate(const RoundView& view) final;

 protected:
  // Called once at the beginning of a round, for what depends on all jobs together.
  virtual void begin_round(const RoundView&, int /*gpus*/) {}
  // What `job` is worth with w GPUs, at index w - 1, for w up to what it can use or `gpus`, whichever is less. Without
  // GPUs it is worth 0. `gpus` are all of the round.
  virtual std::vector<double> values_of(const JobView& job, const RoundView& view, int gpus) const = 0;
};

}  // namespace tangram::train
