// Log lines about requests. Each line is one JSON object, so that log tools can filter by model, tenant or outcome.
// Refused requests are logged by Gateway::tell_of_refused() with the same keys.

#include "serve/serving_log.h"

#include <algorithm>
#include <chrono>

#include "core/request.h"
#include "serve/reports.h"

namespace tangram::serve {
namespace {

// The least time between two warnings, whatever the traffic.
constexpr Duration kBeyondPlanEvery = std::chrono::minutes(1);

}  // namespace

std::string request_line(const LiveWorld& world, const Call& call, const Outcome& outcome, TimePoint now) {
  host::LogLine line(host::LogLevel::requests, "request");
  line.text("id", call.id).text("model", call.model->name).text("outcome", to_string(outcome.kind));
  line.integer("status", http_status(call.status));
  if (call.tenant_state != nullptr) line.text("tenant", call.tenant_state->name);
  line.integer("size", call.size).integer("samples", call.samples);
  // Only a request that ran has a slice and a batch.
  if (call.batch_samples > 0) {
    line.integer("bucket", call.padded_size).text("slice", slice_name(world, call.slice.index()));
    line.integer("batch", call.batch_samples);
    line.number("compute_ms", to_milliseconds(call.compute));
  }
  // Everything that was not computation: waiting, and for a request that never ran its whole time here.
  line.number("queue_ms", to_milliseconds(now - call.arrived - call.compute));
  if (!call.error.empty()) line.text("reason", call.error);
  if (!call.traceparent.empty()) line.text("traceparent", call.traceparent);
  return line.done();
}

// The views point into the call, which outlives the record.
RefusedRequest refused_by_world(const Call& call) {
  RefusedRequest refused{refusal_of(call.status), http_status(call.status), call.error, call.model};
  refused.id = call.id;
  if (call.tenant_state != nullptr) refused.tenant = call.tenant_state->name;
  refused.traceparent = call.traceparent;
  return refused;
}

void warn_of_unserved(host::LogWriter& log, const sched::Deployment& deployment,
                      const std::vector<ServedModel>& models) {
  for (std::size_t s = 0; s < deployment.services.size(); ++s) {
    const auto& service = deployment.services[s];
    if (!service.pools.empty() || models[s].removed != 0) continue;
    log.write(host::LogLine(host::LogLevel::warning, "service_without_replica")
                  .text("model", service.name)
                  .text("reason", "no slice of the plan serves it: every request for it is rejected"));
  }
}

// Counts all such requests and writes the first at once. Later ones are summed up in one line a minute: a client that
// sends only oversized requests must not flood the log.
void BeyondPlan::add(host::LogWriter& log, const LiveWorld& world, const Call& call, TimePoint now) {
  ++count_;
  size_max_ = std::max(size_max_, call.size);
  samples_max_ = std::max(samples_max_, call.samples);
  if (now < quiet_until_) return;
  const auto& service = world.scheduler().state().deployment.services[call.model->service.index()];
  log.write(host::LogLine(host::LogLevel::warning, "requests_beyond_plan")
                .text("model", call.model->name)
                .integer("requests", count_)
                .integer("size_max", size_max_)
                .integer("samples_max", samples_max_)
                .integer("plan_size_max", service.edges.empty() ? 0 : service.edges.back())
                .integer("plan_samples_max", service.samples_max));
  // Starts a new period with empty counts.
  *this = {};
  quiet_until_ = now + kBeyondPlanEvery;
}

}  // namespace tangram::serve
