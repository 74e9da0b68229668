// The services that a running system knows, by ServiceId. Services come and go while requests run, and a request knows
// its service by the id: so an id is given once, and a service that is removed keeps its place.
#pragma once

#include <cstddef>
#include <vector>

#include "base/result.h"
#include "core/workload.h"

namespace tangram::sched {

// How many services may be added to a running system. Each keeps its id, and some memory, until the system ends.
inline constexpr std::size_t kServicesAddedMax = 1000;

struct Roster {
  Workload workload;           // By ServiceId, with those that were removed.
  std::vector<bool> removed;   // By ServiceId.
  std::size_t places_max = 0;  // The most ids.

  // All of `workload` are served.
  static Roster of(Workload workload);
  // The services that are served, in the order of their ids.
  Workload served() const;
};

// `next` in terms of `now`: a service keeps its id by its name, also one that was removed and comes back. Those that
// `next` does not have are removed, and new ones get the next ids. Errors: there are too many.
Result<Roster> next_roster(const Roster& now, const Workload& next);

}  // namespace tangram::sched
