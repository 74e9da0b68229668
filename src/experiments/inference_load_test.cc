#include "experiments/inference_load.h"

#include <gtest/gtest.h>

namespace tangram::experiments {
namespace {

TEST(InferenceLoad, HasTheRateAndDurationsThatItSays) {
  for (const auto& load : heavier_loads()) {
    const auto jobs = make_inference(load, {"a", "b"}, 1);
    ASSERT_EQ(static_cast<int>(jobs.size()), load.requests);
    double sum = 0;
    for (const auto& job : jobs) sum += *job.duration_s;
    EXPECT_NEAR(sum / load.requests, (load.duration_min_s + load.duration_max_s) / 2.0, 0.2) << load.name;
    EXPECT_NEAR(jobs.back().submit_s / load.requests / load.gap_mean_s, 1, 0.05) << load.name;
  }
}

}  // namespace
}  // namespace tangram::experiments
