#include "learn/models/table.h"

#include <gtest/gtest.h>

namespace tangram::learn {
namespace {

using namespace std::chrono_literals;

Measurement measured(std::int64_t batch, std::int64_t size, std::optional<double> latency_ms) {
  Measurement m;
  m.device = "a100-40gb";
  m.mig_profile = "1g.5gb";
  m.model = "net";
  m.batch = batch;
  m.size = size;
  m.latency_ms = latency_ms;
  return m;
}

RunPoint point(std::int64_t batch, std::int64_t size) { return {"a100-40gb", "1g.5gb", "net", batch, size, 1}; }

TEST(TableModel, IsExactWhereItWasMeasuredAndLinearBetween) {
  const TableModel model({measured(8, 32, 18), measured(4, 32, 10), measured(4, 64, 20), measured(8, 64, 40)});
  EXPECT_EQ(model.predict(point(4, 32))->mean, 10ms);
  // Halfway between batches 4 and 8: 14 ms; a quarter of the way from size 32 to 64: 10 + (20 - 10) / 4.
  EXPECT_EQ(model.predict(point(6, 32))->mean, 14ms);
  EXPECT_EQ(model.predict(point(4, 40))->mean, 12500us);
  // Both: at batch 6 the sizes take 14 and 30 ms, halfway between them 22 ms.
  EXPECT_EQ(model.predict(point(6, 48))->mean, 22ms);
}

TEST(TableModel, ChargesTheSmallestAndDoesNotReachBeyondTheLargest) {
  const TableModel model({measured(4, 32, 10), measured(8, 32, 18)});
  EXPECT_EQ(model.predict(point(1, 32))->mean, 10ms);
  EXPECT_EQ(model.predict(point(4, 1))->mean, 10ms);
  EXPECT_FALSE(model.predict(point(9, 32)).has_value());
  EXPECT_FALSE(model.predict(point(4, 33)).has_value());
}

// Memory ran out at batch 8 of size 64: nothing beyond batch 4 there, whatever else was measured. Size 48 needs the
// larger one's memory.
TEST(TableModel, EndsWhereMemoryRanOut) {
  const TableModel model({measured(4, 32, 10), measured(16, 32, 34), measured(4, 64, 20), measured(16, 64, 60),
                          measured(8, 64, std::nullopt)});
  EXPECT_TRUE(model.predict(point(16, 32)).has_value());
  EXPECT_TRUE(model.predict(point(4, 64)).has_value());
  EXPECT_FALSE(model.predict(point(5, 64)).has_value());
  EXPECT_FALSE(model.predict(point(16, 48)).has_value());
}

// Mean 10 ms, deviation 1 ms: the p99 of a normal spread lies 2.326 deviations above.
TEST(TableModel, PutsTheSpreadIntoTheP99) {
  auto m = measured(1, 1, 10);
  m.latency_spread_ms = 1;
  EXPECT_EQ(TableModel({m}).predict(point(1, 1))->p99, 12326us);
}

TEST(TableModel, KnowsNothingOfWhatWasNotMeasured) {
  const TableModel model({measured(4, 32, 10)});
  EXPECT_FALSE(model.predict({"a100-40gb", "2g.10gb", "net", 4, 32, 1}).has_value());
  EXPECT_FALSE(model.predict({"a100-40gb", "1g.5gb", "other", 4, 32, 1}).has_value());
  EXPECT_FALSE(model.predict({"a100-40gb", "1g.5gb", "net", 4, 32, 2}).has_value());
}

}  // namespace
}  // namespace tangram::learn
