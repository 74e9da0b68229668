#include "experiments/detail/query_judge.h"

#include <gtest/gtest.h>

namespace tangram::experiments::detail {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kQueries = 20000;

// Query i comes after i ms, finds `waiting(i)` others and is answered after `latency(i)`; zero: rejected.
template <typename WaitingAt, typename LatencyOf>
QueryVerdict judge(WaitingAt waiting, LatencyOf latency) {
  QueryJudge judge(kQueries, 10ms, 32);
  for (std::uint64_t i = 0; i < kQueries; ++i) {
    Request request;
    request.id = RequestId(i);
    request.samples = i % 2 == 0 ? 1 : 20;
    request.arrival = kTimeZero + static_cast<std::int64_t>(i) * 1ms;
    judge.on_arrival(request, waiting(i));
    const Duration took = latency(i);
    const auto kind = took == Duration::zero() ? OutcomeKind::rejected
                      : took <= 10ms           ? OutcomeKind::served
                                               : OutcomeKind::late;
    judge.on_resolved(request, {kind}, request.arrival + took);
  }
  return judge.verdict();
}

// A queue that goes up and down by a period of 70 queries, and never grows.
std::size_t calm(std::uint64_t i) { return i % 70; }

TEST(QueryJudge, AcceptsAQueueThatGoesUpAndDown) {
  EXPECT_TRUE(judge(calm, [](auto) { return 5ms; }).holds_p999());
}

// One query in a thousand stays for good: 9 more wait in the last tenth than in the middle one, of about 35.
TEST(QueryJudge, SeesThatOneQueryInAThousandStarves) {
  const auto verdict = judge([](auto i) { return calm(i) + i / 1000; }, [](auto) { return 5ms; });
  EXPECT_FALSE(verdict.steady);
  EXPECT_FALSE(verdict.holds_p99());
}

// Every 150th query is rejected: the p99 is 5 ms, and the p99.9 is infinite.
TEST(QueryJudge, CountsARejectedQueryAsNeverAnswered) {
  const auto verdict = judge(calm, [](auto i) -> Duration { return i % 150 == 0 ? 0ms : 5ms; });
  EXPECT_TRUE(verdict.holds_p99());
  EXPECT_FALSE(verdict.holds_p999());
  EXPECT_EQ(verdict.p99, 5ms);
  EXPECT_EQ(verdict.p999, Duration::max());
}

// Every 50th query takes 25 ms and every 40th after that 31 ms: 2 % are late, 0.05 % beyond three Slos.
TEST(QueryJudge, TellsTheTwoCriteriaApart) {
  const auto late = [](auto i) -> Duration { return i % 2000 == 1 ? 31ms : i % 50 == 1 ? 25ms : 5ms; };
  EXPECT_TRUE(judge(calm, late).holds_p999());
  const auto later = [](auto i) -> Duration { return i % 500 == 1 ? 31ms : i % 50 == 1 ? 25ms : 5ms; };
  EXPECT_TRUE(judge(calm, later).holds_p99());
  EXPECT_FALSE(judge(calm, later).holds_p999());
}

// Only queries of 20 samples are late, one in 25 of them. The first tenth does not count.
TEST(QueryJudge, CountsWhoIsLateBySamples) {
  const auto verdict = judge(calm, [](auto i) -> Duration { return i % 50 == 1 ? 25ms : 5ms; });
  ASSERT_EQ(verdict.groups.size(), 6U);
  EXPECT_EQ(verdict.groups[0].queries, 9000U);
  EXPECT_EQ(verdict.groups[0].late, 0U);
  EXPECT_EQ(verdict.groups[5].samples_min, 17);
  EXPECT_EQ(verdict.groups[5].samples_max, 32);
  EXPECT_EQ(verdict.groups[5].queries, 9000U);
  EXPECT_EQ(verdict.groups[5].late, 360U);
}

}  // namespace
}  // namespace tangram::experiments::detail
