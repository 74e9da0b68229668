// The answer to GET /status as a typed value.
//
// Keys that every server sends are read with at(), which throws if one is missing; keys that are newer or optional are
// read with value() and a default.

#include "cli/server_status.h"

#include <fmt/format.h>

namespace tangram::cli {
namespace {

report::ServiceStatus service_status(const report::Json& s) {
  report::ServiceStatus service;
  service.name = s.at("name").get<std::string>();
  service.slo_ms = s.at("slo_ms").get<double>();
  service.kept_share = s.at("slo_attainment_last_minute").get<double>();
  service.served = s.at("served").get<std::uint64_t>();
  service.late = s.at("late").get<std::uint64_t>();
  // Requests that no slice could ever have served are counted apart, since more capacity would not help them. An older
  // server does not send the key. They are part of `rejected` in the answer.
  service.impossible = s.value("impossible", std::uint64_t{0});
  service.rejected = s.at("rejected").get<std::uint64_t>() - service.impossible;
  service.failed = s.at("failed").get<std::uint64_t>();
  service.waiting = s.at("waiting").get<std::uint64_t>();
  service.latency_mean_ms = s.at("latency_mean_ms").get<double>();
  service.batch_mean = s.at("batch_mean").get<double>();
  service.slices = s.at("slices").get<std::uint64_t>();
  return service;
}

report::SliceStatus slice_status(const report::Json& s) {
  std::string status = s.at("status").get<std::string>();
  // An older server does not send it.
  if (s.value("slow", false))
    status += fmt::format(", {:.1f}x slower than planned", s.at("real_over_planned").get<double>());
  return {.name = s.at("slice").get<std::string>(),
          .status = std::move(status),
          .services = s.at("serves").get<std::vector<std::string>>(),
          .busy_share = s.at("busy_share").get<double>(),
          .batches = s.at("batches").get<std::uint64_t>(),
          .restarts = s.at("restarts").get<std::uint64_t>()};
}

report::TenantStatus tenant_status(const report::Json& t) {
  const auto count = [&](const char* key) { return t.value(key, std::int64_t{0}); };
  return {.name = t.at("name").get<std::string>(),
          .served = count("served"),
          .late = count("late"),
          .rejected = count("rejected"),
          .failed = count("failed"),
          .over_limits = count("over_limits"),
          .forbidden = count("forbidden"),
          .in_flight = count("in_flight")};
}

}  // namespace

// Any HTTP server may listen on the port, so check that the answer looks like a status before it is read.
Result<report::Json> ask_status(const ServerOptions& options) {
  TANGRAM_TRY(const auto answer, ask_server(options, "GET", "/status"));
  report::Json status = report::Json::parse(answer, nullptr, false);
  if (status.is_object() && status.contains("services")) return status;
  return Error{ErrorCode::unavailable,
               fmt::format("{}:{}: this is not the metrics port of a Tangram server", options.address, options.port)};
}

report::ServerStatus server_status(const report::Json& status) {
  report::ServerStatus server;
  server.draining = status.at("draining").get<bool>();
  server.ready = status.at("ready").get<bool>();
  server.up_s = status.at("up_s").get<double>();
  server.in_flight = status.at("in_flight").get<std::uint64_t>();
  server.connections = status.at("connections").get<std::uint64_t>();
  server.plan_changes = status.at("plan_changes").get<std::uint64_t>();
  server.plan_moving = status.at("plan_moving").get<bool>();
  for (const auto& service : status.at("services")) server.services.push_back(service_status(service));
  for (const auto& slice : status.at("slices")) server.slices.push_back(slice_status(slice));
  // Only a server that identifies its callers sends tenants.
  for (const auto& tenant : status.value("tenants", report::Json::array())) {
    server.tenants.push_back(tenant_status(tenant));
  }
  return server;
}

}  // namespace tangram::cli
