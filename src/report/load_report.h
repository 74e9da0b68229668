// The results of a load test: which requests were answered, and when.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/quantile_sketch.h"
#include "core/workload.h"
#include "report/run_view.h"

namespace tangram::report {

enum class LoadEnd : std::uint8_t { answered, refused, failed, unanswered };

// One request that was sent.
struct LoadSample {
  std::size_t service = 0;  // Of the workload.
  double at_s = 0;          // When it was to be sent.
  Duration latency{};       // From then to its answer.
  Duration sent_after{};    // How late the client itself was.
  LoadEnd end = LoadEnd::unanswered;
};

// The counts of one service, or of all.
struct LoadTally {
  std::uint64_t sent = 0;
  std::uint64_t in_time = 0;  // Answered within the promise.
  std::uint64_t late = 0;
  std::uint64_t refused = 0;
  std::uint64_t failed = 0;
  std::uint64_t unanswered = 0;
  QuantileSketch latency;     // Nanoseconds, of what was answered.
  QuantileSketch sent_after;  // Nanoseconds.

  // The share of all sent requests that were answered in time; 1 if none was sent.
  double in_time_share() const { return sent == 0 ? 1 : static_cast<double>(in_time) / static_cast<double>(sent); }
  // The same for people: "99.3 %", or "-" if none was sent, because nothing is known then.
  std::string in_time_text() const;
};

struct LoadReport {
  std::vector<LoadTally> services;  // By the workload.
  LoadTally total;
  double seconds = 0;  // That requests were sent for.

  // True where the share in time is at least the percentile of the promise.
  static bool kept(const Service& service, const LoadTally& tally) {
    return 100 * tally.in_time_share() >= service.slo.percentile;
  }
  double per_second(std::uint64_t count) const { return seconds > 0 ? static_cast<double>(count) / seconds : 0; }
};

LoadReport summarise_load(const Workload& workload, std::span<const LoadSample> samples, double seconds);

// One page that needs nothing but itself: the table, and for each service its latencies over time and as a
// distribution.
std::string load_html(const ReportHead& head, const std::string& title, const Workload& workload,
                      std::span<const LoadSample> samples, const LoadReport& report);

}  // namespace tangram::report
