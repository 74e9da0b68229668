#include "learn/dense_table.h"

#include <gtest/gtest.h>

#include "learn/fit.h"
#include "learn/test_network.h"

namespace tangram::learn {
namespace {

TEST(DenseTable, AnswersAsTheModelDoes) {
  const auto model = *fit(TestNetwork{}.table(), {}, {});
  const DenseTable table(model, {"a100-80gb", "2g.20gb", "net", {1}, 128, 1});
  for (const std::int64_t batch : {1, 7, 32, 50}) {
    const auto expected = model.predict({"a100-80gb", "2g.20gb", "net", batch, 1, 1});
    ASSERT_TRUE(expected);
    EXPECT_EQ(table.at(0, batch).mean, expected->mean);
    EXPECT_EQ(table.at(0, batch).p99, expected->p99);
  }
}

// 2 + 0.2 b GiB in 9.5 GiB end at batch 37; 32 was seen to fit and 64 not to.
TEST(DenseTable, EndsAtTheMemoryFrontier) {
  const auto model = *fit(TestNetwork{}.table(), {}, {});
  const DenseTable table(model, {"a100-80gb", "1g.10gb", "net", {1}, 256, 1});
  EXPECT_GE(table.batch_limit(0), 32);
  EXPECT_LT(table.batch_limit(0), 64);
  EXPECT_FALSE(table.fits(0, 256));
}

TEST(DenseTable, OfAnUnknownModelHoldsNothing) {
  const DenseTable table(FittedModel{}, {"a100-80gb", "1g.10gb", "net", {1, 2}, 4, 1});
  EXPECT_EQ(table.batch_limit(0), 0);
  EXPECT_EQ(table.batch_limit(1), 0);
}

}  // namespace
}  // namespace tangram::learn
