// The result of measuring, for people and for programs.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/time.h"
#include "core/measurement.h"
#include "report/style.h"
#include "report/yaml.h"

namespace tangram::report {

// One measured point: the measurement and how well its runs agree.
struct MeasuredPointView {
  Measurement measurement;
  std::size_t runs = 0;  // 0: it ran out of memory.
  std::size_t outliers = 0;
  double half_width = 0;  // Of the 95 % interval of the mean, as a share of the mean; infinite for a single run.
  std::string reason;     // Why the sampler chose the point.

  bool has_interval() const;
};

// Candidates that were not measured, grouped by the reason.
struct SkippedView {
  std::string reason;
  std::size_t configurations = 0;
};

struct MeasureView {
  std::vector<MeasuredPointView> points;  // Of this session, in order.
  std::vector<SkippedView> skipped;
  std::size_t measurements = 0;  // Of the target: those before this session and those of it.
  std::string stop;              // The name of what ended the session, for programs.
  std::string stop_reason;       // The same for people.
  double expected_error = 0;     // As the sampler last stated them; 0 where it computes none.
  double expected_regret = 0;
  Duration elapsed{};
};

// Points with their intervals, the skipped configurations, and the reason why it ended. An interval wider than
// `precision` stands out.
std::string measure_table(const MeasureView& view, double precision, const Terminal& terminal);
Json measure_json(const MeasureView& view);

}  // namespace tangram::report
