#include "learn/assume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "learn/cautious.h"
#include "learn/fit.h"
#include "learn/test_network.h"

namespace tangram::learn {
namespace {

using testing::HasSubstr;

RunPoint point(std::string_view device, std::string_view profile, std::string_view model = "net") {
  return {device, profile, model, 8, 1, 1};
}

// The run of `net` on the same slice of an H100 that is `speed` times as fast.
Measurement on_h100(const TestNetwork& net, const char* profile, int slices, double gib, std::int64_t batch,
                    double speed) {
  Measurement m = net.run(profile, slices, gib, batch);
  m.device = "h100-80gb";
  m.latency_ms = *m.latency_ms / speed;
  return m;
}

TEST(Assumption, IsReadAndSaysWhatIsWrong) {
  const auto stated = parse_assumption(" h100-80gb = a100-80gb * 1.7");
  ASSERT_TRUE(stated) << stated.error().message;
  EXPECT_EQ(stated->device, "h100-80gb");
  EXPECT_EQ(stated->from, "a100-80gb");
  EXPECT_EQ(stated->speed, 1.7);
  EXPECT_FALSE(parse_assumption("h100-80gb=a100-80gb")->speed);
  const auto reason = [](std::string_view text) { return parse_assumption(text).error().message; };
  EXPECT_THAT(reason("h100-80gb"), HasSubstr("expected h100-80gb=a100-80gb*1.7"));
  EXPECT_THAT(reason("h100-80gb=a100-80gb*0"), HasSubstr("expected a factor from 0.01 to 100 after *, found \"0\""));
  EXPECT_THAT(reason("h100-80gb=a100-80gb*nan"), HasSubstr("found \"nan\""));
  EXPECT_THAT(reason("k80=a100-80gb*2"), HasSubstr("\"k80\" is no GPU type"));
  EXPECT_THAT(reason("cpu=a100-80gb*2"), HasSubstr("\"cpu\" is no GPU type"));
  EXPECT_THAT(reason("a100-80gb=a100-80gb*2"), HasSubstr("both sides"));
}

// An A100 of 40 GB has half the memory in each slice, and the same number of slices.
TEST(Assumption, FindsTheSliceThatComesNearest) {
  EXPECT_EQ(counterpart("h100-80gb", "3g.40gb", "a100-80gb"), "3g.40gb");
  EXPECT_EQ(counterpart("a100-80gb", "1g.10gb", "a100-40gb"), "1g.5gb");
  EXPECT_EQ(counterpart("a100-80gb", "1g.20gb", "a100-40gb"), "1g.10gb");
  EXPECT_EQ(counterpart("a100-80gb", "9g.90gb", "a100-40gb"), std::nullopt);
  EXPECT_EQ(counterpart("a100-80gb", "7g.80gb", "a30"), std::nullopt);  // An A30 has four.
}

// Twice as fast: half the time. The speed may be 1.96 x 0.25 off on the logarithm, so the interval is at least as wide.
TEST(Assume, PredictsWithTheStatedSpeedAndAWideInterval) {
  const TestNetwork net;
  FittedModel model = *fit(net.table(), {}, {});
  const auto speeds = assume(*parse_assumption("h100-80gb=a100-80gb*2"), model);
  ASSERT_TRUE(speeds) << speeds.error().message;
  ASSERT_EQ(speeds->size(), 1U);
  EXPECT_EQ((*speeds)[0].points, 0U);
  EXPECT_EQ((*speeds)[0].models, std::vector<std::string>{"net"});
  const auto here = *model.estimate(point("a100-80gb", "2g.20gb"));
  const auto there = *model.estimate(point("h100-80gb", "2g.20gb"));
  EXPECT_TRUE(here.measured);
  EXPECT_FALSE(here.guessed);
  EXPECT_FALSE(there.measured);
  EXPECT_TRUE(there.guessed);
  EXPECT_NEAR(there.mean_ms, here.mean_ms / 2, 1e-9);
  EXPECT_NEAR(there.p99_ms / there.mean_ms, here.p99_ms / here.mean_ms, 1e-9);
  EXPECT_GE(there.high_ms / there.mean_ms, std::exp(1.96 * 0.25) - 1e-3);
  EXPECT_LE(there.low_ms / there.mean_ms, std::exp(-1.96 * 0.25) + 1e-3);
  EXPECT_FALSE(model.predict(point("h100-80gb", "2g.20gb", "other")));
}

// Four runs of `one` on an H100, 1.5, 1.7, 1.7 and 1.9 times as fast: 1.69 in the geometric mean. `two` was measured on
// the A100 only and takes the same speed. With three runs there is no saying.
TEST(Assume, TakesTheSpeedFromFourMeasurements) {
  const TestNetwork one{.model = "one"};
  const TestNetwork two{.model = "two", .launch_ms = 3, .work_ms = 4};
  Measurements rows = one.table();
  const auto more = two.table();
  rows.insert(rows.end(), more.begin(), more.end());
  rows.push_back(on_h100(one, "1g.10gb", 1, 9.5, 4, 1.5));
  rows.push_back(on_h100(one, "2g.20gb", 2, 19.5, 4, 1.7));
  rows.push_back(on_h100(one, "3g.40gb", 3, 39.25, 16, 1.7));
  FittedModel three = *fit(rows, {}, {});
  const auto refused = assume(*parse_assumption("h100-80gb=a100-80gb"), three);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("3 measurements on h100-80gb"));

