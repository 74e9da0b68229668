// Counters and their text form.
//
// DurationHistogram and AttainmentWindow belong to one thread and are plain numbers. SharedDurations is written by
// every I/O thread for each request, so adding is a single relaxed increment; readers sum up and accept that the counts
// change meanwhile.

#include "serve/tally.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/text.h"

namespace tangram::serve {

void DurationHistogram::add(Duration duration) {
  const double seconds = to_seconds(duration);
  // lower_bound: a duration equal to a bound belongs to its bucket, as Prometheus defines "le". Durations beyond the
  // last bound fall into the extra bucket, +Inf.
  const auto* const bound = std::ranges::lower_bound(kBounds, seconds);
  ++counts_[static_cast<std::size_t>(bound - kBounds.begin())];
  ++count_;
  sum_ns_ += duration.count();
}

// Prometheus buckets are cumulative. Summing up when asked keeps add() at one increment.
std::uint64_t DurationHistogram::at_most(std::size_t i) const {
  std::uint64_t sum = 0;
  for (std::size_t k = 0; k <= i; ++k) sum += counts_[k];
  return sum;
}

void SharedDurations::add(Duration duration) {
  // Values outside the range count in the first or last step. The index is logarithmic with linear steps inside each
  // doubling, as in HdrHistogram: the position of the highest bit gives the doubling, and the kStepBits bits below it
  // give the step.
  const auto least = std::uint64_t{1} << kFirstDoubling;
  const auto most = (std::uint64_t{1} << (kFirstDoubling + kDoublings)) - 1;
  const auto value = std::clamp(static_cast<std::uint64_t>(std::max<std::int64_t>(0, duration.count())), least, most);
  const auto doubling = static_cast<int>(std::bit_width(value)) - 1;
  const auto step = (value >> (doubling - kStepBits)) & ((1u << kStepBits) - 1);
  const auto index = (static_cast<std::size_t>(doubling - kFirstDoubling) << kStepBits) + step;
  counts_[index].fetch_add(1, std::memory_order_relaxed);
  sum_ns_.fetch_add(std::max<std::int64_t>(0, duration.count()), std::memory_order_relaxed);
}

std::uint64_t SharedDurations::count() const {
  std::uint64_t sum = 0;
  for (const auto& count : counts_) sum += count.load(std::memory_order_relaxed);
  return sum;
}

// Answers the upper end of the step: within the range, the result is never below the true quantile and at most one step
// above it.
Duration SharedDurations::quantile(double q) const {
  const auto wanted = static_cast<std::uint64_t>(std::ceil(q * static_cast<double>(count())));
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < counts_.size() && wanted > 0; ++i) {
    below += counts_[i].load(std::memory_order_relaxed);
    if (below < wanted) continue;
    const auto doubling = static_cast<int>(i >> kStepBits) + kFirstDoubling;
    const auto step = static_cast<std::int64_t>(i & ((1u << kStepBits) - 1));
    // Inverts the index of add(): the smallest value of the next step, minus one.
    return Duration((((std::int64_t{1} << kStepBits) + step + 1) << (doubling - kStepBits)) - 1);
  }
  return Duration::zero();
}

// A ring of 60 one-second slots. A slot that holds an older second is reset when it is used again, so nothing has to
// expire slots when no request ends.
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
    // Unused, or older than the window: the slot was not reset because no request ended in its second since.
    if (slot.at < 0 || slot.at <= second - kSeconds) continue;
    kept += slot.kept;
    total += slot.total;
  }
  return total == 0 ? 1 : static_cast<double>(kept) / static_cast<double>(total);
}

void PrometheusText::family(std::string_view name, std::string_view type, std::string_view help) {
  fmt::format_to(std::back_inserter(text_), "# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

// text::shortest() writes the shortest decimal that reads back as the same double.
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

// Escapes backslash, quote and line end, which are all that the exposition format requires in label values.
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
