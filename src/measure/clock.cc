#include "measure/clock.h"

#include <chrono>

namespace tangram::measure {

TimePoint SteadyClock::now() {
  return TimePoint(std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
}

}  // namespace tangram::measure
