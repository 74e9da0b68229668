// The small parts of sharing: knapsack, restarts, warm replicas, reclaim.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "train/keep_warm.h"
#include "train/knapsack.h"
#include "train/reclaim.h"
#include "train/restart.h"
#include "train/test_application.h"
#include "train/warm_pool.h"

namespace tangram::train {
namespace {

double worth(const std::vector<std::vector<double>>& values, const std::vector<int>& counts) {
  double sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 0) sum += values[i][static_cast<std::size_t>(counts[i]) - 1];
  }
  return sum;
}

// Every way of giving three jobs up to four GPUs each is tried.
double brute_force(const std::vector<std::vector<double>>& values, int capacity) {
  double best = 0;
  for (int a = 0; a <= 4; ++a) {
    for (int b = 0; b <= 4; ++b) {
      for (int c = 0; c <= 4; ++c) {
        if (a + b + c <= capacity) best = std::max(best, worth(values, {a, b, c}));
      }
    }
  }
  return best;
}

TEST(Knapsack, IsAsGoodAsTryingEverything) {
  Rng rng(5);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::vector<double>> values(3, std::vector<double>(4));
    for (auto& row : values) {
      for (auto& value : row) value = static_cast<double>(rng.below(20));
    }
    const int capacity = static_cast<int>(rng.below(13));
    const auto counts = solve_knapsack(values, capacity);
    EXPECT_LE(counts[0] + counts[1] + counts[2], capacity);
    EXPECT_DOUBLE_EQ(worth(values, counts), brute_force(values, capacity));
  }
}

// Full 25 s and fast 2 s. From 2 to 8 GPUs, six of eight workers are new: 2 + floor(23 * 6 / 8) = 19.
TEST(Restart, ChargesNewWorkersTheirShare) {
  const RestartCost cost{.full_s = 25, .fast_s = 2};
  EXPECT_EQ(restart_s(RestartKind::fast, cost, 2, 8), 19);
  EXPECT_EQ(restart_s(RestartKind::fast, cost, 8, 2), 2);
  EXPECT_EQ(restart_s(RestartKind::fast, cost, 0, 2), 25);
  EXPECT_EQ(restart_s(RestartKind::fast, cost, 4, 4), 25);
  EXPECT_EQ(restart_s(RestartKind::fast, cost, 4, 0), 0);
  EXPECT_EQ(restart_s(RestartKind::full, cost, 8, 2), 25);
}

// Square roots have falling returns, so that taking the dearest GPU each time is the best there is.
TEST(Knapsack, ByHullsIsExactForFallingReturns) {
  Rng rng(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::vector<double>> values(static_cast<std::size_t>(rng.integer(1, 12)));
    for (auto& job : values) {
      const double weight = rng.uniform(0.1, 5);
      for (int w = 1; w <= rng.integer(1, 20); ++w) job.push_back(weight * std::sqrt(w));
    }
    const int capacity = static_cast<int>(rng.integer(1, 60));
    const auto counts = solve_knapsack_by_hulls(values, capacity);
    EXPECT_LE(std::accumulate(counts.begin(), counts.end(), 0), capacity);
    EXPECT_NEAR(worth(values, counts), worth(values, solve_knapsack(values, capacity)), 1e-9);
  }
}

// Of any values it misses at most what one job could be worth with the GPUs that were left over.
TEST(Knapsack, ByHullsMissesLessThanOneJob) {
  Rng rng(4);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::vector<double>> values(static_cast<std::size_t>(rng.integer(1, 12)));
    double most = 0;
    for (auto& job : values) {
      for (int w = 1; w <= rng.integer(1, 8); ++w) job.push_back(rng.uniform(0, 1));
      most = std::max(most, std::ranges::max(job));
    }
    const int capacity = static_cast<int>(rng.integer(1, 40));
    const auto counts = solve_knapsack_by_hulls(values, capacity);
    EXPECT_LE(std::accumulate(counts.begin(), counts.end(), 0), capacity);
    EXPECT_GE(worth(values, counts) + most, worth(values, solve_knapsack(values, capacity)));
  }
}

TEST(WarmPool, PrefersTheGuardedReplicaWithMostHits) {
  WarmPool pool;
  const auto first = pool.open(7, 0, 10);
  const auto second = pool.open(7, 1, 10);
  EXPECT_EQ(pool.find_warm(7), std::nullopt);  // Both run.
  pool.put_asleep(first);
  EXPECT_EQ(pool.find_warm(7), first);
  pool.guard(second, 40);
  EXPECT_EQ(pool.find_warm(7), second);
  EXPECT_EQ(pool.find_warm(8), std::nullopt);
  pool.wake(second, 50);
  EXPECT_EQ(pool.at(second).hits, 1);
  EXPECT_EQ(pool.held(2), (std::vector<int>{0, 1}));
  pool.close(first);
  EXPECT_EQ(pool.replicas().size(), 1U);
}

