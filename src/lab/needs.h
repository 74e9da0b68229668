// How many of its slices a service must keep at which rate, judged by simulation: the tables that lending goes by.
#pragma once

#include <vector>

#include "core/latency_model.h"
#include "core/plan.h"
#include "core/workload.h"
#include "lab/certify.h"
#include "sched/lending.h"

namespace tangram::lab {

// Which slices a service gives up last.
enum class KeepOrder {
  few_devices,  // Those on devices that other services need as well, so that other devices fall idle whole.
  small_first,  // The smallest, so that as little as possible is kept.
};

struct NeedsOptions {
  KeepOrder order = KeepOrder::small_first;
  int levels = 10;  // Rates in the table, evenly spaced up to the one that is planned for.
  CertifyOptions certify;
};

// One table for each service. A service whose rate cannot be followed (bursts, recordings, closed loops) has an empty
// table: it keeps everything. Services that share all their slices with each other have tables that were certified
// together, with all of them at the same share of their rates; if one of them cannot be followed, or they share only
// some of their slices, the tables of all are empty.
std::vector<sched::ServiceNeeds> certified_needs(const Plan& plan, const Workload& workload,
                                                 const sched::Deployment& deployment, const LatencyModel& model,
                                                 const NeedsOptions& options);

}  // namespace tangram::lab
