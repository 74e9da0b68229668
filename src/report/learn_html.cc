// The page of `tangram learn`: for each model a picture of measured against predicted run times, and its errors by
// group.

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

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
  const plot::Scale across{low / 1.2, high * 1.2, 58, 450, true};
  const plot::Scale up{low / 1.2, high * 1.2, 380, 22, true};
  plot::Picture picture(460, 430, "measured against predicted latency");
  picture.text(0, 11, "predicted, ms");
  picture.text(254, 424, "measured, ms", plot::Picture::Anchor::middle);
  picture.y_axis(up, 58, 450, 5);
  picture.x_axis(across, 380, 4);
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

// Latency upwards against batch to the right, a line for each MigProfile: dots are measurements, the line is what the
// model predicts of them without having seen them. Of the size and the number of processes that were measured most.
std::string curves_of(const LearnReport& report) {
  using Kind = std::pair<std::int64_t, std::int64_t>;
  std::map<Kind, std::size_t> kinds;
  for (const auto& run : report.unseen) ++kinds[{run.candidate.size, run.candidate.processes}];
  const Kind shown = std::ranges::max_element(kinds, {}, [](const auto& kind) { return kind.second; })->first;
  std::map<std::string, std::vector<const UnseenRun*>> slices;
  double low = std::numeric_limits<double>::max();
  double high = 0;
  double batch_max = 2;
  for (const auto& run : report.unseen) {
    if (Kind{run.candidate.size, run.candidate.processes} != shown) continue;
    slices[run.candidate.mig_profile].push_back(&run);
    low = std::min({low, run.measured_ms, run.predicted_ms});
    high = std::max({high, run.measured_ms, run.predicted_ms});
    batch_max = std::max(batch_max, static_cast<double>(run.candidate.batch));
  }
  const plot::Scale across{0.9, batch_max * 1.15, 58, 450, true};
  const plot::Scale up{low / 1.2, high * 1.2, 380, 22, true};
  plot::Picture picture(460, 430, "latency against batch, by slice");
  picture.text(0, 11, "latency of a batch, ms");
  picture.text(254, 424, "requests in a batch", plot::Picture::Anchor::middle);
  picture.y_axis(up, 58, 450, 5);
  picture.x_axis(across, 380, 5);
  std::string legend;
  std::size_t number = 0;
  for (auto& [profile, runs] : slices) {
    const std::string colour = page::series_colour(number++);
    std::ranges::sort(runs, {}, [](const UnseenRun* run) { return run->candidate.batch; });
    std::vector<std::pair<double, double>> line;
    for (const auto* run : runs) {
      const double x = across(static_cast<double>(run->candidate.batch));
      line.emplace_back(x, up(run->predicted_ms));
      picture.rect({x - 3, up(run->measured_ms) - 3, 6, 6}, colour,
                   fmt::format("{} batch {}: measured {:.3g} ms, predicted {:.3g} ms", profile, run->candidate.batch,
                               run->measured_ms, run->predicted_ms),
                   0.9, 3);
    }
    picture.polyline(line, colour);
    legend +=
        fmt::format("<span><i class=\"dot\" style=\"background:var(--{})\"></i>{}</span>", colour, escape(profile));
  }
  std::string caption = "Dots: measured; lines: predicted without the run.";
  if (shown.first != 1 || shown.second != 1 || kinds.size() > 1) {
    caption += fmt::format(" Size {}, {} process{}.", shown.first, shown.second, shown.second == 1 ? "" : "es");
  }
  return picture.take() + "<div class=\"legend\">" + legend + "</div><figcaption>" + caption + "</figcaption>";
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
      "stated {:.0f} %.</p><div><figure>{}</figure><figure>{}</figure></div><div class=\"tables\">",
      100 * report.median_error, 100 * report.p90_error, 100 * report.coverage, 100 * report.coverage_stated,
      curves_of(report), picture_of(report));
  out += table_of("slice", report.by_slice) + table_of("batch", report.by_batch);
  // Most models have one size and one number of processes; a table with one row would repeat the summary.
  if (report.by_size.size() > 1) out += table_of("size", report.by_size);
  if (report.by_processes.size() > 1) out += table_of("processes", report.by_processes);
  return out + "</div></section>\n";
}

}  // namespace

std::string learn_html(const std::vector<LearnReport>& reports) {
  std::string out = page::opening({.title = "Latency models", .program = "", .style = kLearnStyle});
  out +=
      "<h1>Latency models</h1><p>Left: latency against batch on each slice. Right: each run was predicted from all "
      "others of its model; a point on the line is a perfect prediction, the bar is the interval.</p>\n";
  for (const auto& report : reports) out += section_of(report);
  return out + page::closing();
}

}  // namespace tangram::report
