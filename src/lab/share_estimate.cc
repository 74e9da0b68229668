// A stratified ratio estimator.
//
// With weights w, sums of arrivals A and of requests in time V by part, the share is sum(w * V / A). Its variance comes
// from the residuals of the replicates, sum(w * (v - V / A * a) / mean(a)): the usual linearisation of a ratio, with an
// error of the order of one over the number of replicates.

#include "lab/share_estimate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/math.h"
#include "base/statistics.h"

namespace tangram::lab {
namespace {

// Losses come in clusters of about this many requests: a queue that is too long is too long for several. Used only
// where too few losses were seen to estimate a spread from them.
constexpr double kClusterSize = 5;

}  // namespace

void ShareEstimate::add(std::span<const sim::Tally> parts) {
  TANGRAM_CHECK(parts.size() % sums_.size() == 0, "a replicate has the parts of its design");
  for (std::size_t at = 0; at < parts.size(); at += sums_.size()) add_replicate(parts.subspan(at, sums_.size()));
}

void ShareEstimate::add_replicate(std::span<const sim::Tally> parts) {
  auto& row = rows_.emplace_back();
  for (std::size_t p = 0; p < parts.size(); ++p) {
    row.push_back({static_cast<double>(parts[p].arrived), static_cast<double>(parts[p].served)});
    sums_[p].add(parts[p]);
    arrived_ += parts[p].arrived;
  }
}

double ShareEstimate::part_share(std::size_t part) const { return sums_[part].slo_attainment(); }

std::vector<double> ShareEstimate::known(std::span<const double> weight) const {
  std::vector<double> kept(weight.begin(), weight.end());
  for (std::size_t p = 0; p < kept.size(); ++p) {
    if (sums_[p].arrived == 0) kept[p] = 0;
  }
  const double sum = std::accumulate(kept.begin(), kept.end(), 0.0);
  for (double& w : kept) w /= sum > 0 ? sum : 1;
  return kept;
}

double ShareEstimate::share(std::span<const double> weight) const {
  const auto kept = known(weight);
  double share = 0;
  double sum = 0;
  for (std::size_t p = 0; p < kept.size(); ++p) {
    share += kept[p] * part_share(p);
    sum += kept[p];
  }
  return sum > 0 ? share : 1;
}

ShareInterval ShareEstimate::interval(std::span<const double> weight, double tail) const {
  TANGRAM_CHECK(rows_.size() >= 2, "an interval needs two replicates");
  const auto kept = known(weight);
  const auto n = static_cast<double>(rows_.size());
  ShareInterval answer;
  answer.share = share(weight);
  double squares = 0;
  for (const auto& row : rows_) {
    double residual = 0;
    for (std::size_t p = 0; p < kept.size(); ++p) {
      if (kept[p] <= 0) continue;
      residual +=
          kept[p] * (row[p].served - part_share(p) * row[p].arrived) * n / static_cast<double>(sums_[p].arrived);
    }
    squares += residual * residual;
  }
  const double half = student_t(tail, n - 1) * std::sqrt(squares / (n * (n - 1)));
  // Without losses the replicates do not differ. One more cluster could have come with each request that stands for
  // most others: with rate x, none is seen in N requests with probability exp(-x N / cluster).
  double heaviest = 0;
  for (std::size_t p = 0; p < kept.size(); ++p) {
    if (kept[p] > 0) heaviest = std::max(heaviest, kept[p] / static_cast<double>(sums_[p].arrived));
  }
  const double unseen = -math::log(tail) * kClusterSize * heaviest;
  answer.low = std::max(0.0, answer.share - std::max(half, std::min(unseen, 1.0)));
  answer.high = std::min(1.0, answer.share + half);
  return answer;
}

Duration ShareEstimate::latency(std::span<const double> weight, double quantile) const {
  const auto kept = known(weight);
  // The share of all requests that were answered within `limit`.
  const auto within = [&](std::uint64_t limit) {
    double share = 0;
    for (std::size_t p = 0; p < kept.size(); ++p) {
      if (kept[p] <= 0) continue;
      share +=
          kept[p] * static_cast<double>(sums_[p].latency.count_at_most(limit)) / static_cast<double>(sums_[p].arrived);
    }
    return share;
  };
  std::uint64_t high = 0;
  for (const auto& sum : sums_) high = std::max(high, sum.latency.max());
  if (within(high) < quantile) return Duration::max();
  std::uint64_t low = 0;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (within(middle) >= quantile) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return Duration(static_cast<std::int64_t>(high));
}

}  // namespace tangram::lab
