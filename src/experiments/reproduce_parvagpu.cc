// The table of ParvaGPU: GPUs for each of its scenarios, by its own planner, by exact planning and certified.

#include <fmt/format.h>

#include "base/text.h"
#include "experiments/detail/counts.h"
#include "experiments/parvagpu.h"
#include "experiments/reproduce.h"
#include "learn/models/table.h"

namespace tangram::experiments {
namespace {

using detail::count_json;
using detail::count_text;
using report::Align;

// A scenario and its result; rows run at the same time and share nothing but the latency model.
struct ParvaRow {
  ParvaScenario scenario;
  ParvaResult result{};
};

// Numbers of devices are null where planning is impossible; tables show "none".
report::Json parva_json(const ParvaResult& result) {
  report::Json services = report::Json::array();
  for (const auto& service : result.services) {
    services.push_back({{"service", service.service},
                        {"slo_latency_ms", service.slo_ms},
                        {"latency_p99_ms", service.p99_ms},
                        {"slo_attainment", service.attainment}});
  }
  return {{"scenario", result.scenario},
          {"parva", count_json(result.parva)},
          {"elastic", count_json(result.elastic)},
          {"bound", count_json(result.bound)},
          {"proved", result.proved},
          {"certified", count_json(result.certified)},
          {"certified_bound", count_json(result.certified_bound)},
          {"certified_proved", result.certified_proved},
          {"noise", result.noise},
          {"certified_with_noise", count_json(result.certified_with_noise)},
          {"shared_with_noise", count_json(result.shared_with_noise)},
          {"half_raised", count_json(result.half_raised)},
          {"half_rate_factor", result.half_rate_factor},
          {"no_waiting_bound", count_json(result.no_waiting)},
          {"certifications", result.certifications},
          {"certified_services", std::move(services)}};
}

// The service whose p99 is nearest to its promise: "bert 6120 of 6434 ms".
std::string tightest_text(const ParvaResult& result) {
  std::string tightest = "-";
  double share = 0;
  for (const auto& service : result.services) {
    // Relative to the Slo, because services have very different ones.
    if (service.p99_ms / service.slo_ms < share) continue;
    share = service.p99_ms / service.slo_ms;
    tightest = fmt::format("{} {:.0f} of {} ms", service.service, service.p99_ms, text::shortest(service.slo_ms));
  }
  return tightest;
}

report::Table parva_table(const std::vector<ParvaRow>& rows) {
  report::Table table({{"SCENARIO"},
                       {"PARVA", Align::right},
                       {"ELASTIC", Align::right},
                       {"BOUND", Align::right},
                       {"PROVED"},
                       {"HALF, RAISED", Align::right},
                       {"CERTIFIED", Align::right},
                       {"BOUND", Align::right},
                       {"WITH NOISE", Align::right},
                       {"SHARED", Align::right},
                       {"NO WAITING", Align::right},
                       {"TIGHTEST P99"}});
  for (const auto& [scenario, result] : rows) {
    table.add({{result.scenario, report::Style::accent},
               count_text(result.parva),
               count_text(result.elastic),
               count_text(result.bound),
               result.proved ? "yes" : "no",
               count_text(result.half_raised),
               count_text(result.certified),
               count_text(result.certified_bound),
               count_text(result.certified_with_noise),
               count_text(result.shared_with_noise),
               count_text(result.no_waiting),
               tightest_text(result)});
  }
  return table;
}

}  // namespace

Result<Answer> reproduce_parvagpu(const ParvaInput& input, Runner& runner) {
  TANGRAM_TRY(const auto measurements, measurements_of("parvagpu", input.profiles));
  TANGRAM_TRY(auto scenarios, parva_scenarios(input.scenarios));
  const learn::TableModel model(measurements);
  std::vector<ParvaRow> rows;
  for (auto& scenario : scenarios) rows.push_back({std::move(scenario)});
  // The last scenarios are the largest, so they start first.
  run_cells_from_last(runner, "planning", rows, [&](ParvaRow& row) { row.result = run_parvagpu(model, row.scenario); });
  Answer answer;
  for (const auto& row : rows) {
    answer.json.push_back(parva_json(row.result));
    if (!row.result.reason.empty()) runner.note(row.result.scenario + ": " + row.result.reason);
  }
  const double noise = 100 * rows.front().result.noise;
  answer.sections.push_back(
      {fmt::format(
           "Devices for each scenario. PARVA, ELASTIC and its BOUND: a run takes less than 0.9 of half the Slo.\nHALF, "
           "RAISED: the same with rates raised until every simulated p99 holds. CERTIFIED: simulated with the\nscheduler "
           "that serves, WITH NOISE: and with run times that spread by {:g} %, of which the data have none.\nNO WAITING: "
           "the bound if a run only had to be shorter than its Slo, in batches that can gather in the rest of it.\n\n",
           noise),
       parva_table(rows)});
  return answer;
}

}  // namespace tangram::experiments
