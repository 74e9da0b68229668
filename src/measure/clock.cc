#include "measure/clock.h"

#include <chrono>

namespace tangram::measure {

// A steady clock: the wall clock may jump during a run.
TimePoint SteadyClock::now() {
  return TimePoint(std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
}

}  // namespace tangram::measure
