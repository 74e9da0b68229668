// The page of `tangram simulate --replan`: three ways to plan a day (replan, static, oracle) on the same requests.
//
// All pictures share one time axis, so that a reader can look down from a change of the rates to the GPUs in use and to
// the windows in which requests were late.

#include <fmt/format.h>

#include <algorithm>

#include "report/number_text.h"
#include "report/page.h"
#include "report/page_style.h"
#include "report/plot.h"
#include "report/replan_view.h"

namespace tangram::report {
namespace {

using plot::escape;
using plot::Picture;
using plot::Scale;

constexpr double kReplanWidth = 1130;
constexpr double kReplanLeft = 54;

// The i-th name has the i-th series colour, as in the pictures, so names and colours cannot get out of step.
std::string legend(const std::vector<std::string>& names) {
  std::string out = "<div class=\"legend\">";
  for (std::size_t i = 0; i < names.size(); ++i) {
    out += fmt::format("<span><i class=\"dot\" style=\"background:var(--{})\"></i>{}</span>", page::series_colour(i),
                       plot::escape(names[i]));
  }
  return out + "</div>\n";
}

// The axis that all pictures of the page share.
plot::Scale time_scale(const lab::ReplanComparison& comparison) {
  return {0, comparison.duration_s, kReplanLeft, kReplanWidth - 4};
}

// The number of devices in use, as steps.
std::string devices_picture(const lab::ReplanComparison& comparison) {
  double most = 1;
  for (const auto& run : comparison.runs) most = std::max(most, static_cast<double>(run.devices_max));
  const plot::Scale x = time_scale(comparison);
  const plot::Scale y{0, most * 1.08, 200, 22};
  plot::Picture picture(kReplanWidth, 226, "GPUs in use over time");
  picture.text(0, 11, "GPUs in use");
  picture.y_axis(y, x.from, x.to, 5);
  for (std::size_t r = 0; r < comparison.runs.size(); ++r) {
    std::vector<std::pair<double, double>> points;
    double level = 0;
    for (const auto& use : comparison.runs[r].result.fleet_use) {
      // Changes after the end of the arrivals are drawn at the end.
      const double at = x(std::min(comparison.duration_s, to_seconds(use.at)));
      // Two points at each change make a vertical edge; one would draw a slope, which reads as a gradual change.
      if (!points.empty()) points.emplace_back(at, y(level));
      level = static_cast<double>(use.devices);
      points.emplace_back(at, y(level));
    }
    // The last level holds until the end.
    points.emplace_back(x.to, y(level));
    picture.polyline(points, page::series_colour(r));
  }
  picture.time_axis(x, 200, 10);
  return picture.take();
}

// The compute slices that carry services, as steps, and under them a tick for each plan that cut devices anew.
std::string cuts_picture(const lab::ReplanComparison& comparison) {
  constexpr double kTickRow = 16;
  double most = 1;
  for (const auto& run : comparison.runs) {
    for (const auto& use : run.result.fleet_use) most = std::max(most, static_cast<double>(use.compute_slices));
  }
  plot::Scale x = time_scale(comparison);
  const plot::Scale y{0, most * 1.08, 160, 22};
  const double rows = static_cast<double>(comparison.runs.size()) * kTickRow;
  plot::Picture picture(kReplanWidth, 196 + rows, "compute slices with services, and re-cuts, over time");
  picture.text(0, 11, "compute slices with services");
  picture.y_axis(y, x.from, x.to, 4);
  for (std::size_t r = 0; r < comparison.runs.size(); ++r) {
    const auto& run = comparison.runs[r];
    const std::string colour = page::series_colour(r);
    std::vector<std::pair<double, double>> points;
    for (const auto& use : run.result.fleet_use) {
      const double at = x(std::min(comparison.duration_s, to_seconds(use.at)));
      if (!points.empty()) points.emplace_back(at, points.back().second);
      points.emplace_back(at, y(use.compute_slices));
    }
    if (!points.empty()) points.emplace_back(x.to, points.back().second);
    picture.polyline(points, colour);
    const double top = 166 + static_cast<double>(r) * kTickRow;
    picture.text(x.from - 6, top + 11, run.name, plot::Picture::Anchor::end);
    for (const auto& step : run.steps) {
      if (step.devices_recut == 0) continue;
      std::string why;
      for (const auto& reason : step.reasons) why += (why.empty() ? "" : "; ") + reason;
      const double at_s = std::min(comparison.duration_s, to_seconds(step.at));
      picture.rect(
          {x(at_s) - 1.5, top + 1, 3, kTickRow - 4}, colour,
          fmt::format("{}: {} GPUs cut anew, {} replicas loaded: {}", plot::time_label(at_s, comparison.duration_s),
                      step.devices_recut, step.replicas_loaded, why),
          0.9, 1);
    }
  }
  picture.time_axis(x, 170 + rows, 10);
  return picture.take();
}

// Rates are those of the arrivals, the same for all runs, so each service has one line.
std::string rates_picture(const lab::ReplanComparison& comparison) {
  double most = 1e-9;
  for (const auto& rates : comparison.rates_per_s) {
    for (const double rate : rates) most = std::max(most, rate);
  }
  const plot::Scale x = time_scale(comparison);
  const plot::Scale y{0, most * 1.08, 160, 22};
  plot::Picture picture(kReplanWidth, 186, "requests a second over time");
  picture.text(0, 11, "requests/s that came");
  picture.y_axis(y, x.from, x.to, 4);
  for (std::size_t s = 0; s < comparison.rates_per_s.size(); ++s) {
    const auto& rates = comparison.rates_per_s[s];
    std::vector<std::pair<double, double>> points;
    for (std::size_t i = 0; i < rates.size(); ++i) {
      // A rate is the mean of its window, so it is drawn in the middle.
      const double at = (static_cast<double>(i) + 0.5) / static_cast<double>(rates.size()) * comparison.duration_s;
      points.emplace_back(x(at), y(rates[i]));
    }
    picture.polyline(points, page::series_colour(s));
  }
  picture.time_axis(x, 160, 10);
  return picture.take();
}

// One strip for each run and service, coloured by the share in time of each window.
std::string attainment_picture(const lab::Scenario& scenario, const lab::ReplanComparison& comparison) {
  constexpr double kStrip = 15;
  const std::size_t services = scenario.workload.services.size();
  const double height = static_cast<double>(comparison.runs.size() * (services + 1)) * kStrip;
  plot::Scale x = time_scale(comparison);
  // Names of services are to the left of the strips, so the axis begins further right than in the other pictures.
  x.from = 190;
  plot::Picture picture(kReplanWidth, height + 26, "share of requests in time, by window");
  double top = 0;
  for (std::size_t r = 0; r < comparison.runs.size(); ++r) {
    const auto& metrics = comparison.runs[r].result.metrics;
    const double step_s = to_seconds(metrics.timeline_step);
    picture.text(0, top + 11, comparison.runs[r].name, plot::Picture::Anchor::start, "ink");
    for (std::size_t s = 0; s < services; ++s, top += kStrip) {
      picture.text(x.from - 8, top + 11, scenario.workload.services[s].name, plot::Picture::Anchor::end);
      for (std::size_t i = 0; i < metrics.timeline[s].size(); ++i) {
        const auto& window = metrics.timeline[s][i];
        // An empty window was neither good nor bad.
        if (window.arrived == 0) continue;
        const double share = static_cast<double>(window.served) / window.arrived;
        const double left = x(static_cast<double>(i) * step_s);
        const double right = x(std::min(comparison.duration_s, static_cast<double>(i + 1) * step_s));
        const bool kept = 100 * share >= scenario.workload.services[s].slo.percentile;
        const auto tip = fmt::format("{}: {} arrived, {} in time, {} late, {} rejected",
                                     plot::time_label(static_cast<double>(i) * step_s, comparison.duration_s),
                                     window.arrived, window.served, window.late, window.lost);
        picture.rect({left, top + 2, right - left + 0.15, kStrip - 4},
                     kept           ? "good"
                     : share >= 0.9 ? "warn"
                                    : "bad",
                     tip, kept ? 0.6 : 0.95);
      }
    }
    top += kStrip;
  }
  picture.time_axis(x, height, 10);
  return picture.take();
}

std::string runs_table(const lab::ReplanComparison& comparison) {
  std::string out = "<div class=\"scroll\"><table><tr><th>plan";
  const auto types = gpu_types(comparison);
  // In the unit of the fleet file's price_per_hour.
  const bool priced = std::ranges::any_of(comparison.runs, [](const auto& run) { return run.cost > 0; });
  for (const auto& type : types) out += types.size() == 1 ? "<th>GPU-hours" : "<th>hours of " + plot::escape(type);
  out +=
      std::string(priced ? "<th>cost" : "") +
      "<th>compute-slice-hours<th>GPUs at most<th>in time<th>late<th>refused<th>lost<th>plans<th>re-cuts<th>replicas "
      "loaded</tr>\n";
  for (const auto& run : comparison.runs) {
    const auto total = run.result.metrics.total();
    // Refused in this table is every request without an answer: rejected or failed.
    out += "<tr><td>" + run.name;
    for (const auto& type : types) out += "<td>" + gpu_hours_text(run, type);
    if (priced) out += fmt::format("<td>{:.2f}", run.cost);
    out +=
        fmt::format("<td>{:.1f}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}</tr>\n", run.slice_hours,
                    run.devices_max, percent_text(run.attainment()), total.late, total.failed + total.rejected_total(),
                    run.unresolved, run.steps.size(), run.result.reshapes, run.replicas_loaded);
  }
  return out + "</table></div>\n";
}

// Every change of plan with the controller's reasons, so that a reader can check each decision against the rates above.
std::string steps_table(const lab::ReplanRun& run, double duration_s) {
  std::string out =
      "<div class=\"scroll\"><table><tr><th>at<th>GPUs<th>compute slices<th>re-cut<th>loaded<th "
      "class=\"text\">why</tr>\n";
  for (const auto& step : run.steps) {
    std::string reasons;
    for (const auto& reason : step.reasons) reasons += (reasons.empty() ? "" : "; ") + reason;
    out += fmt::format("<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td class=\"text\">{}</tr>\n",
                       plot::time_label(to_seconds(step.at), duration_s), step.devices, step.compute_slices,
                       step.devices_recut, step.replicas_loaded, plot::escape(reasons));
  }
  return out + "</table></div>\n";
}

}  // namespace

std::string replan_html(const ReportHead& head, const lab::Scenario& scenario,
                        const lab::ReplanComparison& comparison) {
  std::vector<std::string> runs;
  std::vector<std::string> services;
  for (const auto& run : comparison.runs) runs.push_back(run.name);
  for (const auto& service : scenario.workload.services) services.push_back(service.name);
  std::string out = page::opening({.title = scenario.name, .program = head.program, .style = kReplanStyle});
  out += fmt::format(
      "<h1>{}</h1>\n<p>Plans that follow the traffic (replan), one plan for the peak (static) and plans made with "
      "knowledge of the future rates (oracle), on the same requests; seed {}.</p>\n",
      plot::escape(scenario.name), head.seed);
  out += runs_table(comparison);
  out += "<h2>GPUs in use</h2>\n<figure>" + devices_picture(comparison) + legend(runs) + "</figure>\n";
  out += "<h2>Cuts over time</h2>\n<p>A tick is a plan that cut GPUs anew; its tooltip says why.</p>\n<figure>" +
         cuts_picture(comparison) + legend(runs) + "</figure>\n";
  out += "<h2>Requests a second</h2>\n<figure>" + rates_picture(comparison) + legend(services) + "</figure>\n";
  out += "<h2>In time, by window</h2>\n<p>Green: the promise was kept in that window.</p>\n<figure>" +
         attainment_picture(scenario, comparison) + "</figure>\n";
  for (const auto& run : comparison.runs) {
    out += fmt::format("<h2>Plans of {}</h2>\n", run.name) + steps_table(run, comparison.duration_s);
  }
  out += fmt::format("<details><summary>Configuration</summary><pre>{}</pre></details>\n",
                     plot::escape(head.configuration));
  out +=
      fmt::format("<footer>{}{}; digest {:016x}.</footer>\n</main>\n", plot::escape(head.program),
                  head.commit.empty() ? "" : ", commit " + plot::escape(head.commit), comparison.runs[0].result.digest);
  return out + "</body>\n</html>\n";
}

}  // namespace tangram::report
