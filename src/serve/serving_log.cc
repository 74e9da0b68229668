#include "serve/serving_log.h"

#include <algorithm>
#include <chrono>

#include "core/request.h"
#include "serve/reports.h"

namespace tangram::serve {
namespace {

constexpr Duration kBeyondPlanEvery = std::chrono::minutes(1);

}  // namespace

std::string request_line(const LiveWorld& world, const Call& call, const Outcome& outcome, TimePoint now) {
  host::LogLine line(host::LogLevel::requests, "request");
  line.text("id", call.id).text("model", call.model->name).text("outcome", to_string(outcome.kind));
  line.integer("status", http_status(call.status));
  if (call.tenant_state != nullptr) line.text("tenant", call.tenant_state->name);
  line.integer("size", call.size).integer("samples", call.samples);
  if (call.batch_samples > 0) {
    line.integer("bucket", call.padded_size).text("slice", slice_name(world, call.slice.index()));
    line.integer("batch", call.batch_samples);
    line.number("compute_ms", to_milliseconds(call.compute));
  }
  line.number("queue_ms", to_milliseconds(now - call.arrived - call.compute));
  if (!call.error.empty()) line.text("reason", call.error);
  if (!call.traceparent.empty()) line.text("traceparent", call.traceparent);
  return line.done();
}

RefusedRequest refused_by_world(const Call& call) {
  RefusedRequest refused{refusal_of(call.status), http_status(call.status), call.error, call.model};
  refused.id = call.id;
  if (call.tenant_state != nullptr) refused.tenant = call.tenant_state->name;
  refused.traceparent = call.traceparent;
  return refused;
}

void warn_of_unserved(host::LogWriter& log, const sched::Deployment& deployment) {
  for (const auto& service : deployment.services) {
    if (!service.pools.empty()) continue;
    log.write(host::LogLine(host::LogLevel::warning, "service_without_replica")
                  .text("model", service.name)
                  .text("reason", "no slice of the plan holds it: every request for it is refused"));
  }
}

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
  *this = {};
  quiet_until_ = now + kBeyondPlanEvery;
}

}  // namespace tangram::serve
