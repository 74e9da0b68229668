// The scheduler's configuration, described once.
//
// Scenario files, the schema, the reference page and recordings are all made from this description, so none of them can
// lose a field that another one has.
#pragma once

#include <string>
#include <vector>

#include "formats/describe.h"
#include "sched/scheduler.h"

namespace tangram::sched {

// In the order of policies().
std::vector<std::string> policy_names();

template <typename Visitor>
void describe(Visitor& v, SchedulerConfig& c) {
  // The bindings name every field: with a new one this does not compile until the field is described, too.
  auto& [policy, policy_config, admission, requests_max, retries_max, correction_weight, stuck_factor, stuck_min,
         reshapes_max] = c;
  auto& [merge, elsa_alpha, elsa_beta, drop_unrecoverable, bursts_expected] = policy_config;
  v.about("Scheduler", "How requests are admitted, batched and dispatched.");
  v.field("policy", policy, {.names = &policy_names}, "How work is dispatched; `tangram policies` lists them.");
  v.field("merge", merge, "Requests may share a batch; otherwise each runs alone.");
  v.field("admission", admission, "Refuse at once what no slice can serve in time.");
  v.field(
      "drop_unrecoverable", drop_unrecoverable,
      "`tangram` and `clockwork`: reject what waits and cannot be answered before the `late_limit` of its promise any "
      "more; otherwise it runs, however late. The other policies never reject what waits.");
  v.field(
      "bursts_expected", bursts_expected,
      "`tangram`: promise requests of several samples a place on arrival from the start; otherwise only for an hour "
      "after a service has lost a tenth of its requests more than its promise allows.");
  v.field("elsa_alpha", elsa_alpha, {.min = 0, .max = 1e3}, "`elsa`: weight of waiting and running in the slack.");
  v.field("elsa_beta", elsa_beta, {.min = 0, .max = 1e3}, "`elsa`: weight of running alone.");
  v.field("requests_max", requests_max, {.min = 1, .max = 1e9},
          "Requests that may wait or run at any time; one more is refused.");
  v.field("retries_max", retries_max, {.min = 0, .max = 100}, "Further runs of a request whose batch failed.");
  v.field("correction_weight", correction_weight, {.min = 0, .max = 1},
          "Share of the newest measured run time in the correction of a prediction; 0 switches corrections off.");
  v.field("stuck_factor", stuck_factor, {.min = 1, .max = 1e6},
          "A batch this many times slower than its predicted p99 is stuck, ...");
  v.field("stuck_min_s", stuck_min, {.min = 0, .max = 1e6}, "... but never before this.");
  v.field("reshapes_max", reshapes_max, {.min = 1, .max = 1000}, "Attempts to re-cut a device before it is given up.");
}

}  // namespace tangram::sched
