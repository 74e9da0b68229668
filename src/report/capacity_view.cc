// The highest rate that a scenario carries under each policy, as a table and JSON.
//
// The binding service is the one whose Slo breaks first when the rate grows further; it says where more capacity helps.

#include "report/capacity_view.h"

#include <fmt/format.h>

#include "report/number_text.h"
#include "report/run_tables.h"
#include "report/table.h"

namespace tangram::report {
namespace {

// A service without counted requests has neither a share in time nor a latency: both are null.
Json result_json(const lab::CapacityResult& result) {
  Json services = Json::array();
  for (const auto& service : result.services) {
    services.push_back({{"name", service.service},
                        {"rate_per_s", service.rate_per_s},
                        {"percentile", service.percentile},
                        {"slo_attainment", service.counted ? Json(service.attainment) : Json(nullptr)},
                        {"latency_ms", !service.counted || service.latency == Duration::max()
                                           ? Json(nullptr)
                                           : Json(to_milliseconds(service.latency))},
                        {"slo_latency_ms", to_milliseconds(service.slo)}});
  }
  return {{"policy", result.policy},
          {"rate_scale", result.rate_scale},
          {"rate_per_s", result.rate_per_s},
          {"infeasible_rate_scale", result.infeasible_scale > 0 ? Json(result.infeasible_scale) : Json(nullptr)},
          {"binding_service", result.binding.empty() ? Json(nullptr) : Json(result.binding)},
          {"trials", result.trials},
          {"services", std::move(services)}};
}

}  // namespace

// "none found" means that the search reached its upper end before any Slo broke.
std::string capacity_table(std::span<const lab::CapacityResult> results, const Terminal& terminal) {
  Table table({{"POLICY"},
               {"RATE SCALE", Align::right},
               {"REQUESTS/S", Align::right},
               {"BINDING"},
               {"SERVICE"},
               {"PER S", Align::right},
               {"IN TIME", Align::right},
               {"LATENCY", Align::right},
               {"PROMISE"}});
  for (const auto& result : results) {
    // No rate was feasible, not even the smallest that was tried.
    if (result.services.empty()) {
      table.add({{result.policy, Style::accent}, {"0", Style::bad}, "0", result.binding, "", "", "", "", ""});
    }
    for (std::size_t s = 0; s < result.services.size(); ++s) {
      const auto& service = result.services[s];
      // The policy and its totals are printed once, so that the rows of one policy read as a group.
      const bool first = s == 0;
      const std::string binding = result.binding.empty() ? "none found" : result.binding;
      table.add({{first ? result.policy : "", Style::accent},
                 first ? fmt::format("{:.3f}", result.rate_scale) : "",
                 first ? fmt::format("{:.1f}", result.rate_per_s) : "",
                 first ? binding : "",
                 service.service,
                 fmt::format("{:.1f}", service.rate_per_s),
                 service.counted ? percent_text(service.attainment) : "-",
                 service.counted ? latency_text(service.latency) : "-",
                 slo_text({service.slo, service.percentile})});
    }
  }
  return table.render(terminal);
}

// `tolerance` says how close the rate is to the true limit, so it belongs to the result.
Json capacity_json(const ReportHead& head, const CapacityView& view) {
  Json list = Json::array();
  for (const auto& result : view.results) list.push_back(result_json(result));
  Json json = head_json(head);
  json["scenario"] = view.scenario;
  json["tolerance"] = view.tolerance;
  json["results"] = std::move(list);
  return json;
}

}  // namespace tangram::report
