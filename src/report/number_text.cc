// The formats of all numbers in reports.
//
// The rule is about three significant digits: more suggest a precision that a simulation does not have. Exceptions are
// shares near 100 %, where the third nine is the message, and single predictions.

#include "report/number_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace tangram::report {
namespace {

// About three significant digits between 0.01 and 1000.
std::string three_digits(double value) { return fmt::format("{:.{}f}", value, value < 10 ? 2 : value < 100 ? 1 : 0); }

}  // namespace

std::string percent_text(double share) {
  const double percent = 100 * share;
  if (percent == 0 || percent == 100) return fmt::format("{:.0f} %", percent);
  // A share just below 1 must not read as 100 %, so it is cut at 99.999 % instead of being rounded.
  if (percent > 99.9) return fmt::format("{:.3f} %", std::min(percent, 99.999));
  return fmt::format("{:.{}f} %", percent, percent > 99 ? 2 : 1);
}

std::string percent_text_against(double share, double percentile) {
  std::string text = percent_text(share);
  const double percent = 100 * share;
  // A double has no more digits than that; beyond it, what is left of the difference is cut off.
  for (int digits = 2; digits <= 12 && percent < percentile && std::stod(text) >= percentile; ++digits) {
    text = fmt::format("{:.{}f} %", percent, digits);
  }
  return text;
}

std::string latency_text(Duration latency) {
  if (latency == Duration::max()) return "never";
  const double ms = to_milliseconds(latency);
  if (ms >= 1e4) return fmt::format("{:.1f} s", ms * 1e-3);
  // Below a millisecond two decimals would leave one digit.
  if (ms < 1 && ms > 0) return fmt::format("{:.3f} ms", ms);
  return three_digits(ms) + " ms";
}

std::string ms_text(Duration latency) {
  return latency == Duration::max() ? "never" : three_digits(to_milliseconds(latency));
}

std::string quantile_ms_text(const QuantileSketch& sketch, double q) {
  return sketch.empty() ? "-" : fmt::format("{:.3g}", 1e-6 * static_cast<double>(sketch.quantile(q)));
}

std::string rate_text(double per_s) { return three_digits(per_s); }

std::string precise_rate_text(double per_s) {
  return fmt::format("{:.{}f}", per_s, per_s < 1 ? 4 : per_s < 10 ? 3 : per_s < 100 ? 2 : per_s < 1000 ? 1 : 0);
}

std::string count_text(std::uint64_t count) { return count == 0 ? "-" : std::to_string(count); }

std::string thousands_text(std::uint64_t count) {
  std::string digits = std::to_string(count);
  // U+202F is a narrow space that does not break, so a number stays on one line.
  for (std::size_t i = digits.size(); i > 3;) digits.insert(i -= 3, "\u202f");
  return digits;
}

std::string depth_text(double depth) { return fmt::format("{:.{}f}", depth, depth < 100 ? 1 : 0); }

std::string number_text(double value) { return fmt::format("{:.4g}", value); }

std::string plain_number_text(double value) {
  const std::string text = number_text(value);
  // Small values get seven decimals, which keeps about three digits down to 1e-5.
  return text.find('e') == std::string::npos ? text : fmt::format("{:.{}f}", value, value < 1 ? 7 : 0);
}

// The limits of the three spans differ because they serve different readers: a mean over jobs, the heading of a page,
// and a deadline that comes closer, for which the last minutes matter.
std::string span_text(double seconds) {
  if (seconds >= 7200) return fmt::format("{:.1f} h", seconds / 3600);
  if (seconds >= 240) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.0f} s", seconds);
}

std::string long_span_text(double seconds) {
  if (seconds >= 7200) return fmt::format("{:.3g} hours", seconds / 3600);
  if (seconds >= 240) return fmt::format("{:.3g} minutes", seconds / 60);
  return fmt::format("{:.3g} seconds", seconds);
}

std::string distance_text(Duration span) {
  const double seconds = std::abs(to_seconds(span));
  if (seconds < 90) return fmt::format("{:.0f} s", seconds);
  if (seconds < 5400) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

std::string slo_text(const Slo& slo) {
  return fmt::format("p{} {} ms", text::shortest(slo.percentile), text::shortest(to_milliseconds(slo.latency)));
}

}  // namespace tangram::report
