// Pure functions over the books of TrainingSlots: each answers what should happen and changes nothing. Whole GPUs come
// before slots everywhere, because a job on a whole GPU runs at full speed and a device can only be taken whole while
// all of its slots are lent.

#include "control/lease_decisions.h"

#include <algorithm>

#include "base/check.h"
#include "train/reclaim.h"

namespace tangram::control {
namespace {

// Only a device whose slices can all be lent can become a whole GPU.
bool may_lend_all(const TrainingSlots::Device& device, const MayLend& may_lend) {
  return std::ranges::all_of(device.lendable, [&](std::size_t slot) { return may_lend[slot]; });
}

int gpus_on(int node, std::span<const train::JobView> jobs) {
  int gpus = 0;
  for (const auto& job : jobs) {
    for (const auto& share : *job.current) gpus += share.node == node ? share.gpus : 0;
  }
  return gpus;
}

}  // namespace

std::vector<std::size_t> gpus_to_ask_for(const TrainingSlots& slots, int gpus_wanted, const MayLend& may_lend) {
  const auto& devices = slots.devices();
  int have = 0;
  // Devices that are all lent count already: they are whole GPUs or become so without asking.
  for (std::size_t d = 0; d < devices.size(); ++d) have += slots.all_lent(d) ? 1 : 0;
  std::vector<std::size_t> asked;
  for (std::size_t d = 0; d < devices.size() && have < gpus_wanted; ++d) {
    if (slots.all_lent(d) || !may_lend_all(devices[d], may_lend)) continue;
    ++have;
    asked.push_back(d);
  }
  return asked;
}

std::vector<std::size_t> slots_to_ask_for(const TrainingSlots& slots, int jobs, const MayLend& may_lend) {
  if (!slots.lends_slices()) return {};
  int missing = jobs;
  for (std::size_t i = 0; i < slots.slots().size(); ++i) missing -= slots.usable(i) ? 1 : 0;
  std::vector<std::size_t> asked;
  for (std::size_t i = 0; i < slots.slots().size() && missing > 0; ++i) {
    const auto& slot = slots.slots()[i];
    // Not lendable, already lent, too slow for any job, or needed by inference.
    if (!slot.unit || slot.lent_since_s || slot.speed <= 0 || !may_lend[i]) continue;
    --missing;
    asked.push_back(i);
  }
  return asked;
}

std::vector<std::size_t> surplus_gpus(const TrainingSlots& slots, int gpus_wanted, std::vector<int> gpus_used) {
  const auto& devices = slots.devices();
  int surplus = -gpus_wanted;
  for (const auto& device : devices) surplus += device.whole ? 1 : 0;
  std::vector<std::size_t> returned;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    // The GPUs of a node are alike: its first ones count as those that jobs use.
    if (!devices[d].whole || --gpus_used[static_cast<std::size_t>(devices[d].node)] >= 0) continue;
    // Without a lendable slot the device belongs to training, so there is nothing to return.
    if (devices[d].lendable.empty() || --surplus < 0) continue;
    returned.push_back(d);
  }
  return returned;
}

SlotFilling fill_slots(const TrainingSlots& slots, std::span<const std::size_t> waiting, const MayLend& may_lend) {
  const auto open = slots.open_slots();
  const std::size_t filled = std::min(open.size(), waiting.size());
  SlotFilling filling;
  for (std::size_t i = 0; i < filled; ++i) filling.placements.push_back({waiting[i], open[i]});
  for (std::size_t i = filled; i < open.size(); ++i) {
    const auto& slot = slots.slots()[open[i]];
    // A slot may be the first part of a GPU that is to come whole.
    if (slot.unit && !may_lend_all(slots.devices()[slot.device], may_lend)) filling.returned.push_back(open[i]);
  }
  return filling;
}

std::vector<ShrinkStep> shrink_node(int node, int gpus_left, std::span<const train::JobView> jobs, int gpus_fleet) {
  // What the jobs would have after the steps so far.
  std::vector<train::Allocation> allocations;
  // The views point at the copies, so each step sees the result of the steps before.
  std::vector<train::JobView> views(jobs.begin(), jobs.end());
  for (const auto& job : jobs) allocations.push_back(*job.current);
  for (std::size_t i = 0; i < views.size(); ++i) views[i].current = &allocations[i];
  std::vector<ShrinkStep> steps;
  while (gpus_on(node, views) > gpus_left) {
    const auto reclaim = train::choose_reclaim_on(node, views, gpus_fleet, static_cast<int>(views.size()));
    TANGRAM_CHECK(reclaim.has_value(), "who uses the GPU is one of the jobs");
    train::remove_gpu(allocations[reclaim->job], node);
    steps.push_back({reclaim->job, allocations[reclaim->job]});
  }
  return steps;
}

}  // namespace tangram::control
