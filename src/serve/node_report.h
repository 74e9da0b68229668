// What clients and operators see of the nodes: `tangram nodes`, a part of the status, and metrics.
#pragma once

#include <string>

#include "serve/node_hub.h"

namespace tangram::serve {

// What `tangram nodes` shows, as JSON.
std::string nodes_report(const NodeHub& hub);
// In short, for the status: {"joined": 2, "leaving": 0, "lost": 1, ...}, as JSON.
std::string nodes_summary(const NodeHub& hub);
// Families for Prometheus.
std::string nodes_metrics(const NodeHub& hub);

}  // namespace tangram::serve
