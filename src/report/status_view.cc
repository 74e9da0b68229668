// The tables of `tangram status` and `tangram top`.
//
// Counts are since the start of the server. The tables take their values from ServerStatus and compute nothing.

#include "report/status_view.h"

#include <fmt/format.h>

#include "base/text.h"
#include "report/table.h"

namespace tangram::report {
namespace {

// `impossible` requests are separate from `rejected`: no slice could ever run them, whatever the load.
std::string services_table(const std::vector<ServiceStatus>& services, const Terminal& terminal) {
  Table table({{"service"},
               {"SLO ms", Align::right},
               {"kept", Align::right},
               {"served", Align::right},
               {"late", Align::right},
               {"rejected", Align::right},
               {"impossible", Align::right},
               {"failed", Align::right},
               {"waiting", Align::right},
               {"mean ms", Align::right},
               {"batch", Align::right},
               {"slices", Align::right}});
  for (const auto& s : services) {
    table.add({s.name, fmt::format("{:g}", s.slo_ms), fmt::format("{:.1f} %", 100 * s.kept_share),
               fmt::to_string(s.served), fmt::to_string(s.late), fmt::to_string(s.rejected),
               fmt::to_string(s.impossible), fmt::to_string(s.failed), fmt::to_string(s.waiting),
               fmt::format("{:.2f}", s.latency_mean_ms), fmt::format("{:.1f}", s.batch_mean),
               fmt::to_string(s.slices)});
  }
  return table.render(terminal);
}

// `restarts` is here, because a worker that keeps dying may still show as idle or busy in between.
std::string slices_table(const std::vector<SliceStatus>& slices, const Terminal& terminal) {
  Table table({{"slice"},
               {"status"},
               {"serves"},
               {"busy", Align::right},
               {"batches", Align::right},
               {"restarts", Align::right}});
  for (const auto& s : slices) {
    table.add({s.name, s.status, text::join(s.services, ", "), fmt::format("{:.1f} %", 100 * s.busy_share),
               fmt::to_string(s.batches), fmt::to_string(s.restarts)});
  }
  return table.render(terminal);
}

std::string tenants_table(const std::vector<TenantStatus>& tenants, const Terminal& terminal) {
  // A server may have no tenants; an empty table would only take room.
  if (tenants.empty()) return "";
  Table table({{"tenant"},
               {"served", Align::right},
               {"late", Align::right},
               {"rejected", Align::right},
               {"failed", Align::right},
               {"over limits", Align::right},
               {"forbidden", Align::right},
               {"in flight", Align::right}});
  for (const auto& t : tenants) {
    table.add({t.name, fmt::to_string(t.served), fmt::to_string(t.late), fmt::to_string(t.rejected),
               fmt::to_string(t.failed), fmt::to_string(t.over_limits), fmt::to_string(t.forbidden),
               fmt::to_string(t.in_flight)});
  }
  return "\n" + table.render(terminal);
}

}  // namespace

std::string status_text(const ServerStatus& status, const Terminal& terminal) {
  // A server that drains is shown as draining, whether it is ready or not.
  const char* how = status.draining ? "draining" : status.ready ? "ready" : "not ready";
  return fmt::format("{} for {:.0f} s, {} requests in flight, {} connections, {} plan changes{}\n\n", how, status.up_s,
                     status.in_flight, status.connections, status.plan_changes,
                     status.plan_moving ? ", one in progress" : "") +
         services_table(status.services, terminal) + "\n" + slices_table(status.slices, terminal) +
         tenants_table(status.tenants, terminal);
}

}  // namespace tangram::report
