// `tangram reproduce slices`: training on the slices that services do not need for now, with measured
// iteration times.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>

#include "base/text.h"
#include "cli/inputs.h"
#include "cli/parallel.h"
#include "report/table.h"
#include "cli/verbs/reproduce_training.h"
#include "formats/import.h"
#include "formats/measurements_file.h"
#include "formats/workload_file.h"
#include "lab/parvagpu.h"
#include "lab/slices.h"
#include "learn/models/table.h"

namespace tangram::cli {
namespace {

constexpr double kHoursOfADay = 24;
constexpr const char* kIterationsFormat = "miso";
constexpr const char* kIterationsFile = "train_iteration_time.csv";
constexpr const char* kHint = "--data names the folder that holds parvagpu/ and miso/";

Error with_hint(Error error) {
  error.message += std::string("\n") + kHint;
  return error;
}

Result<Measurements> read_measurements(const std::string& data, const char* format, const char* file) {
  const std::string path = (std::filesystem::path(data) / format / file).string();
  const auto source = read_source(path);
  if (!source) return with_hint(source.error());
  const auto imported = formats::import_text(format, {*source});
  if (!imported) return imported.error();
  return formats::parse_measurements({path, *imported});
}

// The scenarios are named by the first column.
Result<std::vector<lab::ParvaScenario>> read_scenarios(const std::string& data) {
  const std::string path = (std::filesystem::path(data) / "parvagpu" / "scenarios.csv").string();
  const auto source = read_source(path);
  if (!source) return with_hint(source.error());
  std::vector<std::string> names;
  for (const auto line : text::split(source->text, '\n')) {
    const std::string name(text::trim(text::split(line, ',').front()));
    if (!name.empty() && std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  std::vector<lab::ParvaScenario> scenarios;
  for (std::size_t i = 1; i < names.size(); ++i) {
    const auto imported = formats::import_text("parvagpu:" + names[i], {*source});
    if (!imported) return imported.error();
    const auto workload = formats::parse_workload({path, *imported}, reader_beside(path));
    if (!workload) return workload.error();
    scenarios.push_back({names[i], *workload});
  }
  if (scenarios.empty()) return Error{ErrorCode::invalid, path + ": no scenarios, only a header at most"};
  return scenarios;
}

// Speeds are shares of a whole GPU's, so a file without one says nothing.
Result<std::map<int, double>> read_speeds(const std::string& data) {
  const auto iterations = read_measurements(data, kIterationsFormat, kIterationsFile);
  if (!iterations) return iterations.error();
  auto speeds = lab::training_speeds(*iterations);
  if (!speeds.empty()) return speeds;
  return Error{ErrorCode::invalid,
               fmt::format("{}: no model was timed on a whole GPU, 7g.40gb, against which slices are compared",
                           (std::filesystem::path(data) / kIterationsFormat / kIterationsFile).string())};
}

// A day of one scenario, in both modes. The same training is to be done: what one mode does not get done on what it is
// lent runs on GPUs of its own.
struct Row {
  std::string scenario;
  std::string reason;  // Where there is no plan.
  lab::LendingResult whole{};
  lab::LendingResult slices{};
  std::optional<lab::ReplannedDay> replanned{};  // With --full.

  double training_h() const { return std::max(whole.training_h, slices.training_h); }
  double gpu_hours(const lab::LendingResult& mode) const {
    return kHoursOfADay * mode.devices + (training_h() - mode.training_h);
  }
  double saved() const { return 1 - gpu_hours(slices) / std::max(gpu_hours(whole), 1e-9); }
};

report::Json mode_json(const Row& row, const lab::LendingResult& mode, const char* name) {
  return {{"scenario", row.scenario},
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
  return {{"scenario", row.scenario},
          {"mode", slices ? "slices_replanned" : "whole_gpu_replanned"},
          {"gpu_hours", kHoursOfADay * day.devices + (slices ? 0 : day.parts_h)},
          {"training_throughput", training_h / kHoursOfADay},
          {"slo_attainment", nullptr},
          {"gpus", std::llround(day.devices)}};
}

std::optional<lab::ReplannedDay> replan(const LatencyModel& model, const lab::ParvaScenario& scenario,
                                        const std::map<int, double>& speeds, const lab::LendingDay& day) {
  const auto plan_at = [&](double rates) -> std::optional<Plan> {
    lab::ParvaScenario scaled = scenario;
    for (auto& service : scaled.workload.services) {
      service.traffic = PoissonTraffic{mean_rate_per_s(service.traffic) * rates};
    }
    auto answer = lab::plan_certified(model, scaled);
    if (answer.status != plan::PlanStatus::planned) return std::nullopt;
    return std::move(answer.plan);
  };
  return lab::replan_for_a_day(plan_at, speeds, day);
}

std::string replanned_table(const std::vector<Row>& rows, const Terminal& terminal) {
  report::Table text({{"SCENARIO"},
              {"IDLE WHOLE", report::Align::right},
              {"TRAINING ON PARTS", report::Align::right},
              {"WHOLE GPUS", report::Align::right},
              {"SLICES", report::Align::right},
              {"SAVED", report::Align::right}});
  for (const auto& row : rows) {
    if (!row.replanned) continue;
    const auto& day = *row.replanned;
    const double slices = kHoursOfADay * day.devices;
    text.add({{row.scenario, Style::accent},
              fmt::format("{:.1f} GPU-h", day.whole_h),
              fmt::format("{:.1f} GPU-h", day.parts_h),
              fmt::format("{:.1f} GPU-h", slices + day.parts_h),
              fmt::format("{:.1f} GPU-h", slices),
              fmt::format("{:.0f} %", 100 * day.parts_h / (slices + day.parts_h))});
  }
  return text.render(terminal);
}

void run_row(const LatencyModel& model, const lab::ParvaScenario& scenario, const std::map<int, double>& speeds,
             const lab::LendingDay& day, Row& row) {
  row.scenario = scenario.name;
  const auto answer = lab::plan_certified(model, scenario);
  row.reason = answer.reason;
  if (answer.status != plan::PlanStatus::planned) return;
  row.whole = lab::lend_for_a_day(answer.plan, scenario.workload, model, speeds, lab::LendMode::whole_gpu, day);
  row.slices = lab::lend_for_a_day(answer.plan, scenario.workload, model, speeds, lab::LendMode::slices, day);
}

std::string table_of(const std::vector<Row>& rows, const Terminal& terminal) {
  report::Table text({{"SCENARIO"},
              {"GPUS", report::Align::right},
              {"TRAINING", report::Align::right},
              {"LENT WHOLE", report::Align::right},
              {"LENT SLICES", report::Align::right},
              {"WHOLE GPUS", report::Align::right},
              {"SLICES", report::Align::right},
              {"SAVED", report::Align::right},
              {"IN TIME", report::Align::right},
              {"PROMISES"}});
  for (const auto& row : rows) {
    if (!row.reason.empty()) continue;
    const bool kept = std::min(row.whole.slo_margin, row.slices.slo_margin) >= 0;
    text.add({{row.scenario, Style::accent},
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
  return text.render(terminal);
}

}  // namespace

ExitCode reproduce_slices(Session& session, const TrainingOptions& options) {
  const auto profiles = read_measurements(options.data, "parvagpu", "profiles.csv");
  if (!profiles) return session.fail(profiles.error());
  const auto speeds = read_speeds(options.data);
  if (!speeds) return session.fail(speeds.error());
  auto scenarios = read_scenarios(options.data);
  if (!scenarios) return session.fail(scenarios.error());
  lab::LendingDay day;
  if (options.quick) {
    if (scenarios->size() > 1) scenarios->resize(1);
    day.hour_s = 30;
  }
  const learn::TableModel table(*profiles);
  std::vector<Row> rows(scenarios->size());
  std::atomic<std::uint64_t> done = 0;
  Progress progress = session.progress("planning", rows.size());
  // The last scenarios are the largest, as a rule.
  run_all(
      rows.size(),
      [&](std::size_t i) {
        const std::size_t at = rows.size() - 1 - i;
        run_row(table, (*scenarios)[at], *speeds, day, rows[at]);
        if (options.full) rows[at].replanned = replan(table, (*scenarios)[at], *speeds, day);
        ++done;
      },
      [&] { progress.set(done); });
  for (const auto& row : rows) {
    if (!row.reason.empty()) session.note(row.scenario + ": no plan: " + row.reason);
  }
  const bool planned = std::ranges::any_of(rows, [](const Row& row) { return row.reason.empty(); });
  const ExitCode code = planned ? ExitCode::done : ExitCode::answer_is_no;
  if (session.structured()) {
    report::Json list = report::Json::array();
    for (const auto& row : rows) {
      if (!row.reason.empty()) continue;
      list.push_back(mode_json(row, row.whole, "whole_gpu"));
      list.push_back(mode_json(row, row.slices, "slices"));
      for (const bool slices : {false, true}) {
        if (row.replanned) list.push_back(replanned_json(row, slices));
      }
    }
    session.print_value(list);
    return code;
  }
  if (!planned) return code;
  session.print(
      "A day on each certified plan, rates between 25 and 95 % of the planned ones. The same training in both\n"
      "modes: on what is lent, and the rest on GPUs of its own.\n\n");
  session.print(table_of(rows, session.terminal));
  if (!options.full) return ExitCode::done;
  session.print("\nIf a new plan came into force every hour at no cost, as a bound on both modes:\n\n");
  session.print(replanned_table(rows, session.terminal));
  return ExitCode::done;
}

}  // namespace tangram::cli
