// Numbers as reports write them. A format that several reports share is defined here, so that one value reads the same
// everywhere. Where two formats differ, their names say how.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/quantile_sketch.h"
#include "base/time.h"
#include "core/workload.h"

namespace tangram::report {

// The quantiles of latency that reports show.
struct NamedQuantile {
  double share;
  const char* key;    // In JSON: "p999_ms".
  const char* title;  // In tables: "p99.9".
};
inline constexpr std::array kQuantiles{NamedQuantile{0.5, "p50", "p50"}, NamedQuantile{0.9, "p90", "p90"},
                                       NamedQuantile{0.95, "p95", "p95"}, NamedQuantile{0.99, "p99", "p99"},
                                       NamedQuantile{0.999, "p999", "p99.9"}};

// A share between 0 and 1 as "99.53 %". More digits near the whole: a share just below 1 never reads as "100 %".
std::string percent_text(double share);
// The same beside a promise of `percentile` %: with as many digits as it takes that a broken promise never reads as kept,
// e.g. "98.96 %" of 99 %, where one digit would show "99.0 %".
std::string percent_text_against(double share, double percentile);

// "12.3 ms", "12.0 s" from ten seconds on; "never" for Duration::max().
std::string latency_text(Duration latency);
// The same in milliseconds without the unit, for columns that name it: "12.3"; "never" for Duration::max().
std::string ms_text(Duration latency);
// A quantile of a sketch of nanoseconds, in milliseconds with three significant digits: "12.3"; "-" of an empty one.
std::string quantile_ms_text(const QuantileSketch& sketch, double q);

// A rate with about three significant digits, for tables: "9.87", "98.7", "987".
std::string rate_text(double per_s);
// The same with four, for a single prediction: "9.876". Never an exponent.
std::string precise_rate_text(double per_s);

// "-" for 0, so that the other counts of a table stand out.
std::string count_text(std::uint64_t count);
// A narrow space between thousands, for HTML: "12 345".
std::string thousands_text(std::uint64_t count);
// The mean length of a queue: one decimal below 100.
std::string depth_text(double depth);

// Four significant digits. Large and small numbers have an exponent: "1.234e+06".
std::string number_text(double value);
// The same without an exponent: "1234567".
std::string plain_number_text(double value);

// How long something took: "45 s", "12 min" from 4 minutes on, "3.5 h" from 2 hours on.
std::string span_text(double seconds);
// The same in words, for the head of a page: "45 seconds", "1.5 hours".
std::string long_span_text(double seconds);
// How far a deadline is away, before or after: "45 s", "12 min" from 90 seconds on, "3.5 h" from 90 minutes on.
std::string distance_text(Duration span);

// "p99 120 ms".
std::string slo_text(const Slo& slo);

}  // namespace tangram::report
