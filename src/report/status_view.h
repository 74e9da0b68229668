// A running server, as `tangram status` and `tangram top` show it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/style.h"

namespace tangram::report {

// Counts are since the start of the server, unless said otherwise.
struct ServiceStatus {
  std::string name;
  double slo_ms = 0;
  double kept_share = 0;  // Of the last minute.
  std::uint64_t served = 0;
  std::uint64_t late = 0;
  std::uint64_t rejected = 0;    // Without the impossible ones.
  std::uint64_t impossible = 0;  // Requests that no slice could ever have served.
  std::uint64_t failed = 0;
  std::uint64_t waiting = 0;  // Now.
  double latency_mean_ms = 0;
  double batch_mean = 0;
  std::uint64_t slices = 0;
};

struct SliceStatus {
  std::string name;
  std::string status;  // "idle", "busy", ...
  std::vector<std::string> services;
  double busy_share = 0;
  std::uint64_t batches = 0;
  std::uint64_t restarts = 0;
};

struct TenantStatus {
  std::string name;
  std::int64_t served = 0;
  std::int64_t late = 0;
  std::int64_t rejected = 0;
  std::int64_t failed = 0;
  std::int64_t over_limits = 0;
  std::int64_t forbidden = 0;
  std::int64_t in_flight = 0;
};

struct ServerStatus {
  bool ready = false;
  bool draining = false;
  bool plan_moving = false;
  double up_s = 0;
  std::uint64_t in_flight = 0;
  std::uint64_t connections = 0;
  std::uint64_t plan_changes = 0;
  std::vector<ServiceStatus> services;
  std::vector<SliceStatus> slices;
  std::vector<TenantStatus> tenants;  // Empty where the server does not identify its callers.
};

// Services with their promises, slices with their load, and tenants where there are any.
std::string status_text(const ServerStatus& status, const Terminal& terminal);

}  // namespace tangram::report
