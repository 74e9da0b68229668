// Copies a measuring report into the value that `report` shows, because `report` does not depend on `measure`.

#include "cli/measure_result.h"

namespace tangram::cli {

report::MeasureView measure_view(const measure::Report& result) {
  report::MeasureView view;
  for (const auto& point : result.points) {
    view.points.push_back({.measurement = point.measurement,
                           .runs = point.timing.runs,
                           .outliers = point.timing.outliers,
                           .half_width = point.timing.half_width,
                           .reason = point.reason});
  }
  for (const auto& group : result.skipped) view.skipped.push_back({group.reason, group.candidates.size()});
  view.measurements = result.measurements.size();
  view.stop = measure::to_string(result.stop);
  view.stop_reason = result.stop_reason;
  view.expected_error = result.expected_error;
  view.expected_regret = result.expected_regret;
  view.elapsed = result.elapsed;
  return view;
}

}  // namespace tangram::cli
