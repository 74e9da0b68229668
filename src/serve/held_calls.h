// Calls that arrived while the slices for them were being re-cut or restarted.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "base/time.h"
#include "serve/call.h"

namespace tangram::serve {

// In the order of arrival. To check them, take all and add those again that must still wait.
class HeldCalls {
 public:
  void add(Call* call, TimePoint deadline) {
    calls_.push_back(call);
    next_due_ = std::min(next_due_, deadline);
  }
  std::vector<Call*> take_all() {
    next_due_ = kTimeNever;
    return std::exchange(calls_, {});
  }
  // Takes the call out; false if it is not here. The first deadline stays: looking too early does no harm.
  bool take(const Call* call) { return std::erase(calls_, call) > 0; }
  bool empty() const { return calls_.empty(); }
  std::size_t count() const { return calls_.size(); }
  // The first deadline of the held calls. kTimeNever: there are none.
  TimePoint next_due() const { return next_due_; }

 private:
  std::vector<Call*> calls_;
  TimePoint next_due_ = kTimeNever;
};

}  // namespace tangram::serve
