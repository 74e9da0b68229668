#include "report/measure_view.h"

#include <gtest/gtest.h>

#include <limits>

namespace tangram::report {
namespace {

// One point measured now, beside two that the file had.
MeasureView one_point() {
  MeasureView view;
  view.measurements = 3;
  view.stop_reason = "enough was measured";
  MeasuredPointView point;
  point.measurement.mig_profile = "1g.10gb";
  point.measurement.latency_ms = 12.3456;
  point.runs = 10;
  point.outliers = 1;
  point.half_width = 0.013;
  view.points.push_back(point);
  return view;
}

TEST(MeasureTable, CountsWhatTheFileHadBefore) {
  const std::string table = measure_table(one_point(), 0.02, {});
  EXPECT_NE(table.find("12.35"), std::string::npos) << table;
  EXPECT_NE(table.find("± 1.3 %"), std::string::npos) << table;
  EXPECT_NE(table.find("10 (1 left out)"), std::string::npos) << table;
  EXPECT_NE(table.find("Measured 1 point, in addition to 2 that the file already had"), std::string::npos) << table;
}

TEST(MeasureJson, HasNoIntervalForASingleRun) {
  MeasureView view = one_point();
  view.points[0].runs = 1;
  view.points[0].half_width = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(view.points[0].has_interval());
  EXPECT_TRUE(measure_json(view)["points"][0]["half_width"].is_null());
  EXPECT_EQ(measure_json(view)["measured_before"], 2);
}

}  // namespace
}  // namespace tangram::report
