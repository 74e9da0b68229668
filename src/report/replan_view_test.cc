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
    run.gpu_hours["a100-80gb"] = hours;
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

// Of 100,000 requests 98,960 are in time, where 99 % are promised: no rounding hides that, and no saving is shown.
TEST(ReplanTable, ShowsNoSavingWhereAPromiseIsBroken) {
  lab::Scenario scenario;
  scenario.workload.services.emplace_back().name = "rank";
  scenario.workload.services[0].slo.percentile = 99;
  auto comparison = one_hour();
  for (auto& run : comparison.runs) {
    sim::Tally tally;
    tally.arrived = 100'000;
    tally.served = run.name == "replan" ? 98'960 : 99'500;
    tally.late = tally.arrived - tally.served;
    run.result.metrics.services.push_back({tally});
  }
  EXPECT_FALSE(keeps_all(scenario, comparison.runs[0]));
  EXPECT_TRUE(keeps_all(scenario, comparison.runs[1]));
  const std::string table = replan_table(scenario, comparison, {});
  EXPECT_NE(table.find("98.96 % BROKEN"), std::string::npos) << table;
  EXPECT_EQ(table.find("25.0 %"), std::string::npos) << table;
  EXPECT_NE(table.find("37.5 %"), std::string::npos) << table;
  const Json json = replan_json(scenario, comparison);
  EXPECT_TRUE(json["runs"][0]["gpu_hours_saved_share"].is_null());
  EXPECT_EQ(json["runs"][0]["kept"], false);
}

// 6 h of A100s and 1 h of H100s are not 7 h of anything: each type has a column, and without prices nothing is saved.
// With prices of 2 and 4 an hour, 6 * 2 + 1 * 4 = 16 of 8 * 2 + 2 * 4 = 24 is a saving of a third.
TEST(ReplanTable, DoesNotAddUpHoursOfDifferentTypes) {
  auto comparison = one_hour();
  comparison.runs[0].gpu_hours["h100-80gb"] = 1;
  comparison.runs[1].gpu_hours["h100-80gb"] = 2;
  std::string table = replan_table({}, comparison, {});
  EXPECT_NE(table.find("HOURS OF a100-80gb  HOURS OF h100-80gb"), std::string::npos) << table;
  EXPECT_EQ(table.find("25.0 %"), std::string::npos) << table;
  EXPECT_NE(table.find("not added up"), std::string::npos) << table;
  Json json = replan_json({}, comparison);
  EXPECT_TRUE(json["runs"][0]["gpu_hours"].is_null());
  // The oracle used one type only, but is compared with runs that did not.
  EXPECT_TRUE(json["runs"][2]["gpu_hours"].is_null());
  EXPECT_EQ(json["runs"][0]["gpu_hours_by_type"]["h100-80gb"], 1.0);
  EXPECT_TRUE(json["runs"][0]["gpu_hours_saved_share"].is_null());
  comparison.objective = plan::Objective::price;
  comparison.runs[0].cost = 16;
  comparison.runs[1].cost = 24;
  table = replan_table({}, comparison, {});
  EXPECT_NE(table.find("33.3 %"), std::string::npos) << table;
  EXPECT_EQ(table.find("not added up"), std::string::npos) << table;
  const std::string html = replan_html({"tangram", "", "{}", 1}, {}, comparison);
  EXPECT_NE(html.find("<th>hours of h100-80gb"), std::string::npos);
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
