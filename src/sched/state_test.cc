#include "sched/state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sched/test_fixture.h"

namespace tangram::sched {
namespace {

using ::testing::HasSubstr;

// One 7g for one service of two buckets.
class StateTest : public ::testing::Test {
 protected:
  static Deployment deployment() {
    testing::FixtureConfig config;
    config.services = {{.edges = {16, 64}}};
    return deployment_of(config, {"7g@0"});
  }
  Waiting* request(std::uint32_t bucket) {
    Request made;
    made.service = ServiceId(0);
    return state_.store.take(made, bucket);
  }

  State state_{deployment(), 100, 0};
};

TEST_F(StateTest, IsRightWhenNothingWaitsAndWhenARequestWaitsInItsLane) {
  EXPECT_EQ(state_.check(), "");
  state_.lane_insert(state_.lane_of(ServiceId(0), 1, 1), request(1));
  ++state_.waiting_count;
  EXPECT_EQ(state_.check(), "");
}

TEST_F(StateTest, FindsARequestThatIsNotCounted) {
  state_.lane_insert(state_.lane_of(ServiceId(0), 1, 1), request(1));
  EXPECT_THAT(state_.check(), HasSubstr("1 requests are in queues, 0 are counted"));
}

TEST_F(StateTest, FindsARequestThatIsInNoQueue) {
  request(0);
  EXPECT_THAT(state_.check(), HasSubstr("the store holds 1 requests; 0 wait and 0 run"));
}

TEST_F(StateTest, FindsARequestInTheLaneOfAnotherBucket) {
  state_.lane_insert(state_.lane_of(ServiceId(0), 0, 1), request(1));
  ++state_.waiting_count;
  EXPECT_THAT(state_.check(), HasSubstr("a request of another lane"));
}

// A sample drains in 7 / 2 = 3.5 ms through the only slice; with twice the backlog the sum is wrong.
TEST_F(StateTest, FindsABacklogThatIsNotTheSumOfItsLanes) {
  state_.lane_insert(state_.lane_of(ServiceId(0), 1, 1), request(1));
  ++state_.waiting_count;
  EXPECT_EQ(state_.services[0].backlog_ns, 3'500'000);
  state_.services[0].backlog_ns *= 2;
  EXPECT_THAT(state_.check(), HasSubstr("its lanes hold 3500000 ns"));
}

TEST_F(StateTest, FindsSlicesThatWentAndWereNotCounted) {
  state_.slices.go_away(SliceId(0), SliceStatus::lent);
  EXPECT_THAT(state_.check(), HasSubstr("0 slices serve it, 1 counted"));
  state_.count_capacity();
  EXPECT_EQ(state_.check(), "");
}

TEST_F(StateTest, FindsABusySliceWithoutABatch) {
  state_.slices.go_busy(SliceId(0), {BatchId(1), ServiceId(0), 0, 1, kTimeZero, Duration(1)});
  EXPECT_THAT(state_.check(), HasSubstr("busy without a batch"));
}

}  // namespace
}  // namespace tangram::sched
