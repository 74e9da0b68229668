#include "serve/ledger.h"

#include <gtest/gtest.h>

namespace tangram::serve {
namespace {

using namespace std::chrono_literals;

struct Counted {
  Counted() {
    model.service = ServiceId(0);
    call.model = &model;
  }
  ServedModel model;
  Call call;
  Ledger ledger{1, 1, 5000};
};

// Two samples of size 30 were padded to 32 and ran 2 ms of the 7 ms that the request was here: 5 ms in the queue. Wall
// time 5,000 ms at the start plus 10 ms.
TEST(Ledger, SplitsTheTimeOfAnAnswerIntoQueueAndCompute) {
  Counted counted;
  counted.call.samples = 2;
  counted.call.size = 30;
  counted.call.padded_size = 32;
  counted.call.arrived = TimePoint(3ms);
  counted.call.compute = 2ms;
  counted.ledger.count_ended(counted.call, {OutcomeKind::served, RejectReason::none, kTimeNever}, false,
                             TimePoint(10ms));
  const ServiceTally& tally = counted.ledger.services()[0];
  EXPECT_EQ(tally.outcomes[0], 1u);
  EXPECT_EQ(tally.samples, 2u);
  EXPECT_EQ(tally.latency.sum_ns(), 7'000'000);
  EXPECT_EQ(tally.queue.sum_ns(), 5'000'000);
  EXPECT_EQ(tally.compute.sum_ns(), 2'000'000);
  EXPECT_EQ(tally.size_real, 60);
  EXPECT_EQ(tally.size_padded, 64);
  EXPECT_EQ(tally.last_ms, 5010);
}

TEST(Ledger, DoesNotHoldImpossibleRequestsAgainstThePromise) {
  Counted counted;
  const Outcome too_late{OutcomeKind::rejected, RejectReason::too_late, kTimeNever};
  counted.ledger.count_ended(counted.call, too_late, true, TimePoint(1s));
  EXPECT_EQ(counted.ledger.services()[0].never_in_time, 1u);
  EXPECT_EQ(counted.ledger.services()[0].attainment.ratio(TimePoint(1s)), 1);
  counted.ledger.count_ended(counted.call, too_late, false, TimePoint(1s));
  EXPECT_EQ(counted.ledger.services()[0].attainment.ratio(TimePoint(1s)), 0);
  EXPECT_EQ(counted.ledger.services()[0].rejected[static_cast<std::size_t>(RejectReason::too_late)], 2u);
}

TEST(Ledger, CountsTheBackgroundApart) {
  Counted counted;
  counted.call.background = 1;
  counted.ledger.count_ended(counted.call, {OutcomeKind::late, RejectReason::none, kTimeNever}, false, TimePoint(1s));
  counted.ledger.count_batch({SliceId(0), ServiceId(0), 4, true, 3ms});
  const ServiceTally& tally = counted.ledger.services()[0];
  EXPECT_EQ(tally.background[1], 1u);
  EXPECT_EQ(tally.outcomes[1] + tally.batches + tally.samples, 0u);
  // The slice ran it all the same.
  EXPECT_EQ(counted.ledger.slices()[0].batches, 1u);
  EXPECT_EQ(counted.ledger.slices()[0].busy_ns, 3'000'000);
}

TEST(Ledger, DoesNotCountABatchThatWasRejectedUpstreamAsAFailure) {
  Counted counted;
  counted.ledger.count_failed_batch(SliceId(0), 1ms, false);
  EXPECT_EQ(counted.ledger.slices()[0].failures, 0u);
  counted.ledger.count_failed_batch(SliceId(0), 1ms, true);
  EXPECT_EQ(counted.ledger.slices()[0].failures, 1u);
  EXPECT_EQ(counted.ledger.slices()[0].busy_ns, 2'000'000);
}

}  // namespace
}  // namespace tangram::serve
