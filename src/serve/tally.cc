#include "serve/tally.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace tangram::serve {

void DurationHistogram::add(Duration duration) {
  const double seconds = to_seconds(duration);
  const auto* const bound = std::ranges::lower_bound(kBounds, seconds);
  ++counts_[static_cast<std::size_t>(bound - kBounds.begin())];
  ++count_;
  sum_ns_ += duration.count();
}

std::uint64_t DurationHistogram::at_most(std::size_t i) const {
  std::uint64_t sum = 0;
  for (std::size_t k = 0; k <= i; ++k) sum += counts_[k];
  return sum;
}

void AttainmentWindow::add(TimePoint now, bool kept) {
  const std::int64_t second = now.time_since_epoch() / std::chrono::seconds(1);
  Second& slot = seconds_[static_cast<std::size_t>(second % kSeconds)];
  if (slot.at != second) slot = {second, 0, 0};
  slot.kept += kept ? 1 : 0;
  ++slot.total;
}

double AttainmentWindow::ratio(TimePoint now) const {
  const std::int64_t second = now.time_since_epoch() / std::chrono::seconds(1);
  std::uint64_t kept = 0;
  std::uint64_t total = 0;
  for (const auto& slot : seconds_) {
    if (slot.at < 0 || slot.at <= second - kSeconds) continue;
    kept += slot.kept;
    total += slot.total;
  }
  return total == 0 ? 1 : static_cast<double>(kept) / static_cast<double>(total);
}

void PrometheusText::family(std::string_view name, std::string_view type, std::string_view help) {
  fmt::format_to(std::back_inserter(text_), "# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

void PrometheusText::sample(std::string_view name, std::string_view labels, double value) {
  const std::string_view open = labels.empty() ? "" : "{";
  const std::string_view close = labels.empty() ? "" : "}";
  fmt::format_to(std::back_inserter(text_), "{}{}{}{} {}\n", name, open, labels, close, text::shortest(value));
}

void PrometheusText::sample(std::string_view name, std::string_view labels, std::uint64_t value) {
  const std::string_view open = labels.empty() ? "" : "{";
  const std::string_view close = labels.empty() ? "" : "}";
  fmt::format_to(std::back_inserter(text_), "{}{}{}{} {}\n", name, open, labels, close, value);
}

void PrometheusText::histogram(std::string_view name, std::string_view labels, const DurationHistogram& histogram) {
  const std::string comma = labels.empty() ? "" : ",";
  for (std::size_t i = 0; i < DurationHistogram::kBounds.size(); ++i) {
    sample(fmt::format("{}_bucket", name),
           fmt::format("{}{}le=\"{}\"", labels, comma, text::shortest(DurationHistogram::kBounds[i])),
           histogram.at_most(i));
  }
  sample(fmt::format("{}_bucket", name), fmt::format("{}{}le=\"+Inf\"", labels, comma), histogram.count());
  sample(fmt::format("{}_sum", name), labels, static_cast<double>(histogram.sum_ns()) * 1e-9);
  sample(fmt::format("{}_count", name), labels, histogram.count());
}

std::string label(std::string_view name, std::string_view value) {
  std::string out = fmt::format("{}=\"", name);
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace tangram::serve
