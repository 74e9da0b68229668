#include "adapters/slurm/slurm_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tangram::adapters {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

PlannedDevice device(const std::string& name, const std::string& type, const std::string& layout) {
  PlannedDevice made;
  made.name = name;
  made.type = type;
  made.geometry = type == "cpu" ? cpu_geometry({.cores = 4, .memory_gib = 8, .quota = true}) : *find_geometry(type);
  for (const auto& slice : parse_layout(made.geometry, layout).layout.slices) made.slices.push_back({slice, {}, false});
  return made;
}

// 1g.10gb: one on the first board, two on the second. 1.5 cores are six quarters, and two whole cores hold them.
TEST(SlurmText, CountsTheSlicesOfEachKind) {
  Plan plan;
  plan.devices = {device("r-0", "a100-80gb", "4g.40gb@0 + 2g.20gb@4 + 1g.10gb@6"),
                  device("r-1", "a100-80gb", "1g.10gb@0 + 1g.10gb@1"), device("h-0", "cpu", "1.5c@0")};
  plan.devices[0].slices[1].reserved = true;
  const auto kinds = *slurm_kinds(plan, {});
  EXPECT_THAT(kinds, ElementsAre(SlurmKind{"4g.40gb", "gpu:4g.40gb:1", 0, 1}, SlurmKind{"1g.10gb", "gpu:1g.10gb:1", 0, 3},
                                 SlurmKind{"1.5c", "", 2, 1}));
  EXPECT_EQ((*slurm_kinds(plan, {{"a100-80gb", "nvidia_a100"}}))[1].gres, "gpu:nvidia_a100_1g.10gb:1");
  EXPECT_FALSE(slurm_kinds(Plan{}, {}).ok());
}

TEST(SlurmText, AsksForOneSliceATask) {
  SlurmJob job;
  job.partition = "infer";
  job.account = "a b";
  job.time_limit = "8:00:00";
  job.sbatch = {"--constraint=x"};
  const auto words = sbatch_arguments(job, {"1g.10gb", "gpu:1g.10gb:1", 0, 7}, 7, {"n2", "n4"});
  EXPECT_EQ(words.front(), "sbatch");
  for (const char* word : {"--array=0-6", "--gres=gpu:1g.10gb:1", "--partition=infer", "--account=a b", "--time=8:00:00",
                           "--exclude=n2,n4", "--comment=tangram:tangram:1g.10gb", "--signal=B:TERM@120", "--parsable"}) {
    EXPECT_THAT(words, Contains(word));
  }
  EXPECT_EQ(words.back(), "--constraint=x");
  EXPECT_THAT(sbatch_arguments(job, {"2c", "", 2, 1}, 1, {}), Contains("--cpus-per-task=2"));
  EXPECT_THAT(sbatch_arguments(job, {"2c", "", 2, 1}, 1, {}), Not(Contains(StartsWith("--exclude"))));
}

// What a shell makes of the words is what was given.
TEST(SlurmText, QuotesTheCommandForTheShell) {
  SlurmJob job;
  job.command = {"/opt/t x", "it's", "$HOME;rm", "{name}"};
  const auto script = sbatch_script(job, {"1g.10gb", "", 0, 1});
  EXPECT_THAT(script, HasSubstr("exec '/opt/t x' 'it'\\''s' '$HOME;rm' \"$TANGRAM_NODE_NAME\"\n"));
  EXPECT_THAT(script, StartsWith("#!/bin/bash\n"));
}

TEST(SlurmText, ReadsTheQueue) {
  SlurmJob job;
  job.name = "chat";
  const auto tasks = *read_squeue(
      "12|0|RUNNING|None|n1|19:53|0:07||tangram:chat:1g.10gb\n"
      "12|1|PENDING|Resources||8:00:00|0:00|n2,n[4,7]|tangram:chat:1g.10gb\n"
      "13|N/A|COMPLETING|None|n1|UNLIMITED|1-00:00:00||tangram:chat:a|b\n"
      "14|0|RUNNING|None|n1|1:00|0:00||tangram:chatter:1g.10gb\n"
      "15|0|RUNNING|None|n1|1:00|0:00||(null)\n",
      job);
  ASSERT_EQ(tasks.size(), 3U);
  EXPECT_EQ(tasks[0], (SlurmTask{"12_0", "1g.10gb", SlurmState::running, "", "n1", minutes(19) + seconds(53), seconds(7), {}}));
  EXPECT_EQ(tasks[1].excluded, (std::set<std::string>{"n2", "n[4,7]"}));
  EXPECT_EQ(tasks[1].reason, "Resources");
  EXPECT_EQ(tasks[2].id, "13");
  EXPECT_EQ(tasks[2].kind, "a|b");
  EXPECT_EQ(tasks[2].time_left, std::nullopt);
  EXPECT_EQ(tasks[2].ran, hours(24));
  EXPECT_FALSE(read_squeue("slurm_load_jobs error: Unable to contact", job).ok());
}

TEST(SlurmText, ReadsTimesAsSlurmPrintsThem) {
  EXPECT_EQ(read_slurm_time("30:00"), minutes(30));
  EXPECT_EQ(read_slurm_time("1-02:03:04"), hours(26) + minutes(3) + seconds(4));
  EXPECT_EQ(read_slurm_time("2-00"), hours(48));
  EXPECT_EQ(read_slurm_time("5"), minutes(5));
  for (const char* text : {"UNLIMITED", "NOT_SET", "INVALID", "", "1:2:3:4", "-1:00", "99999999999999:00"}) {
    EXPECT_EQ(read_slurm_time(text), std::nullopt) << text;
  }
}

TEST(SlurmText, ReadsTheHealthOfNodes) {
  const auto nodes = *read_sinfo("n1|mixed\nn1|mixed\nn2|down*\nn3|draining\nn4|idle*\nn5|drained*\n");
  EXPECT_EQ(nodes.at("n1"), SlurmNodeHealth::good);
  EXPECT_EQ(nodes.at("n2"), SlurmNodeHealth::bad);
  EXPECT_EQ(nodes.at("n3"), SlurmNodeHealth::leaving);
  EXPECT_EQ(nodes.at("n4"), SlurmNodeHealth::bad);
  EXPECT_EQ(nodes.at("n5"), SlurmNodeHealth::bad);
}

TEST(SlurmText, ReadsTheNumberOfASubmittedJob) {
  EXPECT_EQ(*read_sbatch("12\n"), "12");
  EXPECT_EQ(*read_sbatch("12;cluster\n"), "12");
  EXPECT_FALSE(read_sbatch("sbatch: error").ok());
}

TEST(SlurmText, ExplainsReasonsWithDetailsBehindThem) {
  EXPECT_FALSE(slurm_reason_meaning("ReqNodeNotAvail, UnavailableNodes:n2").empty());
  EXPECT_TRUE(slurm_reason_is_final("BadConstraints"));
  EXPECT_FALSE(slurm_reason_is_final("Resources"));
  EXPECT_TRUE(slurm_reason_meaning("SomethingNew").empty());
}

}  // namespace
}  // namespace tangram::adapters
