#include "plan/detail/share_pools.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "plan/test_sharing.h"

namespace tangram::plan::detail {
namespace {

using Sets = std::vector<std::vector<std::size_t>>;

// Services with promises of 100, 200, 300... ms. Every block of them has one slice, of a price of 1, so that each pool
// that holds saves as many slices as it puts blocks together, less one.
class Pooler {
 public:
  explicit Pooler(int count, int alone = -1) : queues_(queue_problem(problem_of(model_(), services(count, alone)))) {
    prices_.assign(queues_.stock.kinds.size(), 1);
    for (std::size_t q = 0; q < queues_.queues.size(); ++q) partition_.push_back({q});
    plan = plan_of(partition_);
  }

  void pool(int pools_max, std::int64_t looks_max) {
    std::int64_t looks = 0;
    SharePools(queues_, prices_)
        .pool(plan, 0,
              {.pools_max = pools_max,
               .looks_max = looks_max,
               .looks = [&] { return looks; },
               .on_one_kind = [](const std::vector<std::size_t>&, std::size_t) { return true; },
               .solve = [&](const Partition& partition, double price_max) -> std::optional<SharedPlan> {
                 ++looks;
                 tried.push_back(partition.back());
                 if (partition.back().size() > holds_most) return std::nullopt;
                 auto found = plan_of(partition);
                 if (found.answer.price >= price_max) return std::nullopt;
                 return found;
               }});
  }
  Sets pools_to_try() const { return SharePools(queues_, prices_).pools_to_try(plan.blocks); }

  std::size_t holds_most = 100;  // Queues in a block.
  SharedPlan plan;
  Sets tried;

 private:
  static const LinearModel& model_() {
    static const LinearModel model = [] {
      LinearModel made;
      made.runs["net"] = {.ms = 10, .weights_mib = 100};
      return made;
    }();
    return model;
  }
  static std::vector<Service> services(int count, int alone) {
    std::vector<Service> made;
    for (int i = 0; i < count; ++i) {
      made.push_back(service_of("s" + std::to_string(i), "net", 1, from_milliseconds(100 * (i + 1))));
      if (i == alone) made.back().isolation = Isolation::own_slices;
    }
    return made;
  }
  SharedPlan plan_of(const Partition& partition) {
    SharedPlan made;
    for (const auto& members : partition) {
      blocks_.push_back(std::make_unique<Block>());
      blocks_.back()->queues = members;
      blocks_.back()->cover.offers = {CoverOffer{0, {}}};
      made.blocks.push_back(blocks_.back().get());
      made.answer.covers.push_back({1});
      made.answer.price += 1;
    }
    return made;
  }

  QueueProblem queues_;
  std::vector<double> prices_;
  Partition partition_;
  std::vector<std::unique_ptr<Block>> blocks_;
};

// Four blocks: from the longest promise down, the strictest left out first; then without the longest; then neighbours.
TEST(SharePools, TriesLargeSetsOfLongPromisesFirst) {
  EXPECT_EQ(Pooler(4).pools_to_try(), (Sets{{3, 2, 1, 0}, {3, 2, 1}, {3, 2}, {2, 1, 0}, {1, 0}, {2, 1}}));
}

TEST(SharePools, LeavesOutABlockThatKeepsToItself) {
  EXPECT_EQ(Pooler(3, 1).pools_to_try(), (Sets{{2, 0}}));
  EXPECT_TRUE(Pooler(2, 1).pools_to_try().empty());
}

TEST(SharePools, PutsEverythingTogetherWhereThatHolds) {
  Pooler pooler(5);
  pooler.pool(24, 1000);
  ASSERT_EQ(pooler.plan.blocks.size(), 1U);
  EXPECT_EQ(pooler.plan.answer.price, 1);
  EXPECT_EQ(pooler.tried.size(), 1U);
}

// Three queues hold together: those with the longest promises, and then the two that are left.
TEST(SharePools, GoesOnWithWhatIsLeft) {
  Pooler pooler(5);
  pooler.holds_most = 3;
  pooler.pool(24, 1000);
  ASSERT_EQ(pooler.plan.blocks.size(), 2U);
  EXPECT_EQ(pooler.plan.blocks[0]->queues, (std::vector<std::size_t>{2, 3, 4}));
  EXPECT_EQ(pooler.plan.blocks[1]->queues, (std::vector<std::size_t>{0, 1}));
}

// Nothing holds: as many sets are tried as may be, none twice, and the plan stays as it was.
TEST(SharePools, StopsAfterSoManySetsOrLooks) {
  Pooler by_sets(9);
  by_sets.holds_most = 1;
  by_sets.pool(7, 1000);
  EXPECT_EQ(by_sets.tried.size(), 7U);
  EXPECT_EQ(by_sets.plan.blocks.size(), 9U);
  Pooler by_looks(9);
  by_looks.holds_most = 1;
  by_looks.pool(24, 3);
  EXPECT_EQ(by_looks.tried.size(), 3U);
  EXPECT_EQ(by_looks.plan.blocks.size(), 9U);
}

}  // namespace
}  // namespace tangram::plan::detail
