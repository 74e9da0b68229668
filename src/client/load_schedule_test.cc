#include "client/load_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>

namespace tangram::client {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

// Arrivals at these milliseconds, each as large as its instant.
LoadArrivals arrivals_at(std::vector<int> ms) {
  return [left = std::make_shared<std::vector<int>>(ms.rbegin(), ms.rend())]() -> std::optional<LoadArrival> {
    if (left->empty()) return std::nullopt;
    const int at = left->back();
    left->pop_back();
    return LoadArrival{.at = std::chrono::milliseconds(at), .size = at};
  };
}

std::vector<std::int64_t> sizes_of(const std::vector<LoadRequest>& requests) {
  std::vector<std::int64_t> sizes;
  for (const auto& request : requests) sizes.push_back(request.size);
  return sizes;
}

std::vector<std::uint32_t> targets_of(const std::vector<LoadRequest>& requests) {
  std::vector<std::uint32_t> targets;
  for (const auto& request : requests) targets.push_back(request.target);
  return targets;
}

TEST(LoadSchedule, MergesTheArrivalsOfAllTargetsByTheirInstant) {
  const std::array targets{arrivals_at({1, 5, 9, 10}), arrivals_at({2, 5, 30})};
  const auto requests = requests_as_due(targets, LoadMix::http, {.length = 10ms, .requests_max = 100});
  ASSERT_TRUE(requests);
  EXPECT_THAT(sizes_of(*requests), ElementsAre(1, 2, 5, 5, 9));  // 10 is not before the end.
  EXPECT_THAT(targets_of(*requests), ElementsAre(0, 1, 0, 1, 0));
  EXPECT_EQ(requests->back().at, 9ms);
}

TEST(LoadSchedule, SendsEveryOtherRequestByGrpcInAMix) {
  const std::array targets{arrivals_at({1, 2, 3})};
  const auto requests = requests_as_due(targets, LoadMix::both, {.length = 1s, .requests_max = 100});
  ASSERT_TRUE(requests);
  EXPECT_EQ((*requests)[0].protocol, LoadProtocol::http);
  EXPECT_EQ((*requests)[1].protocol, LoadProtocol::grpc);
  EXPECT_EQ((*requests)[2].protocol, LoadProtocol::http);
  EXPECT_EQ(protocol_of(parse_load_mix("grpc"), 0), LoadProtocol::grpc);
  EXPECT_EQ(protocol_of(parse_load_mix("http"), 1), LoadProtocol::http);
}

TEST(LoadSchedule, RefusesARunWithTooManyRequests) {
  const auto count = [](std::size_t requests_max) {
    const std::array targets{arrivals_at({1, 2, 3})};
    return requests_as_due(targets, LoadMix::http, {.length = 1s, .requests_max = requests_max});
  };
  EXPECT_TRUE(count(3));
  ASSERT_FALSE(count(2));
  EXPECT_EQ(count(2).error().message, "more than 2 requests; shorten the run");
}

TEST(LoadSchedule, TakesTargetsInTurnForAClosedLoopUntilNoneHasMore) {
  const auto closed = [](std::size_t count) {
    const std::array targets{arrivals_at({1, 2, 3}), arrivals_at({7})};
    return requests_at_once(targets, count);
  };
  EXPECT_THAT(sizes_of(closed(3)), ElementsAre(1, 7, 2));
  EXPECT_THAT(sizes_of(closed(100)), ElementsAre(1, 7, 2, 3));
  for (const auto& request : closed(100)) EXPECT_EQ(request.at, 0ms);
}

}  // namespace
}  // namespace tangram::client
