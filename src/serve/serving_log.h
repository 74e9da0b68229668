// What the log says while requests are served.
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
// Warns of each service that no slice of the plan holds: whoever made the plan may not have meant to leave it out.
void warn_of_unserved(host::LogWriter& log, const sched::Deployment& deployment);

// Requests that are larger than all that the plan was made for: the traffic has moved away from it. Told when they
// begin to come, and then once a minute while they do.
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
