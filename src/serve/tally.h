// Counters that are kept while serving, and their Prometheus text.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/time.h"
#include "core/request.h"

namespace tangram::serve {

// Counts durations between fixed bounds, as Prometheus wants them.
class DurationHistogram {
 public:
  // Upper bounds in seconds: 1-2-5 steps from 100 microseconds to 10 s, and infinity.
  static constexpr std::array<double, 16> kBounds{0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02,
                                                  0.05,   0.1,    0.2,    0.5,   1,     2,     5,    10};

  void add(Duration duration);
  std::uint64_t count() const { return count_; }
  std::int64_t sum_ns() const { return sum_ns_; }
  // How many were at most kBounds[i].
  std::uint64_t at_most(std::size_t i) const;

 private:
  std::array<std::uint64_t, kBounds.size() + 1> counts_{};
  std::uint64_t count_ = 0;
  std::int64_t sum_ns_ = 0;
};

// Counts durations of any thread, finely enough for quantiles: sixteen steps for each doubling, so one is off by 6 % at
// most, from a quarter of a microsecond to four seconds.
class SharedDurations {
 public:
  void add(Duration duration);
  std::uint64_t count() const;
  Duration sum() const { return Duration(sum_ns_.load(std::memory_order_relaxed)); }
  // The upper end of the step that the quantile falls in; zero where nothing was counted.
  Duration quantile(double q) const;

 private:
  static constexpr int kStepBits = 4;
  static constexpr int kFirstDoubling = 8;
  static constexpr int kDoublings = 24;

  std::array<std::atomic<std::uint64_t>, std::size_t{kDoublings} << kStepBits> counts_{};
  std::atomic<std::int64_t> sum_ns_{0};
};

// The share of the requests that ended in the last minute and met their Slo.
class AttainmentWindow {
 public:
  static constexpr std::int64_t kSeconds = 60;

  void add(TimePoint now, bool kept);
  // 1 if no request ended.
  double ratio(TimePoint now) const;

 private:
  struct Second {
    std::int64_t at = -1;
    std::uint32_t kept = 0;
    std::uint32_t total = 0;
  };
  std::array<Second, kSeconds> seconds_{};
};

struct BatchTally {
  std::uint64_t count = 0;
  std::int64_t compute_ns = 0;
};

// The counters of one service since the start.
struct ServiceTally {
  std::array<std::uint64_t, kOutcomeKinds.size()> outcomes{};   // By OutcomeKind.
  std::array<std::uint64_t, kRejectReasons.size()> rejected{};  // By RejectReason.
  std::uint64_t never_in_time = 0;  // Of those too late: shorter of time than the fastest run.
  std::uint64_t failed_ns = 0;      // Of requests without an answer: how long they were here.
  std::uint64_t samples = 0;        // Answered.
  std::uint64_t batches = 0;
  std::uint64_t cold_starts = 0;  // Batches that had to load the model first.
  // Requests in the background, by OutcomeKind; in none of the other counts.
  std::array<std::uint64_t, kOutcomeKinds.size()> background{};
  DurationHistogram latency;  // From arrival to answer, of answered requests.
  DurationHistogram queue;
  DurationHistogram compute;
  double size_real = 0;
  double size_padded = 0;
  std::map<std::int32_t, BatchTally> by_batch_size;
  std::int64_t last_ms = 0;  // Wall clock of the last answer, milliseconds since 1970.
  AttainmentWindow attainment;

  // Rejected requests that no slice could ever have served. They do not count against the Slo.
  std::uint64_t impossible() const {
    return never_in_time + rejected[static_cast<std::size_t>(RejectReason::too_large)];
  }
};

struct SliceServed {
  std::int64_t busy_ns = 0;
  std::uint64_t batches = 0;
  std::uint64_t samples = 0;
  std::uint64_t failures = 0;
  std::uint64_t restarts = 0;
};

// Text in the Prometheus exposition format, built family by family.
class PrometheusText {
 public:
  void family(std::string_view name, std::string_view type, std::string_view help);
  // `labels` is `service="a",slice="b"`, or empty.
  void sample(std::string_view name, std::string_view labels, double value);
  void sample(std::string_view name, std::string_view labels, std::uint64_t value);
  void histogram(std::string_view name, std::string_view labels, const DurationHistogram& histogram);
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

// `name="value"` with the value escaped.
std::string label(std::string_view name, std::string_view value);

}  // namespace tangram::serve
