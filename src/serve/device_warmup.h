// Waits until the new slices of a device that is being re-cut are ready. One for each device, until its move is over.
#pragma once

#include <algorithm>
#include <map>
#include <vector>

#include "core/ids.h"

namespace tangram::serve {

// wait_for() each slice that is not ready, and finish() once all have answered.
class DeviceWarmup {
 public:
  // A slice that fails is started again so often before the device is ready without it. The scheduler would send it a
  // batch at once, whose requests would fail with it.
  static constexpr int kTriesAgain = 3;

  void wait_for(SliceId slice) { waiting_.push_back(slice); }
  // True if a slice that has failed is to be started again. Each true counts.
  bool try_again(SliceId slice) { return !finished_ && ++tried_again_[slice] <= kTriesAgain; }
  bool waits_for(SliceId slice) const { return std::ranges::find(waiting_, slice) != waiting_.end(); }
  // A slice that is waited for is ready, or has failed to start.
  void answered(SliceId slice, bool ok) {
    std::erase(waiting_, slice);
    if (!ok) failed_.push_back(slice);
  }
  // A slice that had become ready is lost before the device is ready.
  void lost(SliceId slice) { failed_.push_back(slice); }
  bool all_answered() const { return waiting_.empty(); }
  // Ends the warm-up. Requires all_answered().
  void finish() { finished_ = true; }
  // The slices that did not get ready, or were lost since.
  const std::vector<SliceId>& failed() const { return failed_; }

 private:
  bool finished_ = false;
  std::vector<SliceId> waiting_;
  std::vector<SliceId> failed_;
  std::map<SliceId, int> tried_again_;
};

}  // namespace tangram::serve
