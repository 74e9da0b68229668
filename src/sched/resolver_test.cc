#include "sched/resolver.h"

#include <gtest/gtest.h>

#include "sched/test_parts.h"

namespace tangram::sched {
namespace {

using namespace std::chrono_literals;
using testing::Notes;
using testing::Parts;

// One 7g: 4 ms for one sample.
testing::FixtureConfig resolver_config(double correction_weight = 0) {
  testing::FixtureConfig config;
  config.scheduler.correction_weight = correction_weight;
  return config;
}

TEST(Resolver, GivesTheRecordOfARejectedRequestBack) {
  Parts parts(resolver_config());
  parts.resolver.reject(parts.request(1s), RejectReason::queue_full);
  EXPECT_EQ(parts.world.notes, Notes{"r0 rejected"});
  EXPECT_EQ(parts.state.store.used(), 0u);
}

// The only slice is idle: an answer could be ready 4 ms from now.
TEST(Resolver, SaysWhenALateRequestCouldHaveBeenAnswered) {
  Parts parts(resolver_config());
  parts.resolver.reject_late(parts.request(1ms));
  EXPECT_EQ(parts.world.outcomes[0].reason, RejectReason::too_late);
  EXPECT_EQ(parts.world.outcomes[0].earliest, kTimeZero + 4ms);
}

TEST(Resolver, AnswersLateAfterTheDeadlineAndInTimeAtIt) {
  Parts parts(resolver_config());
  parts.state.now = kTimeZero + 10ms;
  const std::vector<const Request*> members{&parts.request(10ms)->request, &parts.request(9ms)->request};
  Batch batch;
  batch.members = members;
  parts.resolver.answer(batch);
  EXPECT_EQ(parts.world.notes, (Notes{"r0 served", "r1 late"}));
}

// 3 ms are too short for a run of 4 ms on an idle slice: such a client is not the service's loss. 5 ms are not.
TEST(Resolver, CountsNoLossForARequestThatCouldNotBeInTimeAtAnyLoad) {
  Parts parts(resolver_config());
  parts.resolver.reject_late(parts.request(3ms));
  EXPECT_EQ(parts.state.services[0].lost_share, 0);
  parts.resolver.reject_late(parts.request(5ms));
  EXPECT_GT(parts.state.services[0].lost_share, 0);
}

// A stalled run made the correction 1 + 0.1 * (2 - 1) = 1.1. While a slice is idle and the plan's own p99 of 4 ms fits,
// each rejection takes a tenth of the excess back: 1.09.
TEST(Resolver, DoubtsACorrectionThatRejectsWhatAnIdleSliceCouldServe) {
  Parts parts(resolver_config(0.1));
  parts.state.corrections.learn(0, 0, 1, 2, 0);
  EXPECT_DOUBLE_EQ(parts.state.corrections.factor(0, 0, 1), 1.1);
  parts.resolver.reject_late(parts.request(4ms));
  EXPECT_DOUBLE_EQ(parts.state.corrections.factor(0, 0, 1), 1.09);
  parts.resolver.reject_late(parts.request(3ms));  // Shorter than the p99: rejected for good reason.
  EXPECT_DOUBLE_EQ(parts.state.corrections.factor(0, 0, 1), 1.09);
}

}  // namespace
}  // namespace tangram::sched
