// A limit on the requests of one service.
//
// The generic cell rate algorithm: each request that passes moves a theoretical time of arrival ahead by one interval,
// and a request that comes more than the tolerance before that time does not pass. One instant is all its memory.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace tangram::sched {

class RateLimit {
 public:
  // Random arrivals at just the planned rate must pass: they are ahead of 1.1 times their mean by more than 80 requests
  // in one case of three million (the root of exp(x) - 1 = 1.1 x is 0.187, and exp(-0.187 * 80) = 3e-7).
  static constexpr double kRoom = 1.1;
  static constexpr double kBurst = 80;
  // A service that needs little of a slice may have twice its rate, and 12 requests at once: the root of exp(x) - 1 = 2
  // x is 1.256, and exp(-1.256 * 12) = 3e-7, too. Eighty runs at once of a service that is seldom asked and runs for
  // long would take more of its neighbours' time than an hour of its planned rate.
  static constexpr double kRoomSeldom = 2;
  static constexpr double kBurstSeldom = 12;
  static constexpr double kSeldom = 0.02;  // Of the time of one slice.

  // True if a request at `now` passes, which is then counted. `rate_per_s` is positive and may change between calls;
  // `run` is how long a request takes alone.
  bool take(TimePoint now, double rate_per_s, Duration run) {
    const bool seldom = rate_per_s * to_seconds(run) < kSeldom;
    const double interval_ns = 1e9 / ((seldom ? kRoomSeldom : kRoom) * rate_per_s);
    const TimePoint due = std::max(due_, now);
    if (static_cast<double>((due - now).count()) > (seldom ? kBurstSeldom : kBurst) * interval_ns) return false;
    due_ = due + Duration(static_cast<std::int64_t>(interval_ns));
    return true;
  }

 private:
  TimePoint due_{};
};

}  // namespace tangram::sched
