// What training asks inference for, what it gives back, and which job gives way: observations in, decisions out.
//
// Whoever runs the jobs applies the decisions, in the order in which they are answered. A device is a GPU of the
// allocator only when all of its slices are lent, so GPUs are asked for before slices, and a slice that is part of a
// GPU to come is kept.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "control/training_slots.h"
#include "train/allocator.h"

namespace tangram::control {

// By slot: inference does not need it now, so that it may be lent. False for uncut slots, which do not need to be lent.
using MayLend = std::vector<bool>;

// Devices to ask for as whole GPUs, with all of their lendable slots, until there are as many as the jobs want. Devices
// are taken in their order; those of which inference needs a slice are passed over.
std::vector<std::size_t> gpus_to_ask_for(const TrainingSlots& slots, int gpus_wanted, const MayLend& may_lend);

// Slots to ask for, so that each of `jobs` that have no whole GPU can have one. Call it after the GPUs have been asked
// for. Empty where only whole GPUs are lent.
std::vector<std::size_t> slots_to_ask_for(const TrainingSlots& slots, int jobs, const MayLend& may_lend);

// Whole devices to return to inference: no job uses them, and there are more than all jobs together want. `gpus_used`
// counts the GPUs of jobs on each node. Training's own devices stay.
std::vector<std::size_t> surplus_gpus(const TrainingSlots& slots, int gpus_wanted, std::vector<int> gpus_used);

struct SlotFilling {
  struct Placement {
    std::size_t job = 0;
    std::size_t slot = 0;
  };
  std::vector<Placement> placements;
  std::vector<std::size_t> returned;  // Lent slots to give back: no job is left for them.
};

// Puts waiting jobs on open slots: the first of `waiting` gets the fastest. They are in the order of least GPU time
// received, so that the job that has had least gains most.
SlotFilling fill_slots(const TrainingSlots& slots, std::span<const std::size_t> waiting, const MayLend& may_lend);

struct ShrinkStep {
  std::size_t job = 0;           // Index into the jobs.
  train::Allocation allocation;  // What is left to it.
};

// Which jobs give up GPUs of `node` so that they use no more than `gpus_left` of them, one GPU in each step: always the
// one whose loss is least (train::choose_reclaim_on). `jobs` come with their allocations; `gpus_fleet` are all GPUs of
// the fleet, which says what a fair share is.
std::vector<ShrinkStep> shrink_node(int node, int gpus_left, std::span<const train::JobView> jobs, int gpus_fleet);

}  // namespace tangram::control
