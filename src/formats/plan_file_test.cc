#include "formats/plan_file.h"

#include <gtest/gtest.h>

#include "formats/detail/files_test.h"

namespace tangram::formats {
namespace {

std::string problems(const std::string& devices) {
  const auto plan = parse_plan({"p.json", "{\"version\": 1, \"devices\": [\n" + devices + "\n]}"});
  return plan ? "" : plan.error().message;
}

TEST(PlanFile, OfTheExamplesReadsBackTheSameBytes) {
  const Source source = test::example("plan.json");
  const auto plan = parse_plan(source);
  ASSERT_TRUE(plan) << plan.error().message;
  ASSERT_EQ(plan->devices.size(), 3U);
  EXPECT_EQ(plan->devices[0].slices[0].replicas[0].buckets[1], (PlannedBucket{512, 2}));
  EXPECT_EQ(plan->devices[0].slices[1].replicas[0].processes, 2);
  EXPECT_EQ(write_plan(*plan), source.text);
  EXPECT_EQ(*parse_plan({"again", write_plan(*plan)}), *plan);
}

TEST(PlanFile, ReportsSlicesThatDisagreeWithTheLayout) {
  EXPECT_EQ(problems("{\"name\": \"a\", \"type\": \"a30\", \"layout\": \"2g.12gb@0\", \"slices\": []}"),
            "p.json:2:63: slices describes empty, but layout describes 2g.12gb@0");
}

TEST(PlanFile, PointsAtEachWrongSliceInALayout) {
  EXPECT_EQ(problems("{\"name\": \"a\", \"type\": \"a30\", \"layout\": \"1g.6gb@0 + 2g.12gb@1\", \"slices\": []}"),
            "p.json:2:52: 2g.12gb cannot start at 1; allowed: 0, 2");
}

TEST(PlanFile, ReportsAllProblemsAtOnce) {
  EXPECT_EQ(
      problems("{\"name\": \"a\", \"type\": \"a30\", \"layout\": \"empty\", \"slices\": [], \"colour\": 1},\n"
               "{\"name\": \"a\", \"type\": \"cpu\", \"layout\": \"empty\", \"slices\": []},\n"
               "{\"name\": \"b\", \"type\": \"a30\", \"layout\": \"1g.6gb@0\", \"slices\": [{\"profile\": \"1g.6gb\", "
               "\"start\": 0,\n"
               " \"replicas\": [{\"service\": \"s\", \"buckets\": [{\"size_max\": 8, \"batch_size\": 1}, "
               "{\"size_max\": 8, \"batch_size\": 1}]}]}]}"),
      "p.json:2:63: key is unknown: \"colour\"; known: name, type, cores, memory_gib, quota, layout, slices\n"
      "p.json:3:1: a device of type cpu needs cores, memory_gib and quota\n"
      "p.json:3:10: the name a is already used by the device in line 2\n"
      "p.json:5:43: buckets of s must ascend in size_max");
}

// A wrong number counts as absent, so no geometry of no cores is ever made.
TEST(PlanFile, RefusesAHostWithoutCores) {
  EXPECT_EQ(problems("{\"name\": \"h\", \"type\": \"cpu\", \"cores\": 0, \"memory_gib\": 1, \"quota\": true, "
                     "\"layout\": \"empty\", \"slices\": []}"),
            "p.json:2:39: cores must be at least 1, not 0");
}

// A wrong size_max is no size: whether the buckets ascend is judged by the others, 9 and 8.
TEST(PlanFile, ReportsWhatDoesNotGoTogetherBesideWhatIsWrong) {
  EXPECT_EQ(problems("{\"name\": \"a\", \"type\": \"a30\", \"layout\": \"empty\", \"slices\":\n"
                     "[{\"profile\": \"1g.6gb\", \"start\": 0, \"replicas\": [{\"service\": \"s\", \"buckets\":\n"
                     "[{\"size_max\": 9, \"batch_size\": 0}, {\"size_max\": 0, \"batch_size\": 1},\n"
                     "{\"size_max\": 8, \"batch_size\": 1}]}]}]}"),
            "p.json:3:1: slices describes 1g.6gb@0, but layout describes empty\n"
            "p.json:4:1: buckets of s must ascend in size_max\n"
            "p.json:4:32: batch_size must be at least 1, not 0\n"
            "p.json:4:49: size_max must be at least 1, not 0");
}

TEST(PlanFile, RefusesAnotherVersion) {
  EXPECT_EQ(parse_plan({"p.json", "{\"version\": 2, \"devices\": []}"}).error().message,
            "p.json:1:13: version must be at most 1, not 2");
}

// A host of 1024 cores with quotas has 4096 * 4097 / 2 = 8,390,656 places: four of them are more than 2^25.
TEST(PlanFile, LimitsTheMemoryOfItsHosts) {
  std::string devices;
  for (int i = 0; i < 4; ++i) {
    devices += (i == 0 ? "" : ",\n") + std::string("{\"name\": \"h") + std::to_string(i) +
               "\", \"type\": \"cpu\", \"cores\": 1024, \"memory_gib\": 1, \"quota\": true, \"layout\": \"empty\", "
               "\"slices\": []}";
  }
  EXPECT_EQ(problems(devices), "p.json:5:1: the hosts up to here have more than 33554432 positions for slices");
}

// A plan from before services shared slices says nothing of loading, of rates or of slices that others use. It means
// what it meant. The plan that the tests of the server serve is such a plan.
TEST(PlanFile, FromBeforeSharingMeansWhatItMeant) {
  const Source source = test::example("serving/plan.json");
  for (const char* key : {"\"load\"", "\"rate_max_per_s\"", "\"reserved\""}) {
    ASSERT_EQ(source.text.find(key), std::string::npos) << key << ": the example is no such plan any more";
  }
  const auto plan = parse_plan(source);
  ASSERT_TRUE(plan) << plan.error().message;
  ASSERT_FALSE(plan->devices.empty());
  for (const auto& device : plan->devices) {
    for (const auto& slice : device.slices) {
      EXPECT_FALSE(slice.reserved);
      ASSERT_EQ(slice.replicas.size(), 1U);
      EXPECT_EQ(slice.replicas[0].load, ReplicaLoad::start);
      EXPECT_FALSE(slice.replicas[0].rate_max_per_s);
    }
  }
  EXPECT_EQ(*parse_plan({"again", write_plan(*plan)}), *plan);
}

// A slice that others use has the mark and no replicas; a slice of a plan from before the mark has none.
TEST(PlanFile, KeepsWhatOthersUse) {
  const std::string head =
      "{\"version\": 1, \"devices\": [{\"name\": \"gpu-0\", \"type\": \"a100-80gb\", "
      "\"layout\": \"4g.40gb@0 + 3g.40gb@4\", \"slices\": ["
      "{\"profile\": \"4g.40gb\", \"start\": 0, \"replicas\": []}, "
      "{\"profile\": \"3g.40gb\", \"start\": 4, \"reserved\": true, \"replicas\": [";
  const auto plan = parse_plan({"plan.json", head + "]}]}]}"});
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_FALSE(plan->devices[0].slices[0].reserved);
  EXPECT_TRUE(plan->devices[0].slices[1].reserved);
  const auto again = parse_plan({"plan.json", write_plan(*plan)});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, *plan);
  const auto wrong = parse_plan(
      {"plan.json", head + "{\"service\": \"a\", \"buckets\": [{\"size_max\": 1, \"batch_size\": 1}]}]}]}]}"});
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("a reserved slice has no replicas"), std::string::npos) << wrong.error().message;
}

}  // namespace
}  // namespace tangram::formats
