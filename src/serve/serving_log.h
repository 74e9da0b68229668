// Log lines about served requests.
#pragma once

#include <cstdint>
#include <string>

#include "host/log.h"
#include "serve/gateway.h"
#include "serve/live_world.h"

namespace tangram::serve {

// The line of a request that the scheduler has resolved.
std::string request_line(const LiveWorld& world, const Call& call, const Outcome& outcome, TimePoint now);
// The record of a call that the world has answered without the scheduler.
RefusedRequest refused_by_world(const Call& call);
// Warns about each service that no slice of the plan holds, unless it was removed: it may have been left out by
// mistake. `models` are those of the services of the deployment.
void warn_of_unserved(host::LogWriter& log, const sched::Deployment& deployment,
                      const std::vector<ServedModel>& models);

// Warns about requests that are larger than anything the plan was made for: the traffic has changed. Logged when the
// first one arrives, and then at most once a minute.
class BeyondPlan {
 public:
  void add(host::LogWriter& log, const LiveWorld& world, const Call& call, TimePoint now);

 private:
  // Since the last line, of all models together.
  std::int64_t count_ = 0;
  std::int64_t size_max_ = 0;
  std::int32_t samples_max_ = 0;
  TimePoint quiet_until_;
};

}  // namespace tangram::serve
