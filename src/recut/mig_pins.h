// Pins each worker to the MIG device of its slice.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "host/mutex.h"
#include "recut/live_gpus.h"

namespace tangram::recut {

// Knows the MIG device of each slice of a plan, for CUDA_VISIBLE_DEVICES. A slice is found by the UUID of its GPU, its
// MigProfile and its start; the UUID of the MIG device changes with each cut and is never stored in a file.
class MigPins {
 public:
  // `required`: the workers need their slices, so a missing one is an error if there is a driver. `of_fleet`: the
  // choices may name devices that a plan does not use.
  MigPins(GpuChoices choices, bool required, bool of_fleet = false)
      : choices_(std::move(choices)), required_(required), of_fleet_(of_fleet) {}

  // Looks up all slices again. Any thread. Returns a note for the user, or an empty text. Errors: a device of the plan
  // is no GPU of this machine, or a slice does not exist as one part; the previous result is then kept.
  Result<std::string> look_up(const Plan& plan);
  // Looks up the slices of the devices of `plan` alone; what is known of others stays. Any thread. Errors: as
  // look_up().
  Result<Nothing> look_up_some(const Plan& plan);
  // The variables for the environment of a slice's worker; empty for a slice of the host, or without a driver. Any
  // thread.
  std::vector<std::string> environment(const std::string& device, const Slice& slice) const;

 private:
  using Key = std::pair<std::string, int>;  // The device, and where the slice starts.

  // The MIG UUIDs of all slices of the plan. Changes nothing. Errors: as look_up().
  Result<std::map<Key, std::string>> find(const Plan& plan, const adapters::DriverReport& driver) const;

  GpuChoices choices_;
  bool required_;
  bool of_fleet_;
  mutable host::Mutex mutex_;
  std::map<Key, std::string> uuids_ GUARDED_BY(mutex_);
};

}  // namespace tangram::recut
