// The watch that runs are timed with.
#pragma once

#include "base/time.h"

namespace tangram::measure {

class Clock {
 public:
  virtual ~Clock() = default;
  // Never goes back. Only differences mean something.
  virtual TimePoint now() = 0;
};

// The monotonic clock of the machine, which is never adjusted.
class SteadyClock final : public Clock {
 public:
  TimePoint now() override;
};

}  // namespace tangram::measure
