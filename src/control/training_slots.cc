// The books of whole GPUs, slots and leases. Both directions, slot to job and job to slot, change together in put() and
// leave(), so that neither can name a partner that does not name it back; check() verifies the rest.

#include "control/training_slots.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "base/check.h"

namespace tangram::control {

TrainingSlots::TrainingSlots(const Setup& setup, std::vector<Slot> slots) : setup_(setup), slots_(std::move(slots)) {
  devices_.resize(setup.devices);
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    devices_[d].node = static_cast<int>(d) / setup.gpus_per_node;
    nodes_ = devices_[d].node + 1;
  }
  // A slot with a unit can be lent by inference; any other is left over by the plan.
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Device& device = devices_[slots_[i].device];
    (slots_[i].unit ? device.lendable : device.uncut).push_back(i);
  }
  // A device of which inference uses nothing is a whole GPU from the start.
  for (auto& device : devices_) device.whole = device.lendable.empty();
  slot_of_.assign(setup.jobs, std::nullopt);
  slowdowns_.assign(setup.jobs, 0);
}

bool TrainingSlots::all_lent(std::size_t device) const {
  return std::ranges::all_of(devices_[device].lendable,
                             [&](std::size_t slot) { return slots_[slot].lent_since_s.has_value(); });
}

// A slot of a device that is taken whole is part of that GPU, and must not hold a second job.
bool TrainingSlots::usable(std::size_t slot) const {
  const Slot& at = slots_[slot];
  return setup_.lends_slices && at.speed > 0 && !devices_[at.device].whole && (!at.unit || at.lent_since_s);
}

std::vector<std::size_t> TrainingSlots::open_slots() const {
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (usable(i) && !slots_[i].job) open.push_back(i);
  }
  // Stable, so that equally fast slots keep their order and a run repeats.
  std::ranges::stable_sort(open, std::greater{}, [&](std::size_t slot) { return slots_[slot].speed; });
  return open;
}

std::vector<int> TrainingSlots::whole_gpus() const {
  std::vector<int> gpus(static_cast<std::size_t>(nodes_), 0);
  for (const auto& device : devices_) gpus[static_cast<std::size_t>(device.node)] += device.whole ? 1 : 0;
  return gpus;
}

void TrainingSlots::begin_lease(std::size_t slot, double now_s) {
  TANGRAM_CHECK(slots_[slot].unit && !slots_[slot].lent_since_s, "a slot is lent once at a time");
  slots_[slot].lent_since_s = now_s;
  ++leases_.begun;
}

void TrainingSlots::end_lease(std::size_t slot, double now_s) {
  TANGRAM_CHECK(slots_[slot].lent_since_s.has_value(), "a lease that ends was begun");
  // Counted at the end, so that totals are only of complete leases.
  leases_.seconds += now_s - *slots_[slot].lent_since_s;
  ++leases_.ended;
  // A job on the slot stays in the books until leave(): it may have to be stopped first.
  slots_[slot].lent_since_s.reset();
}

void TrainingSlots::put(std::size_t job, std::size_t slot) {
  TANGRAM_CHECK(!slot_of_[job] && !slots_[slot].job, "a job has one slot, and a slot one job");
  slots_[slot].job = job;
  slot_of_[job] = slot;
  // The lost share of speed: a slot of speed 0.4 slows its job down by 0.6.
  slowdowns_[job] = 1 - slots_[slot].speed;
}

void TrainingSlots::leave(std::size_t job) {
  if (!slot_of_[job]) return;
  slots_[*slot_of_[job]].job.reset();
  slot_of_[job].reset();
  slowdowns_[job] = 0;
}

// Linear in the number of slots.
void TrainingSlots::check() const {
  std::set<std::size_t> jobs;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].job) continue;
    TANGRAM_CHECK(usable(i), "a job runs only on a slice that is lent");
    TANGRAM_CHECK(jobs.insert(*slots_[i].job).second, "a job runs on one slice");
  }
}

}  // namespace tangram::control
