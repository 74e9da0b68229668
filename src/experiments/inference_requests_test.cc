#include "experiments/inference_requests.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tangram::experiments {
namespace {

formats::ClusterJob request(const char* name, double submit_s, const char* application, double duration_s) {
  return {.name = name,
          .submit_s = submit_s,
          .application = application,
          .kind = formats::JobKind::inference,
          .duration_s = duration_s};
}

// The job named second comes first; its application was named second and keeps that number.
TEST(InferenceRequests, AreNumberedBySubmissionAndTheirApplicationsByName) {
  const InferenceRequests requests({request("late", 9, "a", 5), request("early", 3, "b", 0)});
  EXPECT_EQ(requests.applications(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(requests.at(0).name, "early");
  EXPECT_EQ(requests.at(0).application, 1);
  EXPECT_EQ(requests.at(0).duration_s, 1);  // At least a second.
  EXPECT_EQ(requests.next_submit_s(), 3);
}

TEST(InferenceRequests, ThatNobodyPlacesStayPending) {
  InferenceRequests requests({request("a", 1, "x", 5), request("b", 2, "x", 5), request("c", 9, "x", 5)});
  int arrived = 0;
  requests.admit(2, [&](const auto&) { ++arrived; });
  EXPECT_EQ(arrived, 2);
  // While they are offered, those that were accepted count still.
  requests.place([&](std::size_t i) {
    EXPECT_EQ(requests.pending().size(), 2U);
    return i == 0;
  });
  EXPECT_EQ(requests.pending(), std::vector<std::size_t>{1});
  EXPECT_EQ(requests.unfinished(), "b");
  requests.place([](std::size_t) { return true; });
  EXPECT_EQ(requests.unfinished(), "c");  // The next to be submitted.
}

TEST(InferenceRequests, HaveAllEndedWhenAsManyEndedAsThereWere) {
  InferenceRequests requests({request("short", 1, "x", 2), request("long", 1, "x", 50)});
  requests.admit(1, [](const auto&) {});
  requests.place([](std::size_t) { return true; });
  EXPECT_TRUE(std::isinf(requests.next_submit_s()));
  requests.end(1);
  EXPECT_FALSE(requests.all_ended());
  EXPECT_EQ(requests.unfinished(), "long");
  requests.end(1);
  EXPECT_TRUE(requests.all_ended());
}

}  // namespace
}  // namespace tangram::experiments
