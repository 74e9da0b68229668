#include "formats/training_job.h"

#include <gtest/gtest.h>

namespace tangram::formats {
namespace {

std::string job_problems(const std::string& text) {
  const auto job = parse_training_job({"job.yaml", text});
  return job ? "" : job.error().message;
}

TEST(TrainingJobFile, ReadsEveryKeyAndWritesItBack) {
  const auto job = parse_training_job(
      {"job.yaml",
       "name: digits\ncommand: python3 train.py --text 'two words'\ndirectory: /work\nlogical_workers: 4\nthreads: 2\n"
       "slices: {min: 2, max: 3, profiles: [1c, 2c]}\ncheckpoint: /srv/state\ncheckpoint_every_s: 5\npriority: 7\n"
       "deadline: 2027-01-31\nadaptive: false\nrecall_max_ms: 250\nsteps: 1000\n"});
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->command, (std::vector<std::string>{"python3", "train.py", "--text", "two words"}));
  EXPECT_EQ(job->script_arguments(), (std::vector<std::string>{"--text", "two words"}));
  EXPECT_EQ(job->slices, (TrainingJobSlices{2, 3, {"1c", "2c"}}));
  EXPECT_EQ(job->deadline, 1801353600);
  EXPECT_EQ(job->recall_max_ms, 250);
  const auto again = parse_training_job({"again.yaml", write_training_job(*job)});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, *job);
}

TEST(TrainingJobFile, TellsElasticFromRestartableCommands) {
  const auto elastic = [](const std::string& command) {
    const auto job = parse_training_job({"job.yaml", "name: a\ncommand: " + command + "\n"});
    return job && job->elastic();
  };
  EXPECT_TRUE(elastic("python3 train.py"));
  EXPECT_TRUE(elastic("/usr/bin/python3.11 a/train.py --epochs 3"));
  EXPECT_FALSE(elastic("./train.sh"));
  EXPECT_FALSE(elastic("python3 -m train"));
}

TEST(TrainingJobFile, ReportsProblemsWithTheirLines) {
  EXPECT_NE(job_problems("name: a\ncommand: python3 'train.py\n").find("job.yaml:2"), std::string::npos);
  EXPECT_NE(job_problems("name: a\ncommand: x\nslices: {min: 3, max: 2}\n").find("min is at most max"),
            std::string::npos);
  EXPECT_NE(job_problems("name: a\ncommand: x\nslcies: {}\n").find("job.yaml:3"), std::string::npos);
  EXPECT_NE(job_problems("name: a\ncommand: x\nadaptive: true\n").find("job.yaml:3"), std::string::npos);
  EXPECT_NE(job_problems("name: a\ncommand: x\ndeadline: soon\n").find("job.yaml:3"), std::string::npos);
}

}  // namespace
}  // namespace tangram::formats
