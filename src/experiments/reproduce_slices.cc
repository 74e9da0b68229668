// The tables of lending slices: a day on each certified plan, with training on what services do not need for now.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/check.h"
#include "core/geometry.h"
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

// The device type of ParvaGPU's scenarios, which GPUs for training have as well.
double dedicated_speed_of(const std::map<int, double>& speeds) {
  const Geometry* geometry = find_geometry(ParvaOptions{}.device);
  TANGRAM_CHECK(geometry != nullptr, "the scenarios are planned on a type of the tables");
  return lab::best_cut_speed(*geometry, speeds);
}

// A day of one scenario, in both modes. The same training is to be done: what one mode does not get done on the GPUs of
// inference runs on GPUs of its own, which are cut so that they train fastest.
struct Row {
  ParvaScenario scenario;
  double dedicated_speed = 1;  // Hours of uncut GPUs that a dedicated GPU trains in an hour.
  std::string reason{};        // Where there is no plan.
  LendingResult whole{};
  LendingResult slices{};
  std::optional<ReplannedDay> replanned{};  // With --full.

  // The more of the two: the other mode has to make up for the difference on GPUs of its own.
  double training_h() const { return std::max(whole.training_h(), slices.training_h()); }
  double gpu_hours(double devices, double training_missing_h) const {
    return kHoursOfADay * devices + training_missing_h / dedicated_speed;
  }
  double gpu_hours(const LendingResult& mode) const {
    return gpu_hours(mode.devices, training_h() - mode.training_h());
  }
  // GPU-hours saved by training on slices instead of whole GPUs, for the same inference and the same training.
  double saved() const { return 1 - gpu_hours(slices) / std::max(gpu_hours(whole), 1e-9); }
  // The part of it that needs lending: saved against a mode that trains on space without replicas and lends nothing.
  double saved_by_lending() const {
    const double nothing_lent = gpu_hours(slices.devices, training_h() - slices.unplanned_training_h);
    return 1 - gpu_hours(slices) / std::max(nothing_lent, 1e-9);
  }
  // The same as saved() if every hour had a plan of its own at no cost: GPUs that its plan does not use train in both
  // modes, parts of GPUs only with slices.
  double replanned_gpu_hours(bool with_slices) const {
    return gpu_hours(replanned->devices, with_slices ? 0 : replanned->parts_h);
  }
  double saved_replanned() const { return 1 - replanned_gpu_hours(true) / std::max(replanned_gpu_hours(false), 1e-9); }
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
          {"training_on_lent_gpu_hours", mode.lent_training_h},
          {"unplanned_gpu_hours", mode.unplanned_gpu_h},
          {"training_on_unplanned_gpu_hours", mode.unplanned_training_h},
          {"dedicated_gpu_speed", row.dedicated_speed},
          {"leases", mode.leases}};
}

// The bound of both modes if a new plan came every hour at no cost.
report::Json replanned_json(const Row& row, bool slices) {
  const auto& day = *row.replanned;
  const double training_h = day.whole_h * row.dedicated_speed + day.parts_h;
  return {{"scenario", row.scenario.name},
          {"mode", slices ? "slices_replanned" : "whole_gpu_replanned"},
          {"gpu_hours", row.replanned_gpu_hours(slices)},
          {"training_throughput", training_h / kHoursOfADay},
          {"slo_attainment", nullptr},
          {"gpus", std::llround(day.devices)},
          {"dedicated_gpu_speed", row.dedicated_speed}};
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
    table.add({{row.scenario.name, Style::accent},
               fmt::format("{:.1f} GPU-h", row.replanned->whole_h),
               fmt::format("{:.1f} GPU-h", row.replanned->parts_h),
               fmt::format("{:.1f} GPU-h", row.replanned_gpu_hours(false)),
               fmt::format("{:.1f} GPU-h", row.replanned_gpu_hours(true)),
               fmt::format("{:.0f} %", 100 * row.saved_replanned())});
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

// What the GPUs of inference are used for beside inference.
report::Table used_table(const std::vector<Row>& rows) {
  report::Table table({{"SCENARIO"},
                       {"GPUS", Align::right},
                       {"NEVER PLANNED", Align::right},
                       {"TRAINING THERE", Align::right},
                       {"SLICES LENT", Align::right},
                       {"TRAINING THERE", Align::right},
                       {"LEASES", Align::right},
                       {"GPUS LENT WHOLE", Align::right}});
  for (const auto& row : rows) {
    if (!row.reason.empty()) continue;
    table.add({{row.scenario.name, Style::accent},
               fmt::format("{:.0f}", row.slices.devices),
               fmt::format("{:.1f} GPU-h", row.slices.unplanned_gpu_h),
               fmt::format("{:.1f} GPU-h", row.slices.unplanned_training_h),
               fmt::format("{:.1f} GPU-h", row.slices.lent_gpu_h),
               fmt::format("{:.1f} GPU-h", row.slices.lent_training_h),
               fmt::format("{}", row.slices.leases),
               fmt::format("{:.1f} GPU-h", row.whole.lent_gpu_h)});
  }
  return table;
}

// What that saves.
report::Table saved_table(const std::vector<Row>& rows) {
  report::Table table({{"SCENARIO"},
                       {"TRAINING", Align::right},
                       {"WHOLE GPUS", Align::right},
                       {"SLICES", Align::right},
                       {"SAVED", Align::right},
                       {"BY LENDING", Align::right},
                       {"IN TIME", Align::right},
                       {"PROMISES"}});
  for (const auto& row : rows) {
    if (!row.reason.empty()) continue;
    // Savings that break a promise are no savings, so the table says so.
    const bool kept = std::min(row.whole.slo_margin, row.slices.slo_margin) >= 0;
    table.add({{row.scenario.name, Style::accent},
               fmt::format("{:.1f} GPU-h", row.training_h()),
               fmt::format("{:.1f} GPU-h", row.gpu_hours(row.whole)),
               fmt::format("{:.1f} GPU-h", row.gpu_hours(row.slices)),
               fmt::format("{:.0f} %", 100 * row.saved()),
               fmt::format("{:.0f} %", 100 * row.saved_by_lending()),
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
      {"A day on each certified plan, rates between 25 and 95 % of the planned ones. NEVER PLANNED: space that the\n"
       "plan gives to no service, all day. SLICES LENT: slices of services, while they are not needed. Training\n"
       "counts in hours of an uncut GPU.\n\n",
       used_table(rows)});
  answer.sections.push_back(
      {fmt::format(
           "\nGPU-hours of inference and the same training. What a mode does not train on the GPUs of inference\n"
           "runs on GPUs of its own, cut so that each trains {:.2f} times as fast as uncut. BY LENDING: saved against\n"
           "training on the space that is never planned, with nothing lent.\n\n",
           rows.front().dedicated_speed),
       saved_table(rows)});
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
  for (auto& scenario : scenarios) rows.push_back({std::move(scenario), dedicated_speed_of(speeds)});
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
