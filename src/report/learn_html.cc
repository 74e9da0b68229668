// The page of `tangram learn`: for each model a picture of measured against predicted run times, and its errors by
// group.

#include <fmt/format.h>

#include <algorithm>

#include "report/learn_report.h"
#include "report/page.h"
#include "report/page_style.h"
#include "report/plot.h"

namespace tangram::report {
namespace {

using plot::escape;

// Measured latency to the right, predicted latency upwards, both logarithmic, so that equal distances from the diagonal
// are equal relative errors. Bars are intervals, in the colour for bad where they miss the measurement.
std::string picture_of(const LearnReport& report) {
  double low = report.unseen.front().measured_ms;
  double high = low;
  for (const auto& run : report.unseen) {
    low = std::min({low, run.measured_ms, run.predicted_ms});
    high = std::max({high, run.measured_ms, run.predicted_ms});
  }
  // Both axes have the same range, so the diagonal is where prediction and measurement agree.
  const plot::Scale across{low / 1.2, high * 1.2, 50, 450, true};
  const plot::Scale up{low / 1.2, high * 1.2, 400, 10, true};
  plot::Picture picture(460, 430, "measured against predicted latency");
  picture.y_axis(up, 50, 450, 5, "ms");
  picture.x_axis(across, 400, 5, "ms");
  picture.line(across(across.low), up(up.low), across(across.high), up(up.high), "axis", true);
  for (const auto& run : report.unseen) {
    const double x = across(run.measured_ms);
    const auto colour = run.covered() ? "s0" : "bad";
    // A wide interval must not stretch the axes, so it is cut at their ends.
    const auto clip = [&](double ms) { return up(std::clamp(ms, up.low, up.high)); };
    picture.line(x, clip(run.low_ms), x, clip(run.high_ms), colour);
    const auto tip = fmt::format("{} batch {} size {} processes {}: measured {:.3g} ms, predicted {:.3g} ms",
                                 run.candidate.mig_profile, run.candidate.batch, run.candidate.size,
                                 run.candidate.processes, run.measured_ms, run.predicted_ms);
    picture.rect({x - 2.5, up(run.predicted_ms) - 2.5, 5, 5}, colour, tip, 0.9, 2.5);
  }
  return picture.take();
}

// The bias has a sign: it is positive where the model predicts runs that are too long.
std::string table_of(std::string_view title, const std::vector<ErrorGroup>& groups) {
  std::string out = fmt::format("<table><tr><th>{}<th>runs<th>median<th>p90<th>bias</tr>\n", title);
  for (const auto& group : groups) {
    out += fmt::format("<tr><td>{}<td>{}<td>{:.1f} %<td>{:.1f} %<td>{:+.1f} %</tr>\n", plot::escape(group.name),
                       group.runs, 100 * group.median_error, 100 * group.p90_error, 100 * group.bias);
  }
  return out + "</table>\n";
}

std::string next_text(const LearnReport& report) {
  if (!report.next) return plot::escape(report.next_reason);
  return fmt::format("{} batch {} size {} processes {} ({})", plot::escape(report.next->mig_profile),
                     report.next->batch, report.next->size, report.next->processes, plot::escape(report.next_reason));
}

std::string section_of(const LearnReport& report) {
  std::string out =
      fmt::format("<section><h2>{} on {}</h2><p>{} measurements, {} out of memory; {}; intervals {}. Next: {}.</p>\n",
                  plot::escape(report.model), plot::escape(report.device), report.measurements, report.out_of_memory,
                  report.members, calibration_text(report.calibration), next_text(report));
  if (report.unseen.empty()) return out + "<p>One run cannot be compared with others.</p></section>\n";
  out += fmt::format(
      "<p>Left out one at a time: median error {:.1f} %, p90 {:.1f} %; {:.1f} % within the interval, "
      "stated {:.0f} %.</p><div><figure>{}</figure><div>",
      100 * report.median_error, 100 * report.p90_error, 100 * report.coverage, 100 * report.coverage_stated,
      picture_of(report));
  out += table_of("slice", report.by_slice) + table_of("batch", report.by_batch);
  // Most models have one size and one number of processes; a table with one row would repeat the summary.
  if (report.by_size.size() > 1) out += table_of("size", report.by_size);
  if (report.by_processes.size() > 1) out += table_of("processes", report.by_processes);
  return out + "</div></div></section>\n";
}

}  // namespace

std::string learn_html(const std::vector<LearnReport>& reports) {
  std::string out = page::opening({.title = "Latency models", .program = "", .style = kLearnStyle});
  out +=
      "<h1>Latency models</h1><p>Each run was predicted from all others of its model. A point on the line is a "
      "perfect prediction; the bar is the interval.</p>\n";
  for (const auto& report : reports) out += section_of(report);
  return out + page::closing();
}

}  // namespace tangram::report
