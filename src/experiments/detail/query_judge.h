// Judges one run of queries: who was answered when, and whether the queue kept growing.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/simulation.h"

namespace tangram::experiments::detail {

// Queries with about as many samples: 1, 2, 3 to 4, 5 to 8, 9 to 16, and so on.
struct SamplesGroup {
  std::int32_t samples_min = 0;
  std::int32_t samples_max = 0;
  std::uint64_t queries = 0;
  std::uint64_t late = 0;   // Answered after the Slo, ...
  std::uint64_t never = 0;  // ... and not at all.
};

// Latencies cover all counted queries; one without an answer is infinite (Duration::max()).
struct QueryVerdict {
  bool in_time = false;       // At least 95 % within the Slo.
  bool p99_bounded = false;   // The p99 is at most three Slos, ...
  bool p999_bounded = false;  // ... and the p99.9.
  bool steady = false;        // The backlog of the last tenth is not above that of the middle tenth; see backlog_grows.
  Duration p50{};
  Duration p95{};
  Duration p99{};
  Duration p999{};
  std::vector<SamplesGroup> groups;

  bool holds_p99() const { return in_time && p99_bounded && steady; }
  bool holds_p999() const { return holds_p99() && p999_bounded; }
};

// Queries that may be beyond a limit: 5 % beyond the Slo, 1 % beyond three Slos.
class QueryJudge final : public sim::Observer {
 public:
  // The first tenth of the queries is not counted.
  QueryJudge(std::uint64_t queries, Duration slo, std::int32_t samples_max);

  void on_arrival(const Request& request, std::size_t waiting) override;
  void on_resolved(const Request& request, const Outcome& outcome, TimePoint now) override;

  // True once holds_p99() will be false whatever comes: the run may be stopped.
  bool lost() const;
  // After the run.
  QueryVerdict verdict();

 private:
  static constexpr std::uint64_t kParts = 200;  // Twenty means of the backlog in each tenth.

  bool backlog_grows() const;

  std::uint64_t queries_;
  std::uint64_t counted_;
  Duration slo_;
  std::uint64_t arrived_ = 0;
  std::uint64_t beyond_slo_ = 0;
  std::uint64_t beyond_three_ = 0;
  std::vector<Duration> latencies_;  // Of answered queries.
  std::array<double, kParts> waiting_sum_{};
  std::vector<SamplesGroup> groups_;
};

}  // namespace tangram::experiments::detail
