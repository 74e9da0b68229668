#include "serve/call_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sched/background.h"

namespace tangram::serve {
namespace {

using namespace std::chrono_literals;

struct Asked {
  Asked() {
    model.service = ServiceId(0);
    model.name = "rank";
    model.priority = 3;
    call.model = &model;
  }
  ServedModel model;
  Call call;
};

// It arrived at 10 ms and was held until 14 ms. The promise is 50 ms: due at 60 ms, not at 64 ms.
TEST(CallRequest, KeepsTheDeadlineOfACallThatWasHeld) {
  Asked asked;
  asked.call.arrived = TimePoint(10ms);
  const Request request = request_of(asked.call, 50ms, TimePoint(14ms));
  EXPECT_EQ(request.arrival, TimePoint(14ms));
  EXPECT_EQ(request.deadline, TimePoint(60ms));
  EXPECT_EQ(request.priority, 3);
}

TEST(CallRequest, LetsTheClientSetDeadlineAndPriority) {
  Asked asked;
  asked.call.deadline = 5ms;
  asked.call.priority = 1;
  EXPECT_EQ(request_of(asked.call, 50ms, TimePoint(0ms)).deadline, TimePoint(5ms));
  const std::int32_t highest = request_of(asked.call, 50ms, TimePoint(0ms)).priority;
  asked.call.priority = 2;
  EXPECT_EQ(request_of(asked.call, 50ms, TimePoint(0ms)).priority, highest - 1);
  EXPECT_GT(highest - 1, asked.model.priority);
}

// The client ends the call after 20 ms, whatever it or the service says.
TEST(CallRequest, IsNoMorePatientThanTheClient) {
  Asked asked;
  asked.call.patience = 20ms;
  EXPECT_EQ(request_of(asked.call, 50ms, TimePoint(0ms)).deadline, TimePoint(20ms));
  asked.call.deadline = 30ms;
  EXPECT_EQ(request_of(asked.call, 50ms, TimePoint(0ms)).deadline, TimePoint(20ms));
  asked.call.deadline = 5ms;
  EXPECT_EQ(request_of(asked.call, 50ms, TimePoint(0ms)).deadline, TimePoint(5ms));
}

// The promise is for online requests: one in the background waits for a minute.
TEST(CallRequest, IsPatientInTheBackground) {
  Asked asked;
  asked.call.background = 1;
  const Request request = request_of(asked.call, 50ms, TimePoint(0ms));
  EXPECT_EQ(request.deadline, TimePoint(60s));
  EXPECT_EQ(request.priority, sched::kPriorityBackground);
}

// There would have been room 7 ms after the deadline of 20 ms.
TEST(CallRequest, SaysWhenToTryAgainUnlessThatIsNoUse) {
  Asked asked;
  Request request;
  request.deadline = TimePoint(20ms);
  const Outcome late{OutcomeKind::rejected, RejectReason::too_late, TimePoint(27ms)};
  explain_unanswered(asked.call, request, late, false);
  EXPECT_EQ(asked.call.status, CallStatus::refused);
  EXPECT_EQ(asked.call.retry_after, 7ms);
  EXPECT_EQ(asked.call.error, "model 'rank': no slice can answer within 20.000 ms");
  asked.call.retry_after = {};
  explain_unanswered(asked.call, request, late, true);
  EXPECT_EQ(asked.call.retry_after, 0ms);
  EXPECT_THAT(asked.call.error, testing::EndsWith(", not even an idle one"));
}

TEST(CallRequest, SaysWhyTheLastRunFailed) {
  Asked asked;
  const Outcome failed{OutcomeKind::failed, RejectReason::none, kTimeNever};
  explain_unanswered(asked.call, {}, failed, false);
  EXPECT_EQ(asked.call.status, CallStatus::failed);
  asked.call.failure = "there is no room";
  asked.call.upstream_retry_after = 2s;
  explain_unanswered(asked.call, {}, failed, false);
  EXPECT_EQ(asked.call.status, CallStatus::unavailable);
  EXPECT_EQ(asked.call.retry_after, 2s);
  EXPECT_EQ(asked.call.error, "model 'rank': there is no room");
}

}  // namespace
}  // namespace tangram::serve
