// The HTML page of a comparison: a table of all runs, and for each workload a scatter plot and the ownership of GPUs.

#include "experiments/shared_cluster_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "report/colours.h"
#include "report/ownership_picture.h"
#include "report/page.h"
#include "report/plot.h"

namespace tangram::experiments {
namespace {

constexpr double kFrontierWidth = 900;
constexpr double kFrontierHeight = 240;
constexpr double kFrontierLeft = 50;
constexpr double kFrontierBottom = 205;
constexpr double kFrontierTop = 16;

constexpr std::string_view kTitle = "Training on GPUs that inference lends";
constexpr std::string_view kFrontierStyle = R"(td:nth-child(-n+3),th:nth-child(-n+3){text-align:left}
)";

// Our runs are squares and the others circles, so they can be told apart without colours, too.
bool is_ours(const SharedReportRow& row) { return row.allocator == "tangram"; }

// Completion against waiting: down and to the left is better.
std::string frontier_picture(std::span<const SharedReportRow* const> rows) {
  // Scales leave a margin around the values. Requires at least one row.
  double wait_max = 1;
  double jct_min = rows.front()->result->jct_mean_s;
  double jct_max = jct_min;
  for (const auto* row : rows) {
    wait_max = std::max(wait_max, row->result->overhead_mean_s);
    jct_min = std::min(jct_min, row->result->jct_mean_s);
    jct_max = std::max(jct_max, row->result->jct_mean_s);
  }
  report::plot::Picture picture(kFrontierWidth, kFrontierHeight, "mean completion time against mean wait of requests");
  const report::plot::Scale wait{0, wait_max * 1.1, kFrontierLeft, kFrontierWidth - 60, false};
  const report::plot::Scale jct{jct_min * 0.9, jct_max * 1.05, kFrontierBottom, kFrontierTop, false};
  picture.y_axis(jct, kFrontierLeft, kFrontierWidth - 60, 5, "s");
  picture.x_axis(wait, kFrontierBottom, 8, "s");
  for (const auto* row : rows) {
    const double x = wait(row->result->overhead_mean_s);
    const double y = jct(row->result->jct_mean_s);
    const std::string tip = fmt::format("{} {}: {:.0f} s, {:.2f} s of waiting", row->allocator, row->options,
                                        row->result->jct_mean_s, row->result->overhead_mean_s);
    picture.rect({x - 4, y - 4, 8, 8}, is_ours(*row) ? "ours" : "theirs", tip, 1, is_ours(*row) ? 0 : 4);
  }
  return picture.take();
}

std::string table_of(std::span<const SharedReportRow> rows) {
  std::string html =
      "<table><tr><th>workload<th>allocator<th>options<th>seed<th>mean JCT<th>p99 JCT<th>reduction<th>restarts a job"
      "<th>reclaims<th>leases<th>wait<th>p99 wait\n";
  for (const auto& row : rows) {
    const SharedResult& r = *row.result;
    html += fmt::format(
        "<tr><td>{}<td>{}<td>{}<td>{}<td>{:.0f} s<td>{:.0f} s<td>{:.1f} %<td>{:.1f}<td>{}<td>{}<td>{:.2f} s<td>{:.1f} "
        "s\n",
        report::plot::escape(row.workload), report::plot::escape(row.allocator), report::plot::escape(row.options),
        row.seed, r.jct_mean_s, r.jct_p99_s, 100 * row.reduction, r.restarts_per_job, r.reclaims, r.leases,
        r.overhead_mean_s, r.overhead_p99_s);
  }
  return html + "</table>\n";
}

}  // namespace

std::string shared_report_html(std::span<const SharedReportRow> rows) {
  const std::string style = std::string(report::kComparisonColours) + std::string(kFrontierStyle);
  std::string html = report::page::opening({.title = kTitle, .program = "", .style = style});
  html += fmt::format("<h1>{}</h1>\n", kTitle) + table_of(rows);
  std::map<std::string, std::vector<const SharedReportRow*>> by_workload;
  for (const auto& row : rows) {
    // A run without requests has no wait to plot.
    if (!row.result->overheads_s.empty()) by_workload[row.workload].push_back(&row);
  }
  for (const auto& [workload, mine] : by_workload) {
    html += fmt::format(
        "<h2>{}</h2><p>Mean completion time (up) against the mean wait of requests (right): squares are Tangram, "
        "circles the others.</p>\n",
        report::plot::escape(workload));
    html += frontier_picture(mine);
    html += report::ownership_key();
    // One picture for each way, of its first seed, and at most four.
    std::map<std::string, bool> shown;
    for (const auto* row : mine) {
      const bool wanted = row->allocator == "deepboot" || is_ours(*row);
      if (!wanted || std::exchange(shown[row->allocator + row->options], true) || shown.size() > 4) continue;
      html +=
          fmt::format("<h3>{}, {}</h3>\n", report::plot::escape(row->allocator), report::plot::escape(row->options));
      html += report::ownership_picture(row->result->timeline, row->gpus);
    }
  }
  return html + report::page::closing();
}

}  // namespace tangram::experiments
