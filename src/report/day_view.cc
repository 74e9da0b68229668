// A simulated day in the terminal: load and share in time of each service as sparklines, and the use of each slice.
//
// Text is one column per character, so a day is compressed to at most 48 columns of half an hour, and an eighth of a
// block is the finest bar. Widths are display widths, because names may contain characters of two columns.

#include "report/day_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.h"
#include "report/number_text.h"
#include "report/text_width.h"
#include "report/tile.h"

namespace tangram::report {
namespace {

constexpr int kColumnsMax = 48;      // Half an hour each, of a day.
constexpr int kDevicesMax = 12;      // More rows than that are no picture any more.
constexpr double kWorstShown = 0.9;  // The share in time at which the line touches the ground.

std::string repeat(std::string_view text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

struct DayColumn {
  double arrived = 0;
  double served = 0;
};

// The time line in `count` columns. Steps are summed, not sampled, so that no peak or loss disappears.
std::vector<DayColumn> columns_of(const std::vector<sim::TimelineStep>& steps, int count) {
  std::vector<DayColumn> columns(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < steps.size(); ++i) {
    // Integer arithmetic spreads the steps evenly when the numbers do not divide.
    DayColumn& column = columns[i * columns.size() / steps.size()];
    column.arrived += steps[i].arrived;
    column.served += steps[i].served;
  }
  return columns;
}

// The share in time of each column, in the colour for bad where it is below the Slo. The scale begins at kWorstShown,
// because on a scale from zero 99 % and 97 % would look the same.
std::string attainment_line(const std::vector<DayColumn>& columns, const Slo& slo, const Terminal& terminal) {
  std::string line;
  for (const auto& column : columns) {
    // A column without arrivals broke nothing.
    const double share = column.arrived > 0 ? column.served / column.arrived : 1;
    const double level = std::max(0.0, 1 - (1 - share) / (1 - kWorstShown));
    line += paint(terminal, 100 * share >= slo.percentile ? Style::good : Style::bad, sparkline({&level, 1}));
  }
  return line;
}

// "00:00        06:00       12:00": a label is left out if it would touch the one before it.
std::string hours_line(double span_s, int width) {
  std::string line;
  for (int quarter = 0; quarter <= 4; ++quarter) {
    const double at_s = span_s * quarter / 4;
    const auto minutes = static_cast<int>(std::lround(at_s / 60));
    const std::string label =
        span_s >= 7200 ? fmt::format("{:02}:{:02}", minutes / 60, minutes % 60) : fmt::format("{:.0f} s", at_s);
    // The first label begins at its mark, the last ends there, and the others are centred on it.
    const int place = width * quarter / 4 - (quarter == 4 ? display_width(label) : quarter == 0 ? 0 : 2);
    if (place < display_width(line) + (quarter == 0 ? 0 : 1)) continue;
    line = pad_right(line, place) + label;
  }
  return line;
}

// Unicode has blocks in eighths, so a bar of n columns has 8n steps.
std::string bar(double share, int width) {
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * width * 8));
  return pad_right(repeat("█", eighths / 8) + kEighths[eighths % 8], width);
}

// What a slice shows: its name and services above, a bar and a number below.
struct SliceText {
  std::string above;
  double busy = 0;
  bool serves = false;
};

// Finds the places of one slice in the run and averages over the processes that share it.
SliceText slice_text(const RunView& view, std::size_t device, const Slice& slice, const MigProfile& profile) {
  SliceText result{profile.name + " ", 0, false};
  int processes = 0;
  for (const auto& place : view.slices) {
    if (place.compute_slices == 0 || place.device_id.index() != device || !(place.place == slice)) continue;
    if (processes++ == 0) result.above += text::join(place.services, ", ");
    result.busy += place.busy_share;
  }
  result.serves = processes > 0;
  result.busy /= std::max(1, processes);
  if (!result.serves) result.above += "free";
  return result;
}

}  // namespace

