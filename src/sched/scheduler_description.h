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
         reshapes_max, devices_cut_max] = c;
  auto& [merge, elsa_alpha, elsa_beta, drop_unrecoverable, bursts_expected] = policy_config;
  v.about("Scheduler", "How requests are admitted, batched and dispatched.");
  v.field("policy", policy, {.names = &policy_names}, "The dispatch policy; `tangram policies` lists them.");
  v.field("merge", merge, "Requests may share a batch; otherwise each runs alone.");
  v.field("admission", admission, "Reject a request on arrival if no slice can serve it in time.");
  v.field(
      "drop_unrecoverable", drop_unrecoverable,
      "`tangram` and `clockwork`: reject a queued request when it can no longer be answered within the `late_limit` of "
      "its promise; otherwise it runs, however late. The other policies never reject queued requests.");
  v.field(
      "bursts_expected", bursts_expected,
      "`tangram`: bind requests of several samples to a slice on arrival from the start; otherwise only for an hour "
      "after a service has lost a tenth of its requests more than its promise allows.");
  v.field("elsa_alpha", elsa_alpha, {.min = 0, .max = 1e3}, "`elsa`: the weight of waiting and running in the slack.");
  v.field("elsa_beta", elsa_beta, {.min = 0, .max = 1e3}, "`elsa`: the weight of running alone.");
  v.field("requests_max", requests_max, {.min = 1, .max = 1e9},
          "The largest number of requests that are queued or run; further requests are rejected.");
  v.field("retries_max", retries_max, {.min = 0, .max = 100},
          "How often a request is run again after its batch failed.");
  v.field("correction_weight", correction_weight, {.min = 0, .max = 1},
          "The weight of the newest measured run time in the correction of a prediction; 0 turns corrections off.");
  v.field("stuck_factor", stuck_factor, {.min = 1, .max = 1e6},
          "A batch is stuck when it takes this many times its predicted p99, but at least stuck_min_s.");
  v.field("stuck_min_s", stuck_min, {.min = 0, .max = 1e6}, "The shortest run time of a batch that counts as stuck.");
  v.field("reshapes_max", reshapes_max, {.min = 1, .max = 1000},
          "The number of attempts to re-cut a device before it is given up.");
  v.field("devices_cut_max", devices_cut_max, {.min = 1, .max = 1000},
          "How many devices may be re-cut at once while a plan moves, of those that only gain or only lose slices. "
          "Devices that exchange slices go one after the other, so that capacity does not fall further.");
}

}  // namespace tangram::sched
