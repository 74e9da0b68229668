#include "control/day.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tangram::control {
namespace {

// At least a nanosecond: a window has a length.
Duration rounded(double nanoseconds) {
  return Duration(std::max<std::int64_t>(1, static_cast<std::int64_t>(nanoseconds)));
}

}  // namespace

ControllerOptions at_speed(ControllerOptions options, double speed) {
  TANGRAM_CHECK(speed > 0, "a day passes at some speed");
  options.interval = rounded(std::floor(static_cast<double>(options.interval.count()) / speed));
  // 0 means that there are no looks.
  if (options.look > Duration::zero()) {
    options.look = rounded(std::ceil(static_cast<double>(options.look.count()) / speed));
  }
  return options;
}

}  // namespace tangram::control