// It holds its GPU from the beginning, but runs nothing before it is ready.
TEST(WarmPool, OffersAReplicaThatStartsOnlyOnceItIsReady) {
  WarmPool pool;
  const auto id = pool.start(7, 1, 10);
  EXPECT_EQ(pool.held(2), (std::vector<int>{0, 1}));
  EXPECT_EQ(pool.starting_count(7), 1);
  EXPECT_EQ(pool.starting_count(8), 0);
  EXPECT_EQ(pool.idle_count(7), 0);
  EXPECT_EQ(pool.find_warm(7), std::nullopt);
  pool.guard(id, 40);
  EXPECT_EQ(pool.starting_count(7), 0);
  EXPECT_EQ(pool.find_warm(7), id);
}

TEST(KeepWarm, TimerGrowsWithHitsUpToItsLimit) {
  const KeepWarm keep({.kind = KeepWarmKind::timer, .timer_factor = 2}, {6});
  EXPECT_EQ(keep.guard_s(0, 0, 0, 0), 60);
  EXPECT_EQ(keep.guard_s(0, 2, 0, 0), 120);
  EXPECT_EQ(keep.guard_s(0, 50, 0, 0), 240);
}

// One application is asked for every 10 s, the other every 1000 s, and a cold start costs both 6 s: a guarded second
// spares 0.6 and 0.006 s of waiting. Requests that wait as aimed leave the price where it began, between the two.
TEST(KeepWarm, GuardsWhatIsAskedForOften) {
  KeepWarm keep({.kind = KeepWarmKind::demand, .wait_target_s = 2}, {6, 6});
  for (int i = 0; i <= 300; ++i) {
    keep.on_arrival(0, 10.0 * i);
    if (i % 100 == 0) keep.on_arrival(1, 10.0 * i);
    keep.on_start({0, 10.0 * i, 2, 5});
  }
  EXPECT_NEAR(keep.rate(0, 3000), 0.1, 0.01);
  EXPECT_GT(keep.guard_s(0, 0, 0, 3000), 0);
  EXPECT_EQ(keep.guard_s(1, 0, 0, 3000), 0);
  // Requests wait far less than aimed, so that the price rises until nothing is guarded.
  for (int i = 0; i < 2000; ++i) keep.on_start({0, 3000, 0, 5});
  EXPECT_EQ(keep.guard_s(0, 0, 0, 3000), 0);
}

// Under the timer a request every 100 s finds its replica asleep after 30 s: each would wait 6 s. While ours wait
// the share of that which is aimed at, the price stays; where none waits it rises, and nothing is guarded in the end.
TEST(KeepWarm, AimsBelowWhatTheTimerWouldGive) {
  KeepWarm steady({.kind = KeepWarmKind::demand}, {6});
  KeepWarm eager({.kind = KeepWarmKind::demand}, {6});
  for (int i = 0; i <= 500; ++i) {
    steady.on_arrival(0, 100.0 * i);
    steady.on_start({0, 100.0 * i, KeepWarmOptions{}.timer_share * 6, 5});
    eager.on_arrival(0, 100.0 * i);
    eager.on_start({0, 100.0 * i, 0, 5});
  }
  EXPECT_GT(steady.guard_s(0, 0, 0, 50000), 0);  // 0.01 a second times 6 s: more than the price, 0.03.
  EXPECT_EQ(eager.guard_s(0, 0, 0, 50000), 0);
}

struct TwoJobs {
  Application app = test_application("net", 3);
  std::shared_ptr<const BatchMenu> menu = std::make_shared<BatchMenu>(limits_of(app), 64);
  JobModel model{std::make_shared<StepKnowledge>(menu)};
  std::vector<Allocation> allocations{{{0, 4}, {1, 1}}, {{2, 2}}};
  std::vector<JobView> views;

  TwoJobs() {
    for (const auto& allocation : allocations) {
      views.push_back({.application = &app, .model = &model, .current = &allocation});
    }
  }
};

// Jobs that are not known yet are taken to lose the same by any GPU, so that the tie goes to the smallest share.
TEST(Reclaim, TakesFromTheSmallestShareWhereTheLossIsTheSame) {
  TwoJobs two;
  Rng rng(1);
  const auto chosen = choose_reclaim(ReclaimKind::least_loss, two.views, 16, 2, 4, rng);
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->job, 0U);
  EXPECT_EQ(chosen->node, 1);
}

TEST(Reclaim, ByServerStaysInTheHalfOfInference) {
  TwoJobs two;
  Rng rng(1);
  const auto chosen = choose_reclaim(ReclaimKind::server, two.views, 16, 2, 4, rng);
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->node, 2);
  two.allocations[1].clear();
  EXPECT_FALSE(choose_reclaim(ReclaimKind::server, two.views, 16, 2, 4, rng));
}

}  // namespace
}  // namespace tangram::train
