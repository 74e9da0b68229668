// Where training jobs can run in a fleet that they share with inference: whole GPUs and slots.
//
// A slot is a slice that holds one training job. Either inference lends it, and it then has a unit of sched::Lending,
// or the plan leaves it uncut and it is always there. A device whose slots are all lent, or of which inference uses
// nothing, can be taken whole: then it is one GPU of the allocator and its slots are not used.
//
// This keeps the books and decides nothing; the decisions are in lease_decisions.h. Invariants, checked by check():
//   - A job has at most one slot, and a slot at most one job.
//   - A job is only on a usable slot: see usable().
// Which jobs run on whole GPUs is not kept here; the allocations of the jobs say so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tangram::control {

class TrainingSlots {
 public:
  struct Slot {
    std::optional<std::size_t> unit;  // Of sched::Lending; none: a slice that the plan leaves uncut.
    std::size_t device = 0;
    double speed = 0;                         // Of training, in parts of a whole GPU; 0: no job fits.
    double weight = 0;                        // Share of the device.
    std::optional<std::size_t> job = {};      // That runs on it.
    std::optional<double> lent_since_s = {};  // While it is lent.
  };
  struct Device {
    int node = 0;
    std::vector<std::size_t> lendable;  // Its slots that can be lent; none: inference does not use the device.
    std::vector<std::size_t> uncut;     // Its other slots.
    bool whole = false;                 // It is one of the GPUs of the allocator.
  };
  struct Setup {
    std::size_t devices = 0;
    int gpus_per_node = 4;     // Consecutive devices form a node, so many in each.
    std::size_t jobs = 0;      // Jobs are numbered from 0.
    bool lends_slices = true;  // Jobs may run on slots; otherwise on whole GPUs only.
  };
  struct LeaseTotals {
    std::int64_t begun = 0;
    std::int64_t ended = 0;
    double seconds = 0;  // Of those that ended.
  };

  // Slots are named by their index in `slots`. Devices without a lendable slot are whole from the start and for ever.
  TrainingSlots(const Setup& setup, std::vector<Slot> slots);

  int nodes() const { return nodes_; }
  bool lends_slices() const { return setup_.lends_slices; }
  const std::vector<Device>& devices() const { return devices_; }
  const std::vector<Slot>& slots() const { return slots_; }
  // The slot of a job, if it is on one.
  std::optional<std::size_t> slot_of(std::size_t job) const { return slot_of_[job]; }
  // By job: how much slower than on a whole GPU it runs, 0 to 1; 0 for jobs that are not on a slot.
  const std::vector<double>& slowdowns() const { return slowdowns_; }
  const LeaseTotals& leases() const { return leases_; }

  // True if every lendable slot of the device is lent; also if it has none.
  bool all_lent(std::size_t device) const;
  // True if a job may run on the slot now: its device is not taken whole, training is not too slow there, and it is
  // lent or uncut.
  bool usable(std::size_t slot) const;
  // Usable slots without a job, the fastest first.
  std::vector<std::size_t> open_slots() const;
  // Whole GPUs on each node.
  std::vector<int> whole_gpus() const;

  // Inference lends a slot. Requires that it can be lent and is not.
  void begin_lease(std::size_t slot, double now_s);
  // A lease ends, by either side. Requires that the slot is lent; a job on it must then leave().
  void end_lease(std::size_t slot, double now_s);
  // A job starts on a slot. Requires that neither has another.
  void put(std::size_t job, std::size_t slot);
  // A job leaves its slot; nothing happens if it has none.
  void leave(std::size_t job);
  // Makes a device a GPU of the allocator, or no longer. Jobs must have left its slots.
  void set_whole(std::size_t device, bool whole) { devices_[device].whole = whole; }

  // Stops the program if an invariant is broken.
  void check() const;

 private:
  Setup setup_;
  std::vector<Slot> slots_;
  std::vector<Device> devices_;
  std::vector<std::optional<std::size_t>> slot_of_;  // By job.
  std::vector<double> slowdowns_;                    // By job.
  LeaseTotals leases_;
  int nodes_ = 0;
};

}  // namespace tangram::control
