#include "learn/dense_table.h"

#include <gtest/gtest.h>

#include <array>

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

// 10 ms, then 9, out of memory, and 12; the larger size is 1 ms faster throughout. What is compiled never falls: 10,
// 10, and nothing fits from batch 3 on, for either size.
TEST(DenseTable, MoreWorkNeverTakesLessTimeAndNeverFitsBetter) {
  class Dipping final : public LatencyModel {
   public:
    std::optional<Prediction> predict(const RunPoint& point) const override {
      constexpr std::array kMilliseconds{10, 9, 0, 12};
      const int ms = kMilliseconds[static_cast<std::size_t>(point.batch - 1)];
      if (ms == 0) return std::nullopt;
      const Duration mean = from_milliseconds(point.size > 1 ? ms - 1 : ms);
      return Prediction{mean, mean};
    }
  };
  const DenseTable table(Dipping(), {"a100-80gb", "3g.40gb", "net", {1, 2}, 4, 1});
  for (const std::size_t size : {0, 1}) {
    EXPECT_EQ(table.at(size, 1).mean, from_milliseconds(10));
    EXPECT_EQ(table.at(size, 2).p99, from_milliseconds(10));
    EXPECT_FALSE(table.fits(size, 3));
    EXPECT_EQ(table.batch_limit(size), 2);
  }
}

}  // namespace
}  // namespace tangram::learn
