#include "cli/measure_view.h"

#include <fmt/format.h>

#include <cmath>

#include "report/table.h"

namespace tangram::cli {
namespace {

// Four digits that say something, without an exponent.
std::string digits(double value) {
  const std::string text = fmt::format("{:.4g}", value);
  return text.find('e') == std::string::npos ? text : fmt::format("{:.{}f}", value, value < 1 ? 7 : 0);
}

std::string optional_digits(const std::optional<double>& value) { return value ? digits(*value) : "-"; }

// "± 1.3 %"; nothing to say of a single run, which an engine without variation needs no more than.
report::Cell interval_cell(const measure::Timing& timing, double precision) {
  if (timing.runs == 0 || !std::isfinite(timing.half_width)) return "-";
  const bool narrow = timing.half_width <= precision;
  return {fmt::format("± {:.1f} %", 100 * timing.half_width), narrow ? Style::plain : Style::bad};
}

std::string runs_text(const measure::Timing& timing) {
  if (timing.runs == 0) return "-";
  return timing.outliers == 0 ? fmt::format("{}", timing.runs)
                              : fmt::format("{} ({} left out)", timing.runs, timing.outliers);
}

void add_row(report::Table& table, const measure::MeasuredPoint& point, double precision) {
  const Measurement& m = point.measurement;
  const report::Cell latency = m.latency_ms ? report::Cell(digits(*m.latency_ms)) : report::Cell("out of memory", Style::bad);
  table.add({{m.mig_profile, Style::accent},
             fmt::format("{}", m.batch),
             fmt::format("{}", m.size),
             fmt::format("{}", m.processes),
             latency,
             interval_cell(point.timing, precision),
             runs_text(point.timing),
             optional_digits(m.memory_mib),
             point.reason});
}

std::string points_table(const measure::Report& report, double precision, const Terminal& terminal) {
  report::Table table({{"SLICE"},
               {"BATCH", report::Align::right},
               {"SIZE", report::Align::right},
               {"PROCESSES", report::Align::right},
               {"LATENCY MS", report::Align::right},
               {"95 %", report::Align::right},
               {"RUNS", report::Align::right},
               {"MEMORY MIB", report::Align::right},
               {"WHY", report::Align::left, true}});
  for (const auto& point : report.points) add_row(table, point, precision);
  return table.empty() ? "" : table.render(terminal) + "\n";
}

std::string plural(std::size_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

report::Json point_json(const measure::MeasuredPoint& point) {
  const Measurement& m = point.measurement;
  const auto number = [](const std::optional<double>& value) { return value ? report::Json(*value) : report::Json(nullptr); };
  const bool has_interval = point.timing.runs > 0 && std::isfinite(point.timing.half_width);
  return {{"mig_profile", m.mig_profile},
          {"batch", m.batch},
          {"size", m.size},
          {"processes", m.processes},
          {"out_of_memory", m.out_of_memory()},
          {"latency_ms", number(m.latency_ms)},
          {"latency_spread_ms", number(m.latency_spread_ms)},
          {"half_width", has_interval ? report::Json(point.timing.half_width) : report::Json(nullptr)},
          {"memory_mib", number(m.memory_mib)},
          {"throughput_per_s", number(m.throughput_per_s)},
          {"runs", point.timing.runs},
          {"outliers", point.timing.outliers},
          {"reason", point.reason}};
}

}  // namespace

std::string measure_table(const measure::Report& report, double precision, const Terminal& terminal) {
  std::string text = points_table(report, precision, terminal);
  const std::size_t before = report.measurements.size() - report.points.size();
  text += fmt::format("Measured {}", plural(report.points.size(), "point"));
  if (before > 0) text += fmt::format(", beside {} that the file had already", before);
  text += fmt::format("; ended because {}.\n", report.stop_reason);
  if (report.expected_error > 0) {
    text += fmt::format("Expected median error over all configurations: {:.1f} %; expected regret {:.1f} %.\n",
                        100 * report.expected_error, 100 * report.expected_regret);
  }
  for (const auto& skipped : report.skipped) {
    text += fmt::format("Skipped {}: {}.\n", plural(skipped.candidates.size(), "configuration"), skipped.reason);
  }
  return text;
}

report::Json measure_json(const measure::Report& report) {
  report::Json points = report::Json::array();
  for (const auto& point : report.points) points.push_back(point_json(point));
  report::Json skipped = report::Json::array();
  for (const auto& group : report.skipped) {
    skipped.push_back({{"reason", group.reason}, {"configurations", group.candidates.size()}});
  }
  const bool stated = report.expected_error > 0;
  return {{"stop", measure::to_string(report.stop)},
          {"stop_reason", report.stop_reason},
          {"measurements", report.measurements.size()},
          {"measured_before", report.measurements.size() - report.points.size()},
          {"expected_error", stated ? report::Json(report.expected_error) : report::Json(nullptr)},
          {"expected_regret", stated ? report::Json(report.expected_regret) : report::Json(nullptr)},
          {"elapsed_s", to_seconds(report.elapsed)},
          {"points", std::move(points)},
          {"skipped", std::move(skipped)}};
}

}  // namespace tangram::cli
