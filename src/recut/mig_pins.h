// Workers on the MIG devices of their slices.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "host/mutex.h"
#include "recut/live_gpus.h"

namespace tangram::recut {

// Which MIG device each slice of a plan is, for CUDA_VISIBLE_DEVICES. A slice is found by the UUID of its GPU, its
// MigProfile and its start; the UUID of the MIG device changes with each cut and is never kept in a file.
class MigPins {
 public:
  // `required`: what runs needs its slices, so that one that is missing is an error where there is a driver.
  MigPins(GpuChoices choices, bool required) : choices_(std::move(choices)), required_(required) {}

  // Looks all slices up anew. Any thread. Answers what is worth a note, or nothing. Errors: a device of the plan is no
  // GPU of this machine, or a slice is not there as one part; what was known is then kept.
  Result<std::string> look_up(const Plan& plan);
  // What the worker of a slice finds in its environment: nothing for a slice of the host, or without a driver. Any
  // thread.
  std::vector<std::string> environment(const std::string& device, const Slice& slice) const;

 private:
  using Key = std::pair<std::string, int>;  // The device, and where the slice starts.

  Result<std::map<Key, std::string>> find(const Plan& plan, const adapters::DriverReport& driver) const;

  GpuChoices choices_;
  bool required_;
  mutable host::Mutex mutex_;
  std::map<Key, std::string> uuids_ GUARDED_BY(mutex_);
};

}  // namespace tangram::recut
