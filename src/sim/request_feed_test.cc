#include "sim/request_feed.h"

#include <gtest/gtest.h>

#include <set>

#include "sim/event_kind.h"

namespace tangram::sim {
namespace {

using namespace std::chrono_literals;

Workload poisson(double rate_per_s) {
  Workload workload;
  Service& service = workload.services.emplace_back();
  service.name = service.model = "s";
  service.slo.latency = 50ms;
  service.priority = 3;
  service.traffic = PoissonTraffic{rate_per_s};
  return workload;
}

Workload closed_loop(int clients) {
  Workload workload = poisson(1);
  workload.services[0].traffic = ClosedLoopTraffic{clients};
  return workload;
}

// Lets everything come that is queued, and answers it.
std::vector<Request> drain(RequestFeed& feed, EventQueue& queue) {
  std::vector<Request> requests;
  while (!queue.empty()) requests.push_back(feed.arrive(queue.pop()));
  return requests;
}

TEST(RequestFeed, NumbersRequestsInTheOrderOfTheirArrival) {
  const Workload workload = poisson(100);
  EventQueue queue;
  RequestFeed feed(workload, {.requests_max = 50}, Rng(1), queue);
  feed.start();
  EXPECT_EQ(feed.pending(), 1u);
  const auto requests = drain(feed, queue);
  ASSERT_EQ(requests.size(), 50u);
  EXPECT_EQ(feed.made(), 50u);
  EXPECT_EQ(feed.pending(), 0u);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(requests[i].id.value(), i);
    EXPECT_EQ(requests[i].priority, 3);
    EXPECT_EQ(requests[i].deadline, requests[i].arrival + 50ms);
    EXPECT_GE(requests[i].arrival, i == 0 ? kTimeZero : requests[i - 1].arrival);
  }
  EXPECT_EQ(feed.share_done(requests.back().arrival), 1);
}

// The duration cuts the arrivals off, so rates are over the whole of it; a run that was stopped counts to the last.
TEST(RequestFeed, CountsOverTheDurationThatEndedIt) {
  const Workload workload = poisson(100);
  EventQueue queue;
  RequestFeed feed(workload, {.duration = 2s}, Rng(1), queue);
  feed.start();
  const auto requests = drain(feed, queue);
  EXPECT_GT(requests.size(), 100u);
  const TimePoint last = requests.back().arrival;
  EXPECT_LE(last, TimePoint(2s));
  EXPECT_EQ(feed.counted(last, true), 2s);
  EXPECT_EQ(feed.counted(last, false), last - kTimeZero);
}

// Ten of the warm-up: the counted time begins with the arrival of the tenth.
TEST(RequestFeed, LeavesTheWarmUpOutOfTheCountedTime) {
  const Workload workload = poisson(100);
  EventQueue queue;
  RequestFeed feed(workload, {.requests_max = 30, .warmup_requests = 10}, Rng(1), queue);
  feed.start();
  const auto requests = drain(feed, queue);
  EXPECT_EQ(feed.counted(requests.back().arrival, true), requests.back().arrival - requests[9].arrival);
}

// Three clients ask, and each again when it is answered. One that is rejected waits a millisecond, or a loop without
// thought would ask for ever in one instant.
TEST(RequestFeed, LetsAClientAskAgainWhenItIsAnswered) {
  const Workload workload = closed_loop(3);
  EventQueue queue;
  RequestFeed feed(workload, {.requests_max = 5}, Rng(1), queue);
  feed.start();
  EXPECT_EQ(feed.pending(), 3u);
  const auto first = drain(feed, queue);
  ASSERT_EQ(first.size(), 3u);
  const TimePoint now = kTimeZero + 10ms;
  feed.resolved(first[0], OutcomeKind::served, now);
  feed.resolved(first[1], OutcomeKind::rejected, now);
  feed.resolved(first[2], OutcomeKind::late, now);  // The sixth is beyond the limit.
  const auto second = drain(feed, queue);
  ASSERT_EQ(second.size(), 2u);
  EXPECT_EQ(second[0].arrival, now);
  EXPECT_EQ(second[1].arrival, now + 1ms);
}

TEST(RequestFeed, DealsRequestsToEveryTenant) {
  const Workload workload = poisson(100);
  EventQueue queue;
  RequestFeed feed(workload, {.requests_max = 200, .tenants = 4}, Rng(1), queue);
  feed.start();
  std::set<std::uint32_t> tenants;
  for (const auto& request : drain(feed, queue)) tenants.insert(request.tenant.value());
  EXPECT_EQ(tenants, (std::set<std::uint32_t>{0, 1, 2, 3}));
}

}  // namespace
}  // namespace tangram::sim
