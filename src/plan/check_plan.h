// Whether a plan keeps what its problem asks, judged apart from every planner.
//
// Slow and obvious on purpose: it shares no code with the search, counts the input sizes for itself and divides the
// time of slices by a linear program of its own, so that a mistake of a planner is not repeated here.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/problem.h"

namespace tangram::plan {

// Everything that is wrong with `plan`, one sentence each; nothing: it is right. Looked at are
// - layouts that the devices permit, of types, profiles and numbers that the fleet has, under names of their own;
// - replicas of services that the workload has, whose every bucket fits into the slice's memory with the head-room of
//   the options and runs within what the rule leaves of the Slo, in batches that hold the largest request;
// - slices that services share: the weights of all and the largest working set fit, and the services allow it;
// - a bucket for every input size that arrives, and time on the slices for all samples of a second;
// - with SparePolicy::one_device, the same without any one of the devices.
// Waiting is not looked at: that a promise holds under Rule::certified is for the certifier to say.
std::vector<std::string> check_plan(const Problem& problem, const Plan& plan);

// How many times its planned rate each service could be sent, all services growing alike where they share slices.
std::map<std::string, double> load_factors(const Problem& problem, const Plan& plan);

}  // namespace tangram::plan
