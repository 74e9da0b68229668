// A day that passes faster, to rehearse it in minutes.
//
// At a speed of 60 a day takes 24 minutes: everything that is described in seconds of the day is divided by 60. Rates,
// run times and promises stay as they are, so the devices see the same load and have less time to follow it.
#pragma once

#include "core/workload.h"

namespace tangram {

// The traffic of `workload` in a day that passes `speed` times as fast: the steps of rate curves, the period and the
// peak of diurnal rates, and the time in which sizes drift. `speed` is positive.
//
// Bursts keep their lengths, because they describe how requests bunch and not the hour. Traces keep their times,
// because they are recorded requests at real rates. Think times of closed loops and deadlines of jobs are real as well.
//
// Example: at 60, a curve of 15-minute steps becomes one of 15-second steps with the same rates.
Workload at_speed(Workload workload, double speed);

}  // namespace tangram
