#include "serve/drift_watch.h"

#include <gtest/gtest.h>

#include "learn/test_network.h"

namespace tangram::serve {
namespace {

// Batches of eight on 1g.10gb that take `factor` times what the network does.
void serve_batches(DriftWatch& watch, const learn::TestNetwork& net, double factor, int count) {
  const auto run = net.run("1g.10gb", 1, 9.5, 8);
  for (int i = 0; i < count; ++i) {
    watch.served({run.device, run.mig_profile, run.model, run.batch, run.size,
                  from_milliseconds(*run.latency_ms * factor * (1 + 0.005 * (i % 3 - 1)))});
  }
  watch.look();
}

TEST(DriftWatch, FitsAnewWhenBatchesTakeLonger) {
  const learn::TestNetwork net;
  const auto model = std::make_shared<const learn::FittedModel>(*learn::fit(net.table(), {}, {}));
  std::vector<DriftWatch::News> told;
  int renewed = 0;
  DriftWatch watch(
      model, [&](const DriftWatch::News& news) { told.push_back(news); },
      [&](const learn::FittedModel&) { ++renewed; });
  serve_batches(watch, net, 1, 500);
  EXPECT_TRUE(told.empty());
  EXPECT_EQ(watch.model(), model);

  serve_batches(watch, net, 1.3, 500);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].problem, "");
  EXPECT_EQ(told[0].model, net.run("1g.10gb", 1, 9.5, 8).model);
  EXPECT_NEAR(told[0].ratio, 1.3, 0.02);
  EXPECT_EQ(renewed, 1);
  const auto run = net.run("1g.10gb", 1, 9.5, 8);
  const auto moved = watch.model()->predict({run.device, run.mig_profile, run.model, run.batch, run.size, 1});
  ASSERT_TRUE(moved.has_value());
  EXPECT_NEAR(to_milliseconds(moved->mean) / *run.latency_ms, 1.3, 0.03);

  // The same times are what is expected now.
  serve_batches(watch, net, 1.3, 500);
  EXPECT_EQ(told.size(), 1u);
  // Back to the model of the file, they are a drift again.
  watch.restart(model);
  serve_batches(watch, net, 1.3, 500);
  EXPECT_EQ(told.size(), 2u);
}

}  // namespace
}  // namespace tangram::serve
