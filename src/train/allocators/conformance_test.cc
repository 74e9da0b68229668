// What every allocator of the list keeps, whatever it aims at.

#include <gtest/gtest.h>

#include "train/allocator.h"
#include "train/test_application.h"

namespace tangram::train {
namespace {

// A cluster with jobs at random: some known, some running, some nodes partly taken by inference.
struct Situation {
  Application app = test_application("net", 5);
  std::shared_ptr<const BatchMenu> menu = std::make_shared<BatchMenu>(limits_of(app), 64);
  std::vector<std::unique_ptr<JobModel>> models;
  std::vector<Allocation> current;
  std::vector<int> free;
  std::vector<JobView> views;

  explicit Situation(std::uint64_t seed) {
    Rng rng(seed);
    const int nodes = static_cast<int>(rng.integer(1, 20));
    const auto jobs = static_cast<std::size_t>(rng.integer(1, 12));
    for (int n = 0; n < nodes; ++n) free.push_back(static_cast<int>(rng.integer(0, 4)));
    std::vector<int> left = free;
    current.resize(jobs);
    for (std::size_t j = 0; j < jobs; ++j) {
      models.push_back(std::make_unique<JobModel>(std::make_shared<StepKnowledge>(menu)));
      for (int n = 0; n < nodes && rng.chance(0.3); ++n) {
        const auto gpus = static_cast<int>(rng.integer(0, left[static_cast<std::size_t>(n)]));
        if (gpus > 0) add_gpus(current[j], n, gpus);
        left[static_cast<std::size_t>(n)] -= gpus;
      }
      if (!current[j].empty()) {
        const int gpus = gpus_of(current[j]);
        models[j]->observe({static_cast<int>(current[j].size()), gpus, 32, app.step_time(placement_of(current[j]), 32)},
                           {1, 8});
      }
    }
    for (std::size_t j = 0; j < jobs; ++j) {
      views.push_back({.id = static_cast<std::uint32_t>(j),
                       .application = &app,
                       .model = models[j].get(),
                       .current = &current[j],
                       .submit_s = static_cast<double>(j),
                       .age_s = rng.uniform(0, 5000),
                       .attained_s = static_cast<double>(j) * 100,
                       .progress_left = rng.uniform(1, 500),
                       .replicas_asked = static_cast<int>(rng.integer(1, 8)),
                       .batch_asked = 256,
                       .replicas_max = static_cast<int>(rng.integer(1, 16))});
    }
  }

  RoundView view() const { return {.now_s = 6000, .gpus_free = free, .jobs = views}; }
};

class Conformance : public testing::TestWithParam<const AllocatorInfo*> {};

TEST_P(Conformance, GivesNoGpuTwiceAndKeepsAllocationsInOrder) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const Situation situation(seed);
    const auto allocator = GetParam()->make({.seed = seed, .population = 12, .generations = 6});
    const auto allocations = allocator->allocate(situation.view());
    ASSERT_EQ(allocations.size(), situation.views.size());
    free_beside(situation.free, allocations);  // Stops at a GPU with two owners.
    for (std::size_t j = 0; j < allocations.size(); ++j) {
      for (std::size_t i = 0; i < allocations[j].size(); ++i) {
        EXPECT_GT(allocations[j][i].gpus, 0);
        const int before = i > 0 ? allocations[j][i - 1].node : -1;
        EXPECT_LT(before, allocations[j][i].node);
      }
      const int most = allocator->keeps_batches() ? 80 : situation.views[j].replicas_max;
      EXPECT_LE(gpus_of(allocations[j]), most) << seed;
    }
  }
}

// One job on 200 nodes: its fair share, 800 GPUs, is far beyond what its batch can be divided among.
TEST_P(Conformance, ServesOneJobInALargeCluster) {
  Situation situation(5);
  situation.free.assign(200, 4);
  situation.views.resize(1);
  situation.current[0] = {{3, 2}};
  situation.models[0]->observe({1, 2, 32, situation.app.step_time({2}, 32)}, {1, 8});
  situation.views[0].replicas_max = 4;
  const auto allocator = GetParam()->make({.population = 12, .generations = 6});
  const auto allocations = allocator->allocate(situation.view());
  EXPECT_GE(gpus_of(allocations[0]), 1);
}

TEST_P(Conformance, AnswersTheSameForTheSameSeed) {
  const Situation situation(11);
  const AllocatorOptions options{.seed = 3, .population = 12, .generations = 6};
  const auto first = GetParam()->make(options)->allocate(situation.view());
  EXPECT_EQ(GetParam()->make(options)->allocate(situation.view()), first);
}

