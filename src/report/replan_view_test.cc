#include "report/replan_view.h"

#include <gtest/gtest.h>

namespace tangram::report {
namespace {

// An hour on which the plan that follows the traffic needs 6 GPU-hours and the fixed one 8.
lab::ReplanComparison one_hour() {
  lab::ReplanComparison comparison;
  comparison.duration_s = 3600;
  for (const auto& [name, hours] : {std::pair{"replan", 6.0}, {"static", 8.0}, {"oracle", 5.0}}) {
    lab::ReplanRun run;
    run.name = name;
    run.gpu_hours = hours;
    run.devices_max = 8;
    run.steps.emplace_back().reasons = {"rank <answers>: rate 12 -> 14"};
    comparison.runs.push_back(std::move(run));
  }
  return comparison;
}

// 1 - 6 / 8 = 25 % of the fixed plan's GPU-hours, 1 - 5 / 8 = 37.5 %.
TEST(ReplanTable, SaysWhatIsSavedOfTheFixedPlan) {
  const std::string table = replan_table({}, one_hour(), {});
  EXPECT_NE(table.find("25.0 %"), std::string::npos) << table;
  EXPECT_NE(table.find("37.5 %"), std::string::npos) << table;
}

TEST(ReplanHtml, ShowsEveryPlanWithItsReason) {
  const ReportHead head{"tangram", "", "{}", 1};
  const std::string html = replan_html(head, {}, one_hour());
  EXPECT_NE(html.find("GPUs in use"), std::string::npos);
  EXPECT_NE(html.find("Plans of oracle"), std::string::npos);
  EXPECT_NE(html.find("rank &lt;answers&gt;: rate 12"), std::string::npos);
}

}  // namespace
}  // namespace tangram::report