std::string sparkline(std::span<const double> values) {
  static constexpr const char* kLevels[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string line;
  for (const double value : values) {
    line += std::isnan(value) ? " " : kLevels[static_cast<int>(std::lround(std::clamp(value, 0.0, 1.0) * 7))];
  }
  return line;
}

std::string draw_day(const RunView& view, const lab::Run& run, const Terminal& terminal, int indent) {
  int name_width = 0;
  for (const auto& service : view.services) name_width = std::max(name_width, display_width(service.name));
  // 27 columns are for the text to the right: the peak rate or the share in time with the Slo.
  const int width = std::clamp(terminal.width - indent - name_width - 27, 12, kColumnsMax);
  const sim::Metrics& metrics = run.result.metrics;
  const std::string begin(static_cast<std::size_t>(indent), ' ');
  // All services have the same number of steps.
  const double span_s = to_seconds(metrics.timeline_step) * static_cast<double>(metrics.timeline[0].size());
  std::string out;
  for (std::size_t s = 0; s < view.services.size(); ++s) {
    const auto& service = view.services[s];
    const auto columns = columns_of(metrics.timeline[s], width);
    double most = 0;
    for (const auto& column : columns) most = std::max(most, column.arrived);
    std::vector<double> load;
    for (const auto& column : columns) load.push_back(most > 0 ? column.arrived / most : 0);
    // The rate of the fullest column, which is lower than a short peak within it.
    const double peak_per_s = most / (span_s / width);
    out += fmt::format("{}{}  {}  {:.{}f}/s at the peak\n", begin,
                       paint(terminal, Style::accent, pad_right(service.name, name_width)), sparkline(load), peak_per_s,
                       peak_per_s < 10 ? 1 : 0);
    out += fmt::format("{}{}  {}  {} ({})\n", begin, std::string(static_cast<std::size_t>(name_width), ' '),
                       attainment_line(columns, *service.slo, terminal),
                       paint(terminal,
                             !service.counted() ? Style::plain
                             : service.kept()   ? Style::good
                                                : Style::bad,
                             in_time_text(service)),
                       slo_text(*service.slo));
  }
  const std::string under(static_cast<std::size_t>(name_width) + 2, ' ');
  return out + begin + under + paint(terminal, Style::dim, pad_right(hours_line(span_s, width), width)) + "  " +
         paint(terminal, Style::dim, "load, and in time below") + "\n";
}

std::string draw_utilisation(const lab::Scenario& scenario, const RunView& view, const Terminal& terminal, int indent) {
  const auto& devices = scenario.deployment.devices;
  int name_width = 0;
  for (const auto& device : devices) name_width = std::max(name_width, display_width(device.name));
  const std::string begin(static_cast<std::size_t>(indent), ' ');
  std::string out;
  for (std::size_t d = 0; d < devices.size() && d < kDevicesMax; ++d) {
    const Geometry& geometry = devices[d].geometry;
    const int room = std::min(terminal.width, 108) - indent - name_width - 2;
    // A unit has at least 6 columns: "100 %" and a border.
    const int unit = std::max(6, room / geometry.units);
    std::string above;
    std::string below;
    for (const auto& tile : tiles_of(geometry, devices[d].layout)) {
      // One column of each tile is its left border.
      const int width = tile.units * unit - 1;
      above += "│";
      below += "│";
      if (tile.profile == nullptr) {
        above += paint(terminal, Style::dim, repeat("░", width));
        below += paint(terminal, Style::dim, repeat("░", width));
        continue;
      }
      // A tile points into the geometry, so the index of its profile is the distance from the first.
      const auto profile = static_cast<std::uint16_t>(tile.profile - geometry.profiles.data());
      const SliceText slice = slice_text(view, d, {profile, static_cast<std::uint16_t>(tile.start)}, *tile.profile);
      above += pad_right(cut_to_width(slice.above, width), width);
      const std::string number = fmt::format("{:3.0f} %", 100 * slice.busy);
      const int bar_width = std::max(0, width - display_width(number) - 1);
      below += !slice.serves ? std::string(static_cast<std::size_t>(width), ' ')
                             : paint(terminal, Style::good, bar(slice.busy, bar_width)) + " " +
                                   pad_right(number, width - bar_width - 1);
    }
    out += begin + paint(terminal, Style::accent, pad_right(devices[d].name, name_width)) + " " + above + "│\n";
    out += begin + std::string(static_cast<std::size_t>(name_width) + 1, ' ') + below + "│\n";
  }
  if (devices.size() > kDevicesMax)
    out += fmt::format("{}... and {} more devices\n", begin, devices.size() - kDevicesMax);
  return out;
}

}  // namespace tangram::report
