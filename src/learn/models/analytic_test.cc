#include "learn/models/analytic.h"

#include <gtest/gtest.h>

namespace tangram::learn {
namespace {

using namespace std::chrono_literals;

AnalyticRun encoder() {
  return {.model = "encoder",
          .device = {},
          .launch_ms = 4,
          .sample_ms = 6,
          .size_reference = 64,
          .memory_gib = 2,
          .memory_sample_gib = 0.5};
}

Duration mean_of(const AnalyticModel& model, const RunPoint& point) {
  const auto prediction = model.predict(point);
  EXPECT_TRUE(prediction.has_value());
  return prediction ? prediction->mean : Duration{};
}

// Eight samples of 128 on three compute slices: 6 ms * 8 * 2 / 3 = 32 ms. One of 64 on seven: 6/7 ms, less than a
// launch.
TEST(AnalyticModel, ChargesTheWorkButNeverLessThanALaunch) {
  const AnalyticModel model({encoder()});
  EXPECT_EQ(mean_of(model, {"a100-80gb", "3g.40gb", "encoder", 8, 128, 1}), 32ms);
  EXPECT_EQ(mean_of(model, {"a100-80gb", "7g.80gb", "encoder", 1, 64, 1}), 4ms);
  EXPECT_EQ(model.predict({"a100-80gb", "7g.80gb", "encoder", 1, 64, 1})->p99, 4400us);
}

// A 1g.10gb has between 9 and 10 GiB: 2 + 0.5 * 8 = 6 fit, 2 + 0.5 * 17 = 10.5 do not.
TEST(AnalyticModel, RefusesWhatDoesNotFitIntoTheMemoryOfTheSlice) {
  const AnalyticModel model({encoder()});
  EXPECT_TRUE(model.predict({"a100-80gb", "1g.10gb", "encoder", 8, 64, 1}).has_value());
  EXPECT_FALSE(model.predict({"a100-80gb", "1g.10gb", "encoder", 17, 64, 1}).has_value());
}

// Two cores: 6 ms * 4 / 2 = 12 ms.
TEST(AnalyticModel, CountsCoresOnTheHost) {
  const AnalyticModel model({encoder()});
  EXPECT_EQ(mean_of(model, {"cpu", "2c", "encoder", 4, 64, 1}), 12ms);
  EXPECT_EQ(mean_of(model, {"cpu", "0.5c", "encoder", 1, 64, 1}), 12ms);
}

TEST(AnalyticModel, PrefersTheEntryOfTheDevice) {
  AnalyticRun slow = encoder();
  slow.device = "cpu";
  slow.sample_ms = 60;
  const AnalyticModel model({encoder(), slow});
  EXPECT_EQ(mean_of(model, {"cpu", "2c", "encoder", 1, 64, 1}), 30ms);
  EXPECT_EQ(mean_of(model, {"a30", "1g.6gb", "encoder", 1, 64, 1}), 6ms);
}

TEST(AnalyticModel, KnowsNothingOfOtherModels) {
  const AnalyticModel model({encoder()});
  EXPECT_FALSE(model.predict({"a100-80gb", "1g.10gb", "decoder", 1, 64, 1}).has_value());
  EXPECT_FALSE(model.predict({"a100-80gb", "9g.90gb", "encoder", 1, 64, 1}).has_value());
}

}  // namespace
}  // namespace tangram::learn
