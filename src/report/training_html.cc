// The part of the run report about training beside inference: who has the GPUs over time, and how the jobs fared.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lab/training_fleet.h"
#include "report/number_text.h"
#include "report/ownership_picture.h"
#include "report/plot.h"
#include "report/run_view.h"

namespace tangram::report {
namespace {

constexpr double kJobsWidth = 900;
constexpr double kJobsHeight = 200;
constexpr double kJobsLeft = 50;
constexpr double kJobsBottom = 165;
constexpr double kJobsTop = 16;

// The cumulative share of jobs by completion time, as steps. Requires at least one job.
std::string completion_picture(std::vector<double> jcts_s) {
  std::ranges::sort(jcts_s);
  plot::Picture picture(kJobsWidth, kJobsHeight, "share of jobs by time from submission to completion");
  const plot::Scale across{0, std::max(jcts_s.back(), 1.0), kJobsLeft, kJobsWidth - 10, false};
  const plot::Scale upwards{0, 100, kJobsBottom, kJobsTop, false};
  picture.y_axis(upwards, kJobsLeft, kJobsWidth - 10, 4, "%");
  picture.time_axis(across, kJobsBottom, 8);
  std::vector<std::pair<double, double>> line{{across(0), upwards(0)}};
  for (std::size_t i = 0; i < jcts_s.size(); ++i) {
    // Two points for each job make a vertical step: the distribution of a sample is not a slope.
    line.emplace_back(across(jcts_s[i]), line.back().second);
    line.emplace_back(across(jcts_s[i]),
                      upwards(100 * static_cast<double>(i + 1) / static_cast<double>(jcts_s.size())));
  }
  picture.polyline(line, "training");
  return picture.take();
}

std::string card(const std::string& value, const std::string& what) {
  return fmt::format("<div class=\"card\"><b>{}</b><span>{}</span></div>\n", value, what);
}

// GPU-hours by owner; the rows add up to all hours of the cluster.
std::string hours_table(const lab::Ownership& hours) {
  // The lower limit avoids 0 / 0 in a run without any time.
  const double sum = std::max(hours.sum(), 1e-9);
  std::string out = "<div class=\"scroll\"><table><tr><th>Owner</th><th>GPU-hours</th><th>Share</th></tr>\n";
  const auto row = [&](const char* name, double value) {
    out += fmt::format("<tr><td>{}</td><td>{:.1f}</td><td>{}</td></tr>\n", name, value, percent_text(value / sum));
  };
  row("training", hours.training);
  row("running requests", hours.running);
  row("protected for requests", hours.guarded);
  row("asleep: free to lend", hours.asleep);
  row("nobody", hours.free);
  return out + "</table></div>\n";
}

}  // namespace

std::string training_html(const lab::TrainingResult& training) {
  std::string out =
      "<h2>Who has the GPUs</h2>\n<p class=\"why\">Training runs on what the services do not need for now; what they "
      "need again is recalled. A slice is protected while its service may need it at once.</p>\n<div class=\"wide\">";
  out += ownership_picture(training.timeline, training.gpus) + ownership_key() + "</div>\n";
  out += "<h2>Training</h2>\n<div class=\"cards\">";
  out += card(fmt::format("{} of {}", training.jcts_s.size(), training.jobs), "jobs ended");
  // Without a finished job there is no completion time, and 0 s would read as very fast.
  const bool any = !training.jcts_s.empty();
  // If some jobs did not end, the means are over the others only, and the captions say so.
  const std::string ended = training.unfinished.empty() ? "" : ", " + lab::ended_text(training);
  out += card(any ? span_text(training.jct_mean_s) : "-", "mean time to complete" + ended);
  out += card(any ? span_text(training.jct_p99_s) : "-", "p99" + ended);
  out += card(fmt::format("{:.1f}", training.restarts_per_job), "restarts per job");
  out += card(std::to_string(training.leases), "leases of slices");
  out += card(span_text(training.lease_mean_s), "mean length of a lease");
  out += card(std::to_string(training.reclaims), "reclaims per job");
  out += "</div>\n<p></p>\n";
  if (!training.unfinished.empty()) {
    out += fmt::format("<p class=\"why\">Did not end: {}.</p>\n", plot::escape(lab::unfinished_text(training)));
  }
  if (!training.jcts_s.empty()) {
    out += "<div class=\"wide\"><figcaption>Share of jobs that had ended, by time since submission</figcaption>" +
           completion_picture(training.jcts_s) + "</div>\n<p></p>\n";
  }
  return out + hours_table(training.gpu_hours);
}

}  // namespace tangram::report
