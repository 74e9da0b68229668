// The controller's times in a day that passes faster; see core/day.h.
#pragma once

#include "control/controller.h"

namespace tangram::control {

// Windows and looks, divided by `speed`, which is positive. A look is rounded up and a window down, to nanoseconds, so
// that looks which divide a window evenly still end it together: at 60, 30 looks of 166,666,667 ns reach 5 s.
ControllerOptions at_speed(ControllerOptions options, double speed);

}  // namespace tangram::control
