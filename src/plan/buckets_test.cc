#include "plan/buckets.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "base/rng.h"

namespace tangram::plan {
namespace {

using namespace std::chrono_literals;

// The cheapest set of at most `left` buckets over `sizes`, by trying all.
double brute_force(const std::vector<SizeShare>& sizes, int buckets_max, const BucketCost& cost) {
  double best = std::numeric_limits<double>::infinity();
  const std::function<void(std::size_t, int, double)> visit = [&](std::size_t from, int left, double paid) {
    if (from == sizes.size()) {
      best = std::min(best, paid);
      return;
    }
    if (left == 0) return;
    double share = 0;
    for (std::size_t to = from; to < sizes.size(); ++to) {
      share += sizes[to].share;
      visit(to + 1, left - 1, paid + cost(sizes[to].size, share));
    }
  };
  visit(0, buckets_max, 0);
  return best;
}

// Up to ten sizes, so that all of them are candidates, and costs that grow with the size and have a part that each
// bucket pays.
TEST(Buckets, AgreeWithBruteForceOnSmallInputs) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng = Rng(seed).stream("buckets");
    std::vector<SizeShare> sizes;
    std::int64_t size = 0;
    double total = 0;
    const auto count = rng.integer(1, 10);
    for (int i = 0; i < count; ++i) {
      size += rng.integer(1, 40);
      sizes.push_back({size, rng.uniform(0.05, 1)});
      total += sizes.back().share;
    }
    for (auto& entry : sizes) entry.share /= total;
    const double each = rng.uniform(0, 4);
    const double power = rng.uniform(0.5, 2);
    const BucketCost cost = [&](std::int64_t hi, double share) {
      return each + share * std::pow(static_cast<double>(hi), power);
    };
    for (int buckets_max = 1; buckets_max <= 4; ++buckets_max) {
      const auto sets = bucket_sets(sizes, buckets_max, cost);
      ASSERT_FALSE(sets.empty());
      EXPECT_NEAR(sets.back().cost, brute_force(sizes, buckets_max, cost), 1e-9 * sets.back().cost) << seed;
      EXPECT_EQ(sets.back().edges.back(), sizes.back().size);
      EXPECT_LE(sets.back().edges.size(), static_cast<std::size_t>(buckets_max));
      for (std::size_t i = 1; i < sets.size(); ++i) EXPECT_LT(sets[i].cost, sets[i - 1].cost);
    }
  }
}

TEST(Buckets, CandidatesArriveAndEndWithTheLargest) {
  std::vector<SizeShare> sizes;
  for (std::int64_t size = 3; size <= 900; size += 3) sizes.push_back({size, 1.0 / 300});
  const auto edges = edge_candidates(sizes);
  EXPECT_LE(edges.size(), kEdgesMax + 1);
  EXPECT_EQ(edges.back(), 900);
  for (const auto edge : edges) EXPECT_EQ(edge % 3, 0);
  for (std::size_t i = 1; i < edges.size(); ++i) EXPECT_LT(edges[i - 1], edges[i]);
}

// Starting a run costs 4 ms whatever it does, and a token 0.02 ms a sample.
class LaunchModel final : public LatencyModel {
 public:
  std::optional<Prediction> predict(const RunPoint& point) const override {
    if (point.mig_profile != "7g.80gb") return std::nullopt;
    const double ms = 4 + 0.02 * static_cast<double>(point.batch * point.size);
    return Prediction{from_milliseconds(ms), from_milliseconds(ms)};
  }
};

std::size_t buckets_at(double rate_per_s) {
  const LaunchModel model;
  Problem problem;
  DeviceGroup group;
  group.name = group.type = "a100-80gb";
  problem.fleet.groups = {group};
  Service service;
  service.name = service.model = "text";
  service.slo = {50ms, 99};
  service.traffic = PoissonTraffic{rate_per_s};
  service.input_size = HistogramSize{"", {{16, 1}, {32, 1}, {64, 1}, {128, 1}, {256, 1}}};
  problem.workload.services = {service};
  problem.latency = &model;
  problem.options.rule = Rule::no_waiting;
  return service_bucket_sets(problem, take_stock(problem), 0).back().edges.size();
}

// At 20/s about one request gathers in 50 ms: every batch is of one, and what padding costs, 0.02 ms * 240 tokens at
// most, is saved by buckets without any loss, so they may stay. At rates at which a batch fills only if all sizes share
// it, few buckets win; at 20,000/s every bucket fills its batches, and the most win.
TEST(Buckets, FewWinWhereBatchesWouldNotFill) {
  EXPECT_EQ(buckets_at(20000), 5u);
  EXPECT_LT(buckets_at(100), buckets_at(20000));
}

}  // namespace
}  // namespace tangram::plan
