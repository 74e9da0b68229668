// Reports about the world for clients and operators, as text. Each is made on the thread of the world, inside a control
// call.
#pragma once

#include <cstddef>
#include <string>

#include "serve/gateway.h"
#include "serve/live_world.h"

namespace tangram::serve {

// The protocol's statistics, as JSON. Null: of all models.
std::string model_statistics(const LiveWorld& world, const ServedModel* only);
// The protocol's list of models, as JSON.
std::string repository_index(const LiveWorld& world, bool only_ready);
// What `tangram status` shows, as JSON.
std::string status_report(const LiveWorld& world, const Gateway& gateway);
// What `tangram follow` shows, as JSON.
std::string follow_report(const LiveWorld& world, const Follower& follower);
// All counts in the Prometheus exposition format. `triton_names`: also under the names that Triton uses.
std::string prometheus_metrics(const LiveWorld& world, const Gateway& gateway, bool triton_names);
// The same samples as OpenMetrics 1.0 writes them, where the names of counters belong to their samples alone.
std::string to_open_metrics(std::string_view prometheus);

// "rack1-0/4g.40gb@0", and "#1" behind it for the second process of a slice that several share.
std::string slice_name(const LiveWorld& world, std::size_t index);
// Queued requests of the service, in lanes or bound to a busy slice.
std::uint64_t waiting_of(const LiveWorld& world, ServiceId service);

}  // namespace tangram::serve
