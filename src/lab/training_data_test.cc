#include "lab/training_data.h"

#include <gtest/gtest.h>

#include "train/test_application.h"

namespace tangram::lab {
namespace {

formats::ClusterJob job_asking(const char* name, std::int64_t replicas) {
  return {.name = name,
          .submit_s = 0,
          .application = "short",
          .replicas = replicas,
          .batch = 64,
          .kind = formats::JobKind::training,
          .duration_s = std::nullopt};
}

train::Applications short_application() {
  train::Applications applications;
  applications.emplace("short", train::test_application("short", 5));
  return applications;
}

// The header stands on line 1, and lines 2 and 4 are empty.
TEST(RowLines, CountTheLinesThatReadersPassOver) {
  EXPECT_EQ(formats::row_lines({"jobs.csv", "name,time\n\na,1\n\nb,2\n"}), (std::vector<int>{3, 5}));
}

TEST(JobsOfAFile, AreRefusedWithTheirLineIfTheyAskForMoreThanTheCluster) {
  const JobsOrigin origin{"w.csv", {2, 4}};
  EXPECT_TRUE(check_jobs_fit(origin, {job_asking("a", 64)}, 64).ok());
  const auto fit = check_jobs_fit(origin, {job_asking("a", 64), job_asking("b", 65)}, 64);
  ASSERT_FALSE(fit.ok());
  EXPECT_EQ(fit.error().code, ErrorCode::invalid);
  EXPECT_EQ(fit.error().message, "w.csv:4: the job b asks for 65 GPUs, but the cluster has 64");
}

// A year has 31,536,000 s; the request comes at 10 s and lasts 1e8 s.
TEST(JobsOfAFile, AreRefusedWithTheirLineIfTheyCannotEndWithinAYear) {
  formats::ClusterJob late = job_asking("late", 1);
  late.submit_s = 9e8;
  formats::ClusterJob request = job_asking("request", 1);
  request.kind = formats::JobKind::inference;
  request.submit_s = 10;
  request.duration_s = 1e8;
  const JobsOrigin origin{"w.csv", {2}};
  for (const auto& job : {late, request}) {
    const auto fit = check_jobs_fit(origin, {job}, 64);
    ASSERT_FALSE(fit.ok()) << job.name;
    EXPECT_TRUE(fit.error().message.starts_with("w.csv:2: " + job.name + " cannot end")) << fit.error().message;
  }
}

TEST(JobsOfAFile, AreRefusedWithTheirLineIfTheirApplicationIsUnknown) {
  formats::ClusterJob other = job_asking("b", 1);
  other.application = "gpt9";
  const auto known = check_applications({"w.csv", {2, 3}}, {job_asking("a", 1), other}, short_application());
  ASSERT_FALSE(known.ok());
  EXPECT_EQ(known.error().code, ErrorCode::invalid);
  EXPECT_EQ(known.error().message, "w.csv:3: the application gpt9 has no traces");
}

}  // namespace
}  // namespace tangram::lab
