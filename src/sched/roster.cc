#include "sched/roster.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tangram::sched {

Roster Roster::of(Workload workload) {
  const std::size_t count = workload.services.size();
  return {std::move(workload), std::vector<bool>(count, false), count + kServicesAddedMax};
}

Workload Roster::served() const {
  Workload result;
  for (std::size_t s = 0; s < workload.services.size(); ++s) {
    if (!removed[s]) result.services.push_back(workload.services[s]);
  }
  return result;
}

Result<Roster> next_roster(const Roster& now, const Workload& next) {
  Roster roster = now;
  roster.removed.assign(roster.removed.size(), true);
  for (const auto& service : next.services) {
    auto& known = roster.workload.services;
    const auto place = std::ranges::find(known, service.name, &Service::name);
    if (place != known.end()) {
      roster.removed[static_cast<std::size_t>(place - known.begin())] = false;
      *place = service;
      continue;
    }
    if (known.size() >= now.places_max) {
      return Error{ErrorCode::invalid, fmt::format("service '{}' is one too many: a server takes {} further services "
                                                   "between its start and its end; restart it",
                                                   service.name, kServicesAddedMax)};
    }
    known.push_back(service);
    roster.removed.push_back(false);
  }
  return roster;
}

}  // namespace tangram::sched
