// Waits until the new slices of a device that is being re-cut are ready.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/ids.h"

namespace tangram::serve {

// One device at a time: begin(), wait_for() each slice that is not ready, and finish() once all have answered.
class DeviceWarmup {
 public:
  // A slice that fails is started again so often before the device is ready without it. The scheduler would send it a
  // batch at once, whose requests would fail with it.
  static constexpr int kTriesAgain = 3;

  void begin(DeviceId device) {
    device_ = device;
    failed_.clear();
    tried_again_.clear();
  }
  void wait_for(SliceId slice) { waiting_.push_back(slice); }
  // True if a slice of the device that is warming up, and has failed, is to be started again. Each true counts.
  bool try_again(SliceId slice) { return device_ && ++tried_again_[slice] <= kTriesAgain; }
  bool waits_for(SliceId slice) const { return std::ranges::find(waiting_, slice) != waiting_.end(); }
  // A slice that is waited for is ready, or has failed to start.
  void answered(SliceId slice, bool ok) {
    std::erase(waiting_, slice);
    if (!ok) failed_.push_back(slice);
  }
  // A slice that had become ready is lost before the device is ready.
  void lost(SliceId slice) { failed_.push_back(slice); }
  bool all_answered() const { return waiting_.empty(); }
  // Ends the warm-up and returns the device. Requires all_answered().
  DeviceId finish() { return *std::exchange(device_, std::nullopt); }
  // The slices of the last device that did not get ready, or were lost since.
  std::vector<SliceId> take_failed() { return std::exchange(failed_, {}); }

 private:
  std::optional<DeviceId> device_;
  std::vector<SliceId> waiting_;
  std::vector<SliceId> failed_;
  std::map<SliceId, int> tried_again_;
};

}  // namespace tangram::serve
