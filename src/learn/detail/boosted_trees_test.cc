#include "learn/detail/boosted_trees.h"

#include <gtest/gtest.h>

namespace tangram::learn::detail {
namespace {

// Two columns; the target is a step of the first and noise-free.
struct Data {
  std::vector<float> rows;
  std::vector<float> targets;
};

Data step_data() {
  Data data;
  for (int i = 0; i < 40; ++i) {
    data.rows.push_back(static_cast<float>(i));
    data.rows.push_back(static_cast<float>(i % 7));
    data.targets.push_back(i < 20 ? -1.0F : 1.0F);
  }
  return data;
}

TEST(BoostedTrees, LearnAStep) {
  const auto data = step_data();
  const auto trees = train_trees(data.rows, data.targets, {.monotone = {0, 0}});
  const float low[] = {5, 3};
  const float high[] = {35, 3};
  EXPECT_NEAR(trees.predict(low), -1, 0.05);
  EXPECT_NEAR(trees.predict(high), 1, 0.05);
}

// The target rises; a model that may only fall can do no better than the mean, which is zero.
TEST(BoostedTrees, KeepTheirDirection) {
  const auto data = step_data();
  const auto trees = train_trees(data.rows, data.targets, {.monotone = {-1, 0}});
  const float low[] = {5, 3};
  const float high[] = {35, 3};
  EXPECT_GE(trees.predict(low), trees.predict(high));
}

TEST(BoostedTrees, AreTheSameForTheSameSeed) {
  const auto data = step_data();
  EXPECT_EQ(train_trees(data.rows, data.targets, {.monotone = {1, 0}, .seed = 5}),
            train_trees(data.rows, data.targets, {.monotone = {1, 0}, .seed = 5}));
}

}  // namespace
}  // namespace tangram::learn::detail
