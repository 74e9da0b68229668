#include "experiments/pollux.h"

#include <gtest/gtest.h>

#include "train/test_application.h"

namespace tangram::experiments {
namespace {

train::Applications one_short_application() {
  train::Applications applications;
  applications.emplace("short", train::test_application("short", 5));
  return applications;
}

formats::ClusterJob asking_for(const char* name, std::int64_t replicas) {
  return {.name = name,
          .submit_s = 0,
          .application = "short",
          .replicas = replicas,
          .batch = 64,
          .kind = formats::JobKind::training,
          .duration_s = std::nullopt};
}

// An epoch of 100 small steps on one GPU: each 64 samples in 0.02 + 0.064 = 0.084 s, so 8.4 s at the smallest batch,
// and no batch is four times as fast. The job is submitted at 7 s, starts at 60 s and restarts for 30 s.
TEST(Pollux, EndsALoneJobWhenItsWorkIsDone) {
  const auto applications = one_short_application();
  const std::vector<formats::ClusterJob> jobs{
      {.name = "a", .submit_s = 7, .application = "short", .replicas = 1, .batch = 64, .duration_s = std::nullopt}};
  PolluxRun run;
  run.allocator = "tiresias";
  const auto result = run_pollux(applications, jobs, run);
  // 5 epochs of 8.4 s, each rounded to a second: 40 s.
  EXPECT_EQ(result.jct_mean_s, 53 + 30 + 40);
  EXPECT_EQ(result.restarts_per_job, 0);
}

// Tiresias gives what was asked for, so a job of 65 GPUs waits for ever on 64 of them.
TEST(Pollux, NamesAJobThatNeverEnds) {
  PolluxRun run;
  run.allocator = "tiresias";
  run.interval_s = 3600;  // A year passes soon.
  const auto result = run_pollux(one_short_application(), {asking_for("small", 1), asking_for("large", 65)}, run);
  EXPECT_EQ(result.unfinished, "large");
  EXPECT_GT(result.jcts_s[0], 0);
}

}  // namespace
}  // namespace tangram::experiments
