#include "experiments/detail/query_judge.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tangram::experiments::detail {
namespace {

constexpr int kLimit = 3;  // Slos.
constexpr double kStandardErrors = 3;

std::size_t group_of(std::int32_t samples) {
  return static_cast<std::size_t>(std::bit_width(static_cast<std::uint32_t>(samples - 1)));
}

struct Mean {
  double value = 0;
  double variance = 0;  // Of the mean.
};

// From the means of equal parts, which are taken to be independent. They are not quite: the queue at the end of one is
// the queue at the beginning of the next, so the error is too small rather than too large, and the rule strict.
Mean mean_of(const double* parts, std::uint64_t count) {
  Mean mean;
  const auto n = static_cast<double>(count);
  for (std::uint64_t i = 0; i < count; ++i) mean.value += parts[i] / n;
  for (std::uint64_t i = 0; i < count; ++i) {
    mean.variance += (parts[i] - mean.value) * (parts[i] - mean.value) / (n * (n - 1));
  }
  return mean;
}

}  // namespace

QueryJudge::QueryJudge(std::uint64_t queries, Duration slo, std::int32_t samples_max)
    : queries_(queries), counted_(queries - queries / 10), slo_(slo) {
  latencies_.reserve(counted_);
  for (std::int32_t low = 1, high = 1; low <= samples_max; low = high + 1, high *= 2) {
    groups_.push_back({low, std::min(high, samples_max)});
  }
}

void QueryJudge::on_arrival(const Request&, std::size_t waiting) {
  waiting_sum_[std::min(kParts - 1, arrived_ * kParts / queries_)] += static_cast<double>(waiting);
  ++arrived_;
}

void QueryJudge::on_resolved(const Request& request, const Outcome& outcome, TimePoint now) {
  if (request.id.value() < queries_ - counted_) return;
  const bool answered = outcome.kind == OutcomeKind::served || outcome.kind == OutcomeKind::late;
  const Duration latency = now - request.arrival;
  SamplesGroup& group = groups_[group_of(request.samples)];
  ++group.queries;
  if (answered) latencies_.push_back(latency);
  if (!answered) ++group.never;
  if (answered && latency > slo_) ++group.late;
  beyond_slo_ += !answered || latency > slo_ ? 1 : 0;
  beyond_three_ += !answered || latency > kLimit * slo_ ? 1 : 0;
}

bool QueryJudge::lost() const { return 20 * beyond_slo_ > counted_ || 100 * beyond_three_ > counted_; }

bool QueryJudge::backlog_grows() const {
  constexpr std::uint64_t kTenth = kParts / 10;
  const Mean middle = mean_of(&waiting_sum_[(kParts - kTenth) / 2], kTenth);
  const Mean last = mean_of(&waiting_sum_[kParts - kTenth], kTenth);
  return last.value - middle.value > kStandardErrors * std::sqrt(middle.variance + last.variance);
}

QueryVerdict QueryJudge::verdict() {
  const auto quantile = [&](std::uint64_t per_mille) {
    // The smallest latency that so many of all counted queries do not exceed.
    const std::uint64_t rank = (counted_ * per_mille + 999) / 1000;
    if (rank > latencies_.size()) return Duration::max();
    const auto at = latencies_.begin() + static_cast<std::ptrdiff_t>(rank - 1);
    std::nth_element(latencies_.begin(), at, latencies_.end());
    return *at;
  };
  QueryVerdict verdict;
  verdict.p50 = quantile(500);
  verdict.p95 = quantile(950);
  verdict.p99 = quantile(990);
  verdict.p999 = quantile(999);
  verdict.in_time = verdict.p95 <= slo_;
  verdict.p99_bounded = verdict.p99 <= kLimit * slo_;
  verdict.p999_bounded = verdict.p999 <= kLimit * slo_;
  verdict.steady = !backlog_grows();
  verdict.groups = groups_;
  return verdict;
}

}  // namespace tangram::experiments::detail
