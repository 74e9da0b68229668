// The tables of lending slices: a day on each certified plan, with training on what services do not need for now.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "experiments/parvagpu.h"
#include "experiments/reproduce.h"
#include "experiments/slice_lending.h"
#include "learn/models/table.h"

namespace tangram::experiments {
namespace {

using report::Align;
using report::Style;

constexpr double kHoursOfADay = 24;

// Speeds are shares of a whole GPU's, so a file without one says nothing.
Result<std::map<int, double>> speeds_of(const File& file) {
  TANGRAM_TRY(const auto iterations, measurements_of("miso", file));
  auto speeds = lab::training_speeds(iterations);
  if (!speeds.empty()) return speeds;
  return Error{ErrorCode::invalid,
               file->name + ": no model was timed on a whole GPU, 7g.40gb, to which slices are compared"};
}

// A day of one scenario, in both modes. The same training is to be done: what one mode does not get done on what it is
// lent runs on GPUs of its own.
struct Row {
  ParvaScenario scenario;
  std::string reason{};  // Where there is no plan.
  LendingResult whole{};
  LendingResult slices{};
  std::optional<ReplannedDay> replanned{};  // With --full.

  // The more of the two: the other mode has to make up for the difference on GPUs of its own.
  double training_h() const { return std::max(whole.training_h, slices.training_h); }
  double gpu_hours(const LendingResult& mode) const {
    return kHoursOfADay * mode.devices + (training_h() - mode.training_h);
  }
  // GPU-hours saved by lending slices instead of whole GPUs, for the same inference and the same training.
  double saved() const { return 1 - gpu_hours(slices) / std::max(gpu_hours(whole), 1e-9); }
};

// One mode of one scenario; training_throughput is the same in both modes, so that gpu_hours can be compared.
report::Json mode_json(const Row& row, const LendingResult& mode, const char* name) {
  return {{"scenario", row.scenario.name},
          {"mode", name},
          {"gpu_hours", row.gpu_hours(mode)},
          {"training_throughput", row.training_h() / kHoursOfADay},
          {"slo_attainment", mode.slo_attainment},
          {"slo_kept", mode.slo_margin >= 0},
          {"gpus", std::llround(mode.devices)},
          {"lent_gpu_hours", mode.lent_gpu_h},
          {"training_on_lent_gpu_hours", mode.training_h},
          {"leases", mode.leases}};
}

// The bound of both modes if a new plan came every hour at no cost.
report::Json replanned_json(const Row& row, bool slices) {
  const auto& day = *row.replanned;
  const double training_h = day.whole_h + day.parts_h;
  return {{"scenario", row.scenario.name},
          {"mode", slices ? "slices_replanned" : "whole_gpu_replanned"},
          {"gpu_hours", kHoursOfADay * day.devices + (slices ? 0 : day.parts_h)},
          {"training_throughput", training_h / kHoursOfADay},
          {"slo_attainment", nullptr},
          {"gpus", std::llround(day.devices)}};
}

// A bound by planning for every hour; nullopt where an hour has no plan.
std::optional<ReplannedDay> replan(const LatencyModel& model, const ParvaScenario& scenario,
                                   const std::map<int, double>& speeds, const LendingDay& day) {
  const auto plan_at = [&](double rates) -> std::optional<Plan> {
    ParvaScenario scaled = scenario;
    for (auto& service : scaled.workload.services) {
      service.traffic = PoissonTraffic{mean_rate_per_s(service.traffic) * rates};
    }
    auto answer = plan_certified(model, scaled);
    if (answer.status != plan::PlanStatus::planned) return std::nullopt;
    return std::move(answer.plan);
  };
  return replan_for_a_day(plan_at, speeds, day);
}

report::Table replanned_table(const std::vector<Row>& rows) {
  report::Table table({{"SCENARIO"},
                       {"IDLE WHOLE", Align::right},
                       {"TRAINING ON PARTS", Align::right},
                       {"WHOLE GPUS", Align::right},
                       {"SLICES", Align::right},
                       {"SAVED", Align::right}});
  for (const auto& row : rows) {
    if (!row.replanned) continue;
    const auto& day = *row.replanned;
    const double slices = kHoursOfADay * day.devices;
    table.add({{row.scenario.name, Style::accent},
               fmt::format("{:.1f} GPU-h", day.whole_h),
               fmt::format("{:.1f} GPU-h", day.parts_h),
               fmt::format("{:.1f} GPU-h", slices + day.parts_h),
               fmt::format("{:.1f} GPU-h", slices),
               fmt::format("{:.0f} %", 100 * day.parts_h / (slices + day.parts_h))});
  }
  return table;
}

// Plans once and lends twice: both modes have the same plan and the same requests.
void run_row(const LatencyModel& model, const std::map<int, double>& speeds, const LendingDay& day, Row& row) {
  const auto answer = plan_certified(model, row.scenario);
  row.reason = answer.reason;
  // The row keeps its reason and is left out of tables and JSON.
  if (answer.status != plan::PlanStatus::planned) return;
  const auto lend = [&](lab::LendMode mode) {
    return lend_for_a_day(answer.plan, row.scenario.workload, model, speeds, mode, day);
  };
  row.whole = lend(lab::LendMode::whole_gpu);
  row.slices = lend(lab::LendMode::slices);
}

report::Table lent_table(const std::vector<Row>& rows) {
  report::Table table({{"SCENARIO"},
                       {"GPUS", Align::right},
                       {"TRAINING", Align::right},
                       {"LENT WHOLE", Align::right},
                       {"LENT SLICES", Align::right},
                       {"WHOLE GPUS", Align::right},
                       {"SLICES", Align::right},
                       {"SAVED", Align::right},
                       {"IN TIME", Align::right},
                       {"PROMISES"}});
  for (const auto& row : rows) {
    if (!row.reason.empty()) continue;
    // Savings that break a promise are no savings, so the table says so.
    const bool kept = std::min(row.whole.slo_margin, row.slices.slo_margin) >= 0;
    table.add({{row.scenario.name, Style::accent},
               fmt::format("{:.0f}", row.slices.devices),
               fmt::format("{:.1f} GPU-h", row.training_h()),
               fmt::format("{:.1f} GPU-h", row.whole.lent_gpu_h),
               fmt::format("{:.1f} GPU-h", row.slices.lent_gpu_h),
               fmt::format("{:.1f} GPU-h", row.gpu_hours(row.whole)),
               fmt::format("{:.1f} GPU-h", row.gpu_hours(row.slices)),
               fmt::format("{:.0f} %", 100 * row.saved()),
               fmt::format("{:.2f} %", 100 * std::min(row.whole.slo_attainment, row.slices.slo_attainment)),
               {kept ? "kept" : "broken", kept ? Style::good : Style::bad}});
  }
  return table;
}

void add_json(const Row& row, report::Json& list) {
  list.push_back(mode_json(row, row.whole, "whole_gpu"));
  list.push_back(mode_json(row, row.slices, "slices"));
  if (!row.replanned) return;
  for (const bool slices : {false, true}) list.push_back(replanned_json(row, slices));
}

// The tables and the JSON; `found` is false where no scenario has a plan.
Answer answer_of(const std::vector<Row>& rows, bool full) {
  Answer answer;
  for (const auto& row : rows) {
    if (row.reason.empty()) add_json(row, answer.json);
  }
  answer.found = std::ranges::any_of(rows, [](const Row& row) { return row.reason.empty(); });
  if (!answer.found) return answer;
  answer.sections.push_back(
      {"A day on each certified plan, with rates between 25 and 95 % of the planned ones. Both modes run the "
       "same\ntraining: on the lent slices, and the rest on GPUs of its own.\n\n",
       lent_table(rows)});
  if (!full) return answer;
  answer.sections.push_back(
      {"\nWith a new plan every hour at no cost, as a bound on both modes:\n\n", replanned_table(rows)});
  return answer;
}

}  // namespace

Result<Answer> reproduce_slices(const SlicesInput& input, Runner& runner) {
  TANGRAM_TRY(const auto profiles, measurements_of("parvagpu", input.profiles));
  TANGRAM_TRY(const auto speeds, speeds_of(input.iterations));
  TANGRAM_TRY(auto scenarios, parva_scenarios(input.scenarios));
  LendingDay day;
  if (input.quick) {
    if (scenarios.size() > 1) scenarios.resize(1);
    // Half the usual length; lending then sees traffic change twice as fast.
    day.hour_s = 30;
  }
  const learn::TableModel model(profiles);
  std::vector<Row> rows;
  for (auto& scenario : scenarios) rows.push_back({std::move(scenario)});
  // The last scenarios are the largest, as a rule, so they start first.
  run_cells_from_last(runner, "planning", rows, [&](Row& row) {
    run_row(model, speeds, day, row);
    if (input.full) row.replanned = replan(model, row.scenario, speeds, day);
  });
  for (const auto& row : rows) {
    if (!row.reason.empty()) runner.note(row.scenario.name + ": no plan: " + row.reason);
  }
  return answer_of(rows, input.full);
}

}  // namespace tangram::experiments
