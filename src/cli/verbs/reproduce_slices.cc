// `tangram reproduce slices`: training on the slices that certified plans leave, with measured iteration times.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>

#include "base/text.h"
#include "cli/inputs.h"
#include "cli/parallel.h"
#include "cli/table.h"
#include "cli/verbs/reproduce_training.h"
#include "formats/import.h"
#include "formats/measurements_file.h"
#include "formats/workload_file.h"
#include "lab/parvagpu.h"
#include "lab/slices.h"
#include "learn/models/table.h"

namespace tangram::cli {
namespace {

Result<Measurements> read_measurements(const std::string& data, const char* format, const char* file) {
  const std::string path = (std::filesystem::path(data) / format / file).string();
  const auto source = read_source(path);
  if (!source) return source.error();
  const auto imported = formats::import_text(format, {*source});
  if (!imported) return imported.error();
  return formats::parse_measurements({path, *imported});
}

// The scenarios are named by the first column.
Result<std::vector<lab::ParvaScenario>> read_scenarios(const std::string& data) {
  const std::string path = (std::filesystem::path(data) / "parvagpu" / "scenarios.csv").string();
  const auto source = read_source(path);
  if (!source) return source.error();
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
  return scenarios;
}

struct Row {
  std::string scenario;
  lab::SliceLending lending{};
  double attainment = 0;  // Of the service that keeps its promise least often.
};

Json mode_json(const Row& row, bool slices) {
  return {{"scenario", row.scenario},
          {"mode", slices ? "slices" : "whole_gpu"},
          {"gpu_hours", slices ? row.lending.gpu_hours_slices : row.lending.gpu_hours_whole},
          {"training_throughput", row.lending.training},
          {"slo_attainment", row.attainment}};
}

}  // namespace

ExitCode reproduce_slices(Session& session, const TrainingOptions& options) {
  const auto profiles = read_measurements(options.data, "parvagpu", "profiles.csv");
  if (!profiles) return session.fail(profiles.error());
  const auto iterations = read_measurements(options.data, "miso", "train_iteration_time.csv");
  if (!iterations) return session.fail(iterations.error());
  auto scenarios = read_scenarios(options.data);
  if (!scenarios) return session.fail(scenarios.error());
  if (options.quick && scenarios->size() > 1) scenarios->resize(1);
  const auto speeds = lab::training_speeds(*iterations);
  const learn::TableModel table(*profiles);
  std::vector<Row> rows(scenarios->size());
  std::atomic<std::uint64_t> done = 0;
  Progress progress = session.progress("planning", rows.size());
  run_all(
      rows.size(),
      [&](std::size_t i) {
        const auto result = lab::run_parvagpu(table, (*scenarios)[i]);
        rows[i] = {(*scenarios)[i].name, lab::lend_leftovers(result.certified_plan.plan, speeds), 1};
        for (const auto& service : result.services) {
          rows[i].attainment = std::min(rows[i].attainment, service.attainment);
        }
        ++done;
      },
      [&] { progress.set(done); });
  if (session.structured()) {
    Json list = Json::array();
    for (const auto& row : rows) {
      list.push_back(mode_json(row, false));
      list.push_back(mode_json(row, true));
    }
    session.print_value(list);
    return ExitCode::done;
  }
  session.print(
      "An hour of each certified plan: the same training on whole GPUs, and on the slices that the plan leaves.\n\n");
  Table text({{"SCENARIO"},
              {"LEFT", Align::right},
              {"TRAINING", Align::right},
              {"WHOLE GPUS", Align::right},
              {"SLICES", Align::right},
              {"SAVED", Align::right},
              {"IN TIME", Align::right}});
  for (const auto& row : rows) {
    const auto& l = row.lending;
    text.add({{row.scenario, Style::accent},
              fmt::format("{}g", l.leftover),
              fmt::format("{:.2f} GPUs", l.training),
              fmt::format("{:.2f} GPU-h", l.gpu_hours_whole),
              fmt::format("{:.2f} GPU-h", l.gpu_hours_slices),
              fmt::format("{:.0f} %", 100 * (1 - l.gpu_hours_slices / std::max(l.gpu_hours_whole, 1e-9))),
              fmt::format("{:.2f} %", 100 * row.attainment)});
  }
  session.print(text.render(session.terminal));
  return ExitCode::done;
}

}  // namespace tangram::cli
