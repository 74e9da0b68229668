// Calls that came while the slices for them were being changed or started again.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "base/time.h"
#include "serve/call.h"

namespace tangram::serve {

// In the order of their arrival. Whoever looks takes all of them and puts back those that must wait on.
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
  bool empty() const { return calls_.empty(); }
  std::size_t count() const { return calls_.size(); }
  // The first deadline of those that wait. kTimeNever: none waits.
  TimePoint next_due() const { return next_due_; }

 private:
  std::vector<Call*> calls_;
  TimePoint next_due_ = kTimeNever;
};

}  // namespace tangram::serve
