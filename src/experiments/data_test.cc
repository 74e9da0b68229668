#include "experiments/data.h"

#include <gtest/gtest.h>

#include "experiments/reproduce.h"
#include "experiments/test_runner.h"
#include "experiments/training_workloads.h"

namespace tangram::experiments {
namespace {

Error missing() { return {ErrorCode::not_found, "data/profiles.csv: cannot read"}; }

TEST(DistinctValues, StandInTheOrderOfTheFile) {
  const auto values = distinct_values({"s.csv", "scenario,model\nSLO2,a\nSLO1,b\nSLO2,c\n"}, "scenario");
  ASSERT_TRUE(values);
  EXPECT_EQ(*values, (std::vector<std::string>{"SLO2", "SLO1"}));
}

TEST(DistinctValues, NeedTheColumn) {
  EXPECT_EQ(distinct_values({"s.csv", "model\na\n"}, "scenario").error().message,
            "s.csv:1:1: column scenario is missing");
  EXPECT_EQ(distinct_values({"s.csv", ""}, "scenario").error().message, "s.csv: the file is empty");
}

// The error of reading a file is the answer of the experiment that needs it.
TEST(Reproduce, FailsWithTheErrorOfTheFirstFileThatIsMissing) {
  TestRunner runner;
  const Error scenarios{ErrorCode::not_found, "data/scenarios.csv: cannot read"};
  const auto answer = reproduce_parvagpu({.profiles = missing(), .scenarios = scenarios}, runner);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().message, missing().message);
  EXPECT_TRUE(runner.activities.empty());
}

TEST(Reproduce, NeedsOneOfTheDataSetsOfFewShot) {
  TestRunner runner;
  const FewShotInput input{.folder = "data", .hint = "a hint", .datasets = {{"parvagpu", "p.csv", missing()}}};
  const auto answer = reproduce_few_shot(input, runner);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::not_found);
  EXPECT_EQ(answer.error().message, missing().message + "\na hint");
}

TEST(Workloads, LeaveEmptyFilesOutWithAWarning) {
  TestRunner runner;
  const train::Applications none;
  const Folder folder{"data/deepboot", std::vector<formats::Source>{{"data/deepboot/a.csv", " \n"}}};
  const auto workloads = workloads_of(folder, {"deepboot", none, 64}, runner);
  EXPECT_EQ(runner.warnings, std::vector<std::string>{"data/deepboot/a.csv: is empty and left out"});
  ASSERT_FALSE(workloads);
  EXPECT_EQ(workloads.error().message, "data/deepboot: every .csv file is empty");
}

// The job stands on line 3 of its file. A synthetic workload has no file, only a name.
TEST(UnfinishedError, NamesTheLineOfTheJob) {
  std::vector<formats::ClusterJob> jobs(2);
  jobs[0].name = "a";
  jobs[1].name = "b";
  const std::vector<TrainingWorkload> workloads{{"small", jobs, {"data/small.csv", {2, 3}}}};
  EXPECT_TRUE(
      unfinished_error(workloads, "small", "b", "pollux").message.starts_with("data/small.csv:3: b does not end"));
  EXPECT_TRUE(unfinished_error(workloads, "10x", "r", "ours").message.starts_with("10x: r does not end under ours"));
}

}  // namespace
}  // namespace tangram::experiments
