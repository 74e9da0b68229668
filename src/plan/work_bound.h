// How much load a number of devices could carry at best, whatever the scheduler.
#pragma once

#include "plan/demand.h"
#include "plan/problem.h"

namespace tangram::plan {

// The largest factor on the rates of all services of `problem` that `devices` devices of the stock's first group could
// carry if no slice ever waited: every request runs unpadded, on any slice that is fast enough, in the batch that costs
// it the least time there, and up to `lost` of the requests of each service, the most expensive ones, are not served at
// all. Devices may be cut in any way, also in fractions. A linear program; 0 if some service fits on no slice.
//
// Example: one slice runs batches of eight in 4 ms, or 2,000 requests a second. A service of 500 requests/s has the
// factor 4 on it; a real scheduler gets there only if eight requests always wait when the slice becomes idle.
double work_bound(const Problem& problem, const Stock& stock, int devices, double lost);

}  // namespace tangram::plan
