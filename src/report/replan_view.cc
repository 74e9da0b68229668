// A comparison of three ways to plan a day, as tables and JSON.
//
// "static" is one plan for the peak and the baseline of what is saved, "oracle" plans with the true rates of the future
// instead of a forecast, "replan" is what the controller really did. All three met the same requests.

#include "report/replan_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "report/number_text.h"
#include "report/table.h"

namespace tangram::report {
namespace {

// The run with this name.
const lab::ReplanRun& run_named(const lab::ReplanComparison& comparison, std::string_view name) {
  for (const auto& run : comparison.runs) {
    if (run.name == name) return run;
  }
  // Falls back to the first run, so that a comparison without a static plan still has a baseline.
  return comparison.runs[0];
}

bool is_kept(const Service& service, const sim::Tally& tally) {
  return 100 * tally.slo_attainment() >= service.slo.percentile;
}

// GPU-hours, if all runs of the comparison used the same type: hours of different types are not added up.
std::optional<double> gpu_hours(const lab::ReplanComparison& comparison, const lab::ReplanRun& run) {
  if (gpu_types(comparison).size() > 1) return std::nullopt;
  double hours = 0;
  for (const auto& [type, each] : run.gpu_hours) hours += each;
  return hours;
}

// What the objective counts: GPU-hours, or what they cost. GPUs of several prices are no equals.
std::optional<double> spent(const lab::ReplanComparison& comparison, const lab::ReplanRun& run) {
  return comparison.objective == plan::Objective::price ? run.cost : gpu_hours(comparison, run);
}

// The share of what the static plan spends that the run saves; negative if it needs more. Nothing if either of them
// broke a promise: GPU-hours that a promise paid for are not saved. Nothing either where GPUs of several types are used
// and their prices do not count.
std::optional<double> saved_share(const lab::Scenario& scenario, const lab::ReplanComparison& comparison,
                                  const lab::ReplanRun& run) {
  const lab::ReplanRun& fixed = run_named(comparison, "static");
  const auto all = spent(comparison, fixed);
  if (!all || *all <= 0 || !keeps_all(scenario, fixed) || !keeps_all(scenario, run)) return std::nullopt;
  return 1 - *spent(comparison, run) / *all;
}

// Every request without an answer; for the client a failure and a rejection are the same.
std::uint64_t refused(const sim::Tally& tally) { return tally.failed + tally.rejected_total(); }

Json service_json(const Service& service, const sim::Tally& tally) {
  return {{"service", service.name},
          {"arrived", tally.arrived},
          {"served", tally.served},
          {"late", tally.late},
          {"refused", refused(tally)},
          {"slo_attainment", tally.slo_attainment()},
          {"slo_percentile", service.slo.percentile},
          {"slo_kept", is_kept(service, tally)}};
}

// One change of plan. `from_scratch` tells a new plan from one that was derived from the running plan.
Json step_json(const lab::PlanStep& step) {
  return {{"at_s", to_seconds(step.at)},
          {"devices", step.devices},
          {"compute_slices", step.compute_slices},
          {"devices_recut", step.devices_recut},
          {"replicas_loaded", step.replicas_loaded},
          {"from_scratch", step.from_scratch},
          {"reasons", step.reasons}};
}

// `fleet_use` is a step function: each entry holds until the next one.
Json run_json(const lab::Scenario& scenario, const lab::ReplanComparison& comparison, const lab::ReplanRun& run) {
  const auto& metrics = run.result.metrics;
  const sim::Tally total = metrics.total();
  Json services = Json::array();
  for (std::size_t s = 0; s < scenario.workload.services.size(); ++s) {
    services.push_back(service_json(scenario.workload.services[s], metrics.service_total(s)));
  }
  Json steps = Json::array();
  for (const auto& step : run.steps) steps.push_back(step_json(step));
  Json use = Json::array();
  for (const auto& each : run.result.fleet_use) {
    use.push_back({{"at_s", to_seconds(each.at)},
                   {"devices", each.devices},
                   {"slices", each.slices},
                   {"compute_slices", each.compute_slices}});
  }
  const auto saved = saved_share(scenario, comparison, run);
  const auto hours = gpu_hours(comparison, run);
  return {{"name", run.name},
          {"gpu_hours", hours ? Json(*hours) : Json(nullptr)},
          {"gpu_hours_by_type", run.gpu_hours},
          {"cost", run.cost},
          {comparison.objective == plan::Objective::price ? "cost_saved_share" : "gpu_hours_saved_share",
           saved ? Json(*saved) : Json(nullptr)},
          {"kept", keeps_all(scenario, run)},
          {"compute_slice_hours", run.slice_hours},
          {"devices_max", run.devices_max},
          {"requests", run.result.requests},
          {"slo_attainment", run.attainment()},
          {"late", total.late},
          {"refused", refused(total)},
          {"lost", run.unresolved},
          {"plans", run.steps.size()},
          {"plans_refused", run.plans_refused},
          {"recuts", run.result.reshapes},
          {"replicas_loaded", run.replicas_loaded},
          {"digest", fmt::format("{:016x}", run.result.digest)},
          {"services", services},
          {"steps", steps},
          {"fleet_use", use}};
}

}  // namespace

std::vector<std::string> gpu_types(const lab::ReplanComparison& comparison) {
  std::set<std::string> types;
  for (const auto& run : comparison.runs) {
    for (const auto& [type, hours] : run.gpu_hours) types.insert(type);
  }
  return {types.begin(), types.end()};
}

std::string gpu_hours_text(const lab::ReplanRun& run, const std::string& type) {
  const auto found = run.gpu_hours.find(type);
  return fmt::format("{:.1f}", found == run.gpu_hours.end() ? 0 : found->second);
}

bool keeps_all(const lab::Scenario& scenario, const lab::ReplanRun& run) {
  for (std::size_t s = 0; s < scenario.workload.services.size(); ++s) {
    if (!is_kept(scenario.workload.services[s], run.result.metrics.service_total(s))) return false;
  }
  return true;
}

// One row for each way of planning, then the share in time of each service side by side.
std::string replan_table(const lab::Scenario& scenario, const lab::ReplanComparison& comparison,
                         const Terminal& terminal) {
  std::vector<Column> columns{{"PLAN"}};
  const bool priced = std::ranges::any_of(comparison.runs, [](const auto& run) { return run.cost > 0; });
  const auto types = gpu_types(comparison);
  for (const auto& type : types) {
    columns.push_back({types.size() == 1 ? "GPU-HOURS" : "HOURS OF " + type, Align::right});
  }
  if (priced) columns.push_back({"COST", Align::right});
  for (const char* name : {"SAVED", "SLICE-HOURS", "GPUS MAX", "IN TIME", "KEPT", "LATE", "REFUSED", "LOST", "PLANS",
                           "RE-CUTS", "LOADED"}) {
    columns.push_back({name, Align::right});
  }
  Table table(std::move(columns));
  for (const auto& run : comparison.runs) {
    const sim::Tally total = run.result.metrics.total();
    const auto saved = saved_share(scenario, comparison, run);
    const bool kept = keeps_all(scenario, run);
    std::vector<Cell> cells{{run.name, Style::accent}};
    for (const auto& type : types) cells.push_back(gpu_hours_text(run, type));
    if (priced) cells.push_back(fmt::format("{:.2f}", run.cost));
    const std::vector<Cell> rest{saved ? fmt::format("{:.1f} %", 100 * *saved) : "-",
                                 fmt::format("{:.1f}", run.slice_hours),
                                 std::to_string(run.devices_max),
                                 percent_text(run.attainment()),
                                 {kept ? "yes" : "NO", kept ? Style::good : Style::bad},
                                 std::to_string(total.late),
                                 std::to_string(refused(total)),
                                 std::to_string(run.unresolved),
                                 std::to_string(run.steps.size()),
                                 std::to_string(run.result.reshapes),
                                 std::to_string(run.replicas_loaded)};
    cells.insert(cells.end(), rest.begin(), rest.end());
    table.add(std::move(cells));
  }
  // A second table, because the total hides a service that pays for the others.
  std::vector<Column> by_service{{"SERVICE"}, {"PROMISE", Align::right}};
  for (const auto& run : comparison.runs) by_service.push_back({"IN TIME, " + run.name, Align::right});
  Table services(std::move(by_service));
  for (std::size_t s = 0; s < scenario.workload.services.size(); ++s) {
    const Service& service = scenario.workload.services[s];
    std::vector<Cell> cells{{service.name, Style::accent}, fmt::format("{:g} %", service.slo.percentile)};
    for (const auto& run : comparison.runs) {
      // Coloured by the service's own percentile.
      const double share = run.result.metrics.service_total(s).slo_attainment();
      const bool kept = is_kept(service, run.result.metrics.service_total(s));
      cells.push_back({percent_text_against(share, service.slo.percentile) + (kept ? "" : " BROKEN"),
                       kept ? Style::good : Style::bad});
    }
    services.add(std::move(cells));
  }
  std::string notes;
  if (!keeps_all(scenario, run_named(comparison, "static"))) {
    notes = "\nNo saving is shown: the plan for the peak breaks a promise itself.\n";
  }
  if (types.size() > 1 && comparison.objective != plan::Objective::price) {
    notes +=
        "\nNo saving is shown: hours of different types of GPUs are not added up. With a `price_per_hour` of each group "
        "and --objective price, it is that of the cost.\n";
  }
  return table.render(terminal) + "\n" + services.render(terminal) + notes;
}

Json replan_json(const lab::Scenario& scenario, const lab::ReplanComparison& comparison) {
  Json runs = Json::array();
  for (const auto& run : comparison.runs) runs.push_back(run_json(scenario, comparison, run));
  return {{"scenario", scenario.name}, {"duration_s", comparison.duration_s}, {"runs", runs}};
}

}  // namespace tangram::report