// A lone job that has run for an hour on one GPU and may have two gets the second, or keeps the size that was asked
// for.
TEST_P(Conformance, LeavesNoLoneJobWithoutGpus) {
  Situation situation(11);
  situation.free.assign(4, 4);
  situation.views.resize(1);
  situation.views[0].replicas_asked = 2;
  situation.views[0].replicas_max = 2;
  situation.views[0].age_s = 3600;
  situation.current[0].clear();
  const auto allocations =
      GetParam()->make({.seed = 3, .population = 20, .generations = 20})->allocate(situation.view());
  EXPECT_GE(gpus_of(allocations[0]), 1);
}

std::vector<const AllocatorInfo*> all() {
  std::vector<const AllocatorInfo*> list;
  for (const auto& info : allocators()) list.push_back(&info);
  return list;
}

INSTANTIATE_TEST_SUITE_P(Every, Conformance, testing::ValuesIn(all()),
                         [](const auto& one) { return std::string(one.param->name); });

// Jobs of several nodes never share a node unless that is allowed.
TEST(Pollux, KeepsJobsOfSeveralNodesApart) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    const Situation situation(seed);
    const auto allocations =
        find_allocator("pollux")->make({.seed = seed, .population = 20, .generations = 10})->allocate(situation.view());
    std::vector<int> spread(situation.free.size(), 0);
    for (const auto& allocation : allocations) {
      if (allocation.size() < 2) continue;
      for (const auto& share : allocation) EXPECT_EQ(++spread[static_cast<std::size_t>(share.node)], 1) << seed;
    }
  }
}

// Three running jobs of one application, all timed alike, that have so much work left.
struct AlikeJobs {
  Application app = test_application("net", 5);
  JobModel model{std::make_shared<StepKnowledge>(std::make_shared<BatchMenu>(limits_of(app), 64))};
  std::vector<Allocation> current{{{0, 2}}, {{1, 2}}, {{2, 2}}};
  std::vector<int> free{4, 4, 4};
  std::vector<JobView> views;

  explicit AlikeJobs(const std::vector<double>& left) {
    for (const int gpus : {1, 2, 3, 4}) model.observe({1, gpus, 32, app.step_time({gpus}, 32)}, {1, 8});
    for (std::size_t i = 0; i < left.size(); ++i) {
      views.push_back({.id = static_cast<std::uint32_t>(i),
                       .application = &app,
                       .model = &model,
                       .current = &current[i],
                       .age_s = 5000,
                       .progress_left = left[i],
                       .replicas_max = 12,
                       .restart_full_s = 1,
                       .restart_fast_s = 1});
    }
  }

  std::vector<int> counts(const AllocatorOptions& options = {}) const {
    std::vector<int> counts;
    const RoundView view{.now_s = 6000, .gpus_free = free, .jobs = views};
    for (const auto& allocation : find_allocator("tangram")->make(options)->allocate(view)) {
      counts.push_back(gpus_of(allocation));
    }
    return counts;
  }
};

// The weights are sqrt(5), sqrt(3) and 1 by the order of the work left, so the longest job gets the same share however
// long it is. A weight by the work itself would take its GPUs away.
TEST(Tangram, DividesByTheOrderOfTheWorkLeftAndNotByItsAmount) {
  const auto counts = AlikeJobs({1e5, 2e5, 4e5}).counts();
  EXPECT_GE(counts[0], counts[1]);
  EXPECT_GE(counts[1], counts[2]);
  EXPECT_GT(counts[0], counts[2]);
  EXPECT_GT(counts[2], 0);
  EXPECT_EQ(AlikeJobs({1e5, 2e6, 4e8}).counts(), counts);
  EXPECT_EQ(AlikeJobs({4e5, 2e5, 1e5}).counts(), (std::vector<int>{counts[2], counts[1], counts[0]}));
}

TEST(Tangram, TreatsJobsAlikeWhereTheWorkLeftIsNotKnown) {
  const AllocatorOptions unknown{.work_left_known = false};
  const auto counts = AlikeJobs({1, 2e5, 4e8}).counts(unknown);
  EXPECT_EQ(AlikeJobs({4e8, 2e5, 1}).counts(unknown), counts);
  EXPECT_EQ(counts, (std::vector<int>{4, 4, 4}));
}

}  // namespace
}  // namespace tangram::train
