// The result of a measuring campaign as a table and JSON.
//
// A measurement is worth as much as its interval, so every latency is shown with the half width of its 95 % interval
// and the number of runs behind it; intervals that missed the wanted precision are marked.

#include "report/measure_view.h"

#include <fmt/format.h>

#include <cmath>

#include "report/number_text.h"
#include "report/table.h"

namespace tangram::report {
namespace {

std::string optional_digits(const std::optional<double>& value) { return value ? plain_number_text(*value) : "-"; }

// "± 1.3 %", or "-" for a single run, which has no interval. Engines without variation need no second run.
Cell interval_cell(const MeasuredPointView& point, double precision) {
  if (!point.has_interval()) return "-";
  const bool narrow = point.half_width <= precision;
  return {fmt::format("± {:.1f} %", 100 * point.half_width), narrow ? Style::plain : Style::bad};
}

// Outliers are named, so that a cleaned mean is not mistaken for the mean of all runs.
std::string runs_text(const MeasuredPointView& point) {
  if (point.runs == 0) return "-";
  return point.outliers == 0 ? fmt::format("{}", point.runs)
                             : fmt::format("{} ({} left out)", point.runs, point.outliers);
}

// One measured point: its configuration, the result and why the sampler chose it.
void add_row(Table& table, const MeasuredPointView& point, double precision) {
  const Measurement& m = point.measurement;
  // Running out of memory is a result of a measurement, not a missing value.
  const Cell latency = m.latency_ms ? Cell(plain_number_text(*m.latency_ms)) : Cell("out of memory", Style::bad);
  table.add({{m.mig_profile, Style::accent},
             fmt::format("{}", m.batch),
             fmt::format("{}", m.size),
             fmt::format("{}", m.processes),
             latency,
             interval_cell(point, precision),
             runs_text(point),
             optional_digits(m.memory_mib),
             point.reason});
}

std::string points_table(const MeasureView& view, double precision, const Terminal& terminal) {
  Table table({{"SLICE"},
               {"BATCH", Align::right},
               {"SIZE", Align::right},
               {"PROCESSES", Align::right},
               {"LATENCY MS", Align::right},
               {"95 %", Align::right},
               {"RUNS", Align::right},
               {"MEMORY MIB", Align::right},
               {"WHY", Align::left, true}});
  for (const auto& point : view.points) add_row(table, point, precision);
  return table.empty() ? "" : table.render(terminal) + "\n";
}

std::string plural(std::size_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

Json point_json(const MeasuredPointView& point) {
  const Measurement& m = point.measurement;
  const auto number = [](const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); };
  return {{"mig_profile", m.mig_profile},
          {"batch", m.batch},
          {"size", m.size},
          {"processes", m.processes},
          {"out_of_memory", m.out_of_memory()},
          {"latency_ms", number(m.latency_ms)},
          {"latency_spread_ms", number(m.latency_spread_ms)},
          {"half_width", point.has_interval() ? Json(point.half_width) : Json(nullptr)},
          {"memory_mib", number(m.memory_mib)},
          {"throughput_per_s", number(m.throughput_per_s)},
          {"runs", point.runs},
          {"outliers", point.outliers},
          {"reason", point.reason}};
}

}  // namespace

// The half width is infinite as long as there is only one run.
bool MeasuredPointView::has_interval() const { return runs > 0 && std::isfinite(half_width); }

std::string measure_table(const MeasureView& view, double precision, const Terminal& terminal) {
  std::string text = points_table(view, precision, terminal);
  // The file may already hold measurements of an earlier campaign.
  const std::size_t before = view.measurements - view.points.size();
  text += fmt::format("Measured {}", plural(view.points.size(), "point"));
  if (before > 0) text += fmt::format(", in addition to {} that the file already had", before);
  text += fmt::format("; stopped because {}.\n", view.stop_reason);
  if (view.expected_error > 0) {
    text += fmt::format("Expected median error over all configurations: {:.1f} %; expected regret {:.1f} %.\n",
                        100 * view.expected_error, 100 * view.expected_regret);
  }
  for (const auto& skipped : view.skipped) {
    text += fmt::format("Skipped {}: {}.\n", plural(skipped.configurations, "configuration"), skipped.reason);
  }
  return text;
}

Json measure_json(const MeasureView& view) {
  Json points = Json::array();
  for (const auto& point : view.points) points.push_back(point_json(point));
  Json skipped = Json::array();
  for (const auto& group : view.skipped) {
    skipped.push_back({{"reason", group.reason}, {"configurations", group.configurations}});
  }
  // Zero means that no expectation was computed, so both values are null.
  const bool stated = view.expected_error > 0;
  return {{"stop", view.stop},
          {"stop_reason", view.stop_reason},
          {"measurements", view.measurements},
          {"measured_before", view.measurements - view.points.size()},
          {"expected_error", stated ? Json(view.expected_error) : Json(nullptr)},
          {"expected_regret", stated ? Json(view.expected_regret) : Json(nullptr)},
          {"elapsed_s", to_seconds(view.elapsed)},
          {"points", std::move(points)},
          {"skipped", std::move(skipped)}};
}

}  // namespace tangram::report