  rows.push_back(on_h100(one, "7g.80gb", 7, 78.75, 16, 1.9));
  FittedModel model = *fit(rows, {}, {});
  const auto speeds = assume(*parse_assumption("h100-80gb=a100-80gb"), model);
  ASSERT_TRUE(speeds) << speeds.error().message;
  ASSERT_EQ(speeds->size(), 2U);
  const double mean = std::pow(1.5 * 1.7 * 1.7 * 1.9, 0.25);
  for (const auto& speed : *speeds) {
    EXPECT_NEAR(speed.assumed.speed, mean, 0.01);
    EXPECT_EQ(speed.points, 4U);
    // Their logarithms have a deviation of 0.097; four of them say the next one within 1.12 x 3.18 / 1.96 of it.
    EXPECT_NEAR(speed.assumed.deviation, 0.097 * 1.118 * 3.18 / 1.96, 0.01);
  }
  const auto own = *model.estimate(point("h100-80gb", "4g.40gb", "one"));
  const auto other = *model.estimate(point("h100-80gb", "4g.40gb", "two"));
  EXPECT_NEAR(own.mean_ms * mean / model.estimate(point("a100-80gb", "4g.40gb", "one"))->mean_ms, 1, 0.01);
  EXPECT_NEAR(other.mean_ms * mean / model.estimate(point("a100-80gb", "4g.40gb", "two"))->mean_ms, 1, 0.01);
}

// The upper end of a 95 % interval is the quantile of 97.5 %. Slices that were measured are planned by the mean unless
// asked otherwise; those that were not by the quantile of 90 %.
TEST(Cautious, PlansGuessesOnAnUpperQuantile) {
  const TestNetwork net;
  auto model = *fit(net.table(), {}, {});
  ASSERT_TRUE(assume(*parse_assumption("h100-80gb=a100-80gb*2"), model));
  const auto shared = std::make_shared<const FittedModel>(std::move(model));
  const auto factor = [&](std::optional<double> confidence, const RunPoint& where) {
    return to_milliseconds(CautiousModel(shared, confidence).predict(where)->mean) / shared->estimate(where)->mean_ms;
  };
  const RunPoint measured = point("a100-80gb", "2g.20gb");
  const RunPoint guessed = point("h100-80gb", "2g.20gb");
  const auto estimate = *shared->estimate(guessed);
  EXPECT_NEAR(factor(std::nullopt, measured), 1, 1e-6);
  EXPECT_NEAR(factor(0.5, guessed), 1, 1e-6);
  EXPECT_NEAR(factor(0.975, guessed), estimate.high_ms / estimate.mean_ms, 1e-4);
  EXPECT_NEAR(factor(std::nullopt, guessed), factor(0.9, guessed), 1e-9);
  EXPECT_GT(factor(0.9, guessed), 1.3);
  EXPECT_GT(factor(0.9, measured), 1);
}

}  // namespace
}  // namespace tangram::learn
