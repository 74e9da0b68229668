// What a plan loses by choosing with a fitted model instead of the truth: the Regret that samplers minimise.
#pragma once

#include <string>
#include <vector>

#include "core/measurement.h"
#include "learn/candidate.h"
#include "learn/regret.h"

namespace tangram::lab {

// Twelve promises, log-spaced over the latencies that `measurements` show: from 1.5 times the least to the p95. At
// least one run fitted into memory.
std::vector<double> typical_slos_ms(const Measurements& measurements);

// For each of `slos_ms` a service picks the configuration with the most samples a second and compute slice among those
// whose latency keeps it. The regret is the loss of that choice, averaged over `slos_ms`. The planner maximises
// believed throughput times the probability that the choice fits and keeps the promise; a choice that in truth does
// neither earns nothing. The gain of knowing a candidate is what it is expected to bring beyond the choice made without
// (expected improvement).
learn::Regret slo_regret(std::string device, std::vector<learn::Candidate> candidates, std::vector<double> slos_ms);

}  // namespace tangram::lab
