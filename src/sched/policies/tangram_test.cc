#include <gtest/gtest.h>

#include "sched/test_fixture.h"

namespace tangram::sched {
namespace {

using namespace std::chrono_literals;
using testing::Batches;
using testing::FixtureConfig;
using testing::SimFixture;

FixtureConfig small_and_large() {
  FixtureConfig config;
  config.layouts = {"1g@0", "7g@0"};
  config.latency = {{"1g", {20ms}}, {"7g", {5ms}}};
  config.scheduler.admission = false;
  config.scheduler.policy_config.bursts_expected = true;
  return config;
}

// n samples take n + 3 ms.
FixtureConfig one_large(std::int64_t samples_max = 8) {
  FixtureConfig config;
  config.latency["7g"].clear();
  for (std::int64_t n = 1; n <= samples_max; ++n) config.latency["7g"].push_back((n + 3) * 1ms);
  config.scheduler.admission = false;
  config.scheduler.policy_config.bursts_expected = true;
  return config;
}

// Two requests of two samples wait until 5 ms and would be promised the slice one after the other, since both together
// end at 12 ms and the first has until 11 ms. Where no bursts are expected, they are promised nothing: request 3, of
// one sample, comes at 4 ms and fills the batch of request 1, which ends at 5 + 6 = 11 ms.
TEST(Tangram, RequestsOfSeveralSamplesWaitTogetherUntilThereAreBursts) {
  for (const bool bursts : {true, false}) {
    auto config = one_large();
    config.scheduler.policy_config.bursts_expected = bursts;
    SimFixture sim(config);
    sim.arrive({.at = 0ms, .deadline = 100ms, .samples = 2});
    sim.arrive({.at = 1ms, .deadline = 11ms, .samples = 2});
    sim.arrive({.at = 2ms, .deadline = 100ms, .samples = 2});
    sim.arrive({.at = 4ms, .deadline = 100ms, .samples = 1});
    EXPECT_EQ(sim.run().batches, bursts ? (Batches{{0}, {1}, {2, 3}}) : (Batches{{0}, {1, 3}, {2}}));
  }
}

// A service that promises 99 % loses 99 of 100 requests that come at once, more than a tenth of the last 512. From then
// on two requests of two samples are promised the slice, as in the test above.
TEST(Tangram, ExpectsBurstsAfterALargeLoss) {
  auto config = one_large();
  config.scheduler.policy_config.bursts_expected = false;
  SimFixture sim(config);
  for (int n = 0; n < 100; ++n) sim.arrive({.at = 0ms, .deadline = 6ms, .samples = 2});
  sim.arrive({.at = 100ms, .deadline = 200ms, .samples = 2});
  sim.arrive({.at = 101ms, .deadline = 111ms, .samples = 2});
  sim.arrive({.at = 102ms, .deadline = 200ms, .samples = 2});
  sim.arrive({.at = 104ms, .deadline = 200ms, .samples = 1});
  EXPECT_EQ(sim.run().batches, (Batches{{0}, {100}, {101}, {102, 103}}));
}

TEST(Tangram, TakesTheSmallestIdleSliceThatIsInTime) {
  SimFixture sim(small_and_large());
  sim.arrive({.at = 0ms, .deadline = 15ms});
  sim.arrive({.at = 0ms, .deadline = 25ms});
  EXPECT_EQ(sim.run().slices, (std::vector<std::uint32_t>{1, 0}));
}

// Requests of two and three samples wait for the slice, which is busy until 5 ms. Together they take 8 ms, which no
// deadline forbids.
TEST(Tangram, JoinsTheOpenBatchOfItsBucket) {
  SimFixture sim(one_large());
  sim.arrive({.at = 0ms, .deadline = 100ms, .samples = 2});
  sim.arrive({.at = 1ms, .deadline = 100ms, .samples = 2});
  sim.arrive({.at = 2ms, .deadline = 100ms, .samples = 3});
  const auto run = sim.run();
  EXPECT_EQ(run.batches, (Batches{{0}, {1, 2}}));
  EXPECT_EQ(run.starts[1], 5ms);
}

// Alone request 1 ends at 5 + 5 = 10 ms, with request 2 at 5 + 8 = 13 ms: past its deadline at 11 ms.
TEST(Tangram, JoinsNoBatchWhoseDeadlineItWouldBreak) {
  SimFixture sim(one_large());
  sim.arrive({.at = 0ms, .deadline = 100ms, .samples = 2});
  sim.arrive({.at = 1ms, .deadline = 11ms, .samples = 2});
  sim.arrive({.at = 2ms, .deadline = 100ms, .samples = 3});
  const auto run = sim.run();
  EXPECT_EQ(run.batches, (Batches{{0}, {1}, {2}}));
  EXPECT_EQ(run.outcomes, std::vector<OutcomeKind>(3, OutcomeKind::served));
}

// Request 2 joins request 1: four samples end at 5 + 7 = 12 ms, by its deadline at 13 ms. With request 3 there would be
// six, which end at 14 ms; that request 1 has until 100 ms does not matter any more.
TEST(Tangram, KeepsThePromiseToThoseThatJoined) {
  SimFixture sim(one_large());
  sim.arrive({.at = 0ms, .deadline = 100ms, .samples = 2});
  sim.arrive({.at = 1ms, .deadline = 100ms, .samples = 2});
  sim.arrive({.at = 2ms, .deadline = 13ms, .samples = 2});
  sim.arrive({.at = 3ms, .deadline = 100ms, .samples = 2});
  const auto run = sim.run();
  EXPECT_EQ(run.batches, (Batches{{0}, {1, 2}, {3}}));
  EXPECT_EQ(run.outcomes, std::vector<OutcomeKind>(4, OutcomeKind::served));
}

// Eight samples are the limit of the plan: 2 + 3 + 3 fill the batch, the next opens another.
TEST(Tangram, FillsABatchUpToThePlannedSize) {
  SimFixture sim(one_large());
  for (const int samples : {2, 2, 3, 3, 1}) sim.arrive({.at = 0ms, .deadline = 100ms, .samples = samples});
  EXPECT_EQ(sim.run().batches, (Batches{{0}, {1, 2, 3}, {4}}));
}

// At 10 ms request 1 would end at 20 ms, past its deadline. It is set aside, request 2 ends at 20 ms in time, and only
// then does request 1 run.
TEST(Tangram, SetsLateRequestsAside) {
  auto config = one_large();
  config.latency["7g"] = {10ms};
  config.scheduler.policy_config.drop_unrecoverable = false;
  SimFixture sim(config);
  sim.arrive({.at = 0ms, .deadline = 10ms});
  sim.arrive({.at = 1ms, .deadline = 12ms});
  sim.arrive({.at = 2ms, .deadline = 25ms});
  const auto run = sim.run();
  EXPECT_EQ(run.batches, (Batches{{0}, {2}, {1}}));
  EXPECT_EQ(run.outcomes, (std::vector{OutcomeKind::served, OutcomeKind::late, OutcomeKind::served}));
}

// The same where rejecting is allowed: the answer comes as soon as it is known, at 10 ms.
TEST(Tangram, RejectsLateRequestsWhereItMay) {
  auto config = one_large();
  config.latency["7g"] = {10ms};
  SimFixture sim(config);
  sim.arrive({.at = 0ms, .deadline = 10ms});
  sim.arrive({.at = 1ms, .deadline = 12ms});
  sim.arrive({.at = 2ms, .deadline = 25ms});
  EXPECT_EQ(sim.run().batches, (Batches{{0}, {2}}));
  EXPECT_EQ(sim.outcome(1).reason, RejectReason::too_late);
  EXPECT_EQ(sim.resolved_at(1), 10ms);
}

// Every run takes 10 ms, requests run alone, and late ones are worth an answer for three times as long as promised.
FixtureConfig answering_late() {
  auto config = one_large();
  config.latency["7g"] = {10ms};
  config.services = {{.late_limit = 3}};
  config.scheduler.policy_config.merge = false;
  return config;
}

// Request 1, promised 10 ms, would end at 20 ms and is set aside until 31 ms at the latest. At 20 ms it would be too
// late after one more run: it goes before request 3, which is late then and runs when nothing else waits.
TEST(Tangram, ALateRequestGoesFirstWhenItsLimitComes) {
  SimFixture sim(answering_late());
  sim.arrive({.at = 0ms, .deadline = 10ms});
  sim.arrive({.at = 1ms, .deadline = 11ms});
  for (const int n : {2, 3, 4, 5}) sim.arrive({.at = n * 1ms, .deadline = n * 10ms});
  const auto run = sim.run();
  EXPECT_EQ(run.batches, (Batches{{0}, {2}, {1}, {4}, {5}, {3}}));
  const auto served = OutcomeKind::served;
  EXPECT_EQ(run.outcomes, (std::vector{served, OutcomeKind::late, served, OutcomeKind::late, served, served}));
}

// Request 0 holds two samples and runs for 25 ms. Promised 9 ms, request 1 has until 1 + 27 = 28 ms, and one sample
// takes 10 ms.
TEST(Tangram, RejectsALateRequestThatCannotEndByItsLimit) {
  auto config = answering_late();
  config.latency["7g"] = {10ms, 25ms};
  SimFixture sim(config);
  sim.arrive({.at = 0ms, .deadline = 90ms, .samples = 2});
  sim.arrive({.at = 1ms, .deadline = 10ms});
  sim.arrive({.at = 2ms, .deadline = 35ms});
  EXPECT_EQ(sim.run().batches, (Batches{{0}, {2}}));
  EXPECT_EQ(sim.outcome(1).reason, RejectReason::too_late);
  EXPECT_EQ(sim.resolved_at(1), 25ms);
}

// Request 2 is promised the slice from 10 ms on and has until 30 ms, so that the late request 1 fits before it.
TEST(Tangram, ALateRequestGoesFirstWhereItMakesNoOtherLate) {
  SimFixture sim(answering_late());
  sim.arrive({.at = 0ms, .deadline = 10ms});
  sim.arrive({.at = 1ms, .deadline = 15ms});
  sim.arrive({.at = 2ms, .deadline = 30ms});
  const auto run = sim.run();
  EXPECT_EQ(run.batches, (Batches{{0}, {1}, {2}}));
  EXPECT_EQ(run.outcomes, (std::vector{OutcomeKind::served, OutcomeKind::late, OutcomeKind::served}));
}

// A run takes 10 ms and the request has 8 ms: it is rejected when it comes, unless 24 ms are good enough as well.
TEST(Tangram, AdmitsWhatCanEndByItsLimit) {
  for (const double limit : {1.0, 3.0}) {
    auto config = answering_late();
    config.services[0].late_limit = limit;
    config.scheduler.admission = true;
    SimFixture sim(config);
    sim.arrive({.at = 0ms, .deadline = 8ms});
    EXPECT_EQ(sim.run().outcomes[0], limit == 1 ? OutcomeKind::rejected : OutcomeKind::late);
  }
}

// Two equal slices take 12 ms for two samples. Request 2 is promised to slice 0, which is free no later than slice 1,
// but its batch takes 40 ms; slice 1, idle at 12 ms, takes the request over.
TEST(Tangram, StealsWhatWaitsForASlowSlice) {
  FixtureConfig config;
  config.layouts = {"1g@0 + 1g@1"};
  config.latency = {{"1g", {10ms, 12ms}}};
  config.reality.run_time = [](const Batch& batch) { return Duration(batch.slice.value() == 0 ? 40ms : 12ms); };
  SimFixture sim(config);
  for (const auto at : {0ms, 0ms, 1ms}) sim.arrive({.at = at, .samples = 2});
  const auto run = sim.run();
  EXPECT_EQ(run.slices, (std::vector<std::uint32_t>{0, 1, 1}));
  EXPECT_EQ(run.starts[2], 12ms);
}

// The large slice hangs on request 1 until 50 ms. When the small one is free at 20 ms, request 2 could end there at
// 40 ms, past its deadline at 38 ms, and might still be in time on the large one; request 3, behind it, has until 80
// ms.
TEST(Tangram, LooksPastAHeadThatOnlyALargerSliceCanServe) {
  auto config = small_and_large();
  config.reality.run_time = [](const Batch& batch) { return Duration(batch.slice.value() == 0 ? 20ms : 50ms); };
  SimFixture sim(config);
  sim.arrive({.at = 0ms, .deadline = 30ms});
  sim.arrive({.at = 0ms, .deadline = 12ms});
  sim.arrive({.at = 1ms, .deadline = 38ms});
  sim.arrive({.at = 2ms, .deadline = 80ms});
  const auto run = sim.run();
  EXPECT_EQ(run.batches, (Batches{{0}, {1}, {3}}));
  EXPECT_EQ(run.starts[2], 20ms);
  EXPECT_EQ(sim.outcome(2).reason, RejectReason::too_late);
}

// The same head, and the small slice is idle when the other request arrives: it does not wait for an event.
TEST(Tangram, LooksPastTheHeadOnArrivalToo) {
  auto config = small_and_large();
  config.reality.run_time = [](const Batch& batch) { return Duration(batch.slice.value() == 0 ? 20ms : 50ms); };
  SimFixture sim(config);
  sim.arrive({.at = 0ms, .deadline = 12ms});
  sim.arrive({.at = 1ms, .deadline = 15ms});
  sim.arrive({.at = 2ms, .deadline = 60ms});
  const auto run = sim.run();
  ASSERT_EQ(run.batches, (Batches{{0}, {2}}));
  EXPECT_EQ(run.slices[1], 0u);
  EXPECT_EQ(run.starts[1], 2ms);
}

TEST(Tangram, PutsHigherPriorityFirst) {
  auto config = one_large(1);
  config.services = {{.name = "a"}, {.name = "b"}};
  SimFixture sim(config);
  sim.arrive({.at = 0ms});
  sim.arrive({.at = 1ms, .deadline = 50ms});
  sim.arrive({.at = 1ms, .deadline = 90ms, .priority = 1, .service = 1});
  sim.arrive({.at = 1ms, .deadline = 60ms, .priority = 2});
  EXPECT_EQ(sim.run().batches, (Batches{{0}, {3}, {2}, {1}}));
}

// Nine and ten samples wait in one lane because nothing promised to end them in time; the batches before them end
// early. The small slice takes nine samples and not ten: looking for a fuller batch must not run into the ten.
TEST(Tangram, FindsTheFullestBatchAmongRequestsThatItDoesNotTake) {
  FixtureConfig config;
  config.layouts = {"1g@0", "7g@0"};
  config.latency = {{"1g", std::vector<Duration>(9, 10ms)}, {"7g", std::vector<Duration>(10, 10ms)}};
  config.scheduler.admission = false;
  config.scheduler.correction_weight = 0;
  config.reality.run_time = [](const Batch& batch) { return Duration(batch.id.value() == 1 ? 1ms : 2ms); };
  SimFixture sim(config);
  sim.arrive({.at = 0ms, .deadline = 50ms, .samples = 9});
  sim.arrive({.at = 0ms, .deadline = 50ms, .samples = 10});
  sim.arrive({.at = 500us, .deadline = 15ms, .samples = 9});
  sim.arrive({.at = 500us, .deadline = 15ms, .samples = 10});
  const auto run = sim.run();
  EXPECT_EQ(run.batches, (Batches{{0}, {1}, {2}, {3}}));
  EXPECT_EQ(run.slices, (std::vector<std::uint32_t>{0, 1, 0, 1}));
}

// The larger slice takes one sample only. A late request of two has missed its second deadline too, 3 x 1 ms after its
// arrival, and still runs on the small slice: nobody else will.
TEST(Tangram, RunsALateRequestOnASmallSliceIfNoLargerOneTakesIt) {
  FixtureConfig config;
  config.layouts = {"1g@0", "7g@0"};
  config.latency = {{"1g", {20ms, 25ms}}, {"7g", {5ms}}};
  config.scheduler.admission = false;
  config.scheduler.policy_config.drop_unrecoverable = false;
  SimFixture sim(config);
  sim.arrive({.at = 0ms, .deadline = 1ms, .samples = 2});
  const auto run = sim.run();
  EXPECT_EQ(run.slices, (std::vector<std::uint32_t>{0}));
  EXPECT_EQ(run.outcomes[0], OutcomeKind::late);
}

// The slice is busy until 5 ms. Request 1 is promised 5 to 16 ms. Request 2 would end at 21 ms behind it, past its
// deadline at 18 ms; it is the smaller of the two, so request 1 gives way. That one could start until 17 - 11 = 6 ms
// and is rejected the instant after. Admission lets request 2 in, because it asks who would give way.
TEST(Tangram, LosesTheLargestRequestWhenNotAllCanBeInTime) {
  for (const bool admission : {false, true}) {
    auto config = one_large();
    config.scheduler.admission = admission;
    SimFixture sim(config);
    sim.arrive({.at = 0ms, .deadline = 100ms, .samples = 2});
    sim.arrive({.at = 1ms, .deadline = 17ms, .samples = 8});
    sim.arrive({.at = 2ms, .deadline = 18ms, .samples = 2});
    const auto run = sim.run();
    EXPECT_EQ(run.batches, (Batches{{0}, {2}}));
    EXPECT_EQ(sim.outcome(1).reason, RejectReason::too_late);
    EXPECT_EQ(sim.resolved_at(1), 6ms + 1ns);
  }
}

// Request 1 is promised 5 to 10 ms. Request 2 would end at 17 ms behind it, past 14 ms, and is the larger one: it is
// lost, unless its priority is higher.
TEST(Tangram, LetsLowerPriorityGiveWayWhateverItsSize) {
  for (const int priority : {0, 1}) {
    SimFixture sim(one_large());
    sim.arrive({.at = 0ms, .deadline = 100ms, .samples = 2});
    sim.arrive({.at = 1ms, .deadline = 11ms, .samples = 2});
    sim.arrive({.at = 2ms, .deadline = 14ms, .samples = 4, .priority = priority});
    EXPECT_EQ(sim.run().batches, (priority == 0 ? Batches{{0}, {1}} : Batches{{0}, {2}}));
  }
}

// The first batch takes 9 ms instead of 5. Request 1 would still end at 20 ms, its deadline, but request 2 behind it at
// 25 ms, past 22 ms. Without request 1, the larger one, it ends at 14 ms.
TEST(Tangram, LosesTheLargestRequestWhenASliceHasFallenBehind) {
  auto config = one_large();
  config.scheduler.correction_weight = 0;
  config.reality.run_time = [](const Batch& batch) { return Duration(batch.id.value() == 1 ? 9ms : 5ms); };
  SimFixture sim(config);
  sim.arrive({.at = 0ms, .deadline = 100ms, .samples = 2});
  sim.arrive({.at = 1ms, .deadline = 20ms, .samples = 8});
  sim.arrive({.at = 2ms, .deadline = 22ms, .samples = 2});
  const auto run = sim.run();
  EXPECT_EQ(run.batches, (Batches{{0}, {2}}));
  EXPECT_EQ(run.starts[1], 9ms);
}

// Promised after 5 ms, requests 1 and 2 could not share a batch: five samples end at 13 ms, past 12 ms. The slice is
// free at 1 ms, and they end at 9 ms.
TEST(Tangram, MergesPromisedBatchesWhenThereIsTimeToSpare) {
  auto config = one_large();
  config.scheduler.correction_weight = 0;
  config.reality.run_time = [](const Batch& batch) { return Duration(batch.id.value() == 1 ? 1ms : 8ms); };
  SimFixture sim(config);
  sim.arrive({.at = 0us, .deadline = 100ms, .samples = 2});
  sim.arrive({.at = 200us, .deadline = 12ms, .samples = 3});
  sim.arrive({.at = 300us, .deadline = 100ms, .samples = 2});
  EXPECT_EQ(sim.run().batches, (Batches{{0}, {1, 2}}));
}

// Requests 2 and 3 are promised to the small slice, behind request 0. When the large one is idle at 8 ms, 22 + 60 ms
// wait there, more than half of the Slo of 100 ms: it takes request 2. At 16 ms only 14 + 30 ms wait, and request 3
// stays.
TEST(Tangram, TakesWorkFromASmallerSliceWhereMuchWaits) {
  FixtureConfig config;
  config.layouts = {"1g@0", "7g@0"};
  config.latency = {{"1g", {20ms, 30ms}}, {"7g", {5ms, 8ms}}};
  config.scheduler.admission = false;
  config.scheduler.policy_config.bursts_expected = true;
  SimFixture sim(config);
  for (const auto at : {0ms, 0ms, 1ms, 1ms}) sim.arrive({.at = at, .deadline = at + 100ms, .samples = 2});
  const auto run = sim.run();
  EXPECT_EQ(run.batches, (Batches{{0}, {1}, {2}, {3}}));
  EXPECT_EQ(run.slices, (std::vector<std::uint32_t>{0, 1, 1, 0}));
}

// By the p99 of 12 ms the request is late, by the mean of 10 ms it is not: worth a try on a slice that is idle.
TEST(Tangram, TriesWhatIsOnlyLikelyToBeInTime) {
  auto config = one_large();
  config.latency["7g"] = {10ms, 10ms};
  config.p99_factor = 1.2;
  SimFixture sim(config);
  sim.arrive({.at = 0ms, .deadline = 11ms, .samples = 2});
  EXPECT_EQ(sim.run().outcomes, std::vector{OutcomeKind::served});
}

// Two services share the slice. Request 1 holds two samples and came first, but it is given no promise, so request 2 of
// the other service, which is more urgent, goes before it.
TEST(Tangram, PromisesNothingWhereServicesShareSlices) {
  auto config = one_large();
  config.services = {{.name = "a"}, {.name = "b"}};
  SimFixture sim(config);
  sim.arrive({.at = 0ms, .deadline = 100ms});
  sim.arrive({.at = 1ms, .deadline = 90ms, .samples = 2});
  sim.arrive({.at = 2ms, .deadline = 20ms, .service = 1});
  EXPECT_EQ(sim.run().batches, (Batches{{0}, {2}, {1}}));
}

// A batch of the larger bucket is short, and one request of the smaller bucket rides along: padded to 10 it adds 1 ms,
// alone it would cost 4 ms.
TEST(Tangram, FillsAShortBatchFromTheNextSmallerBucket) {
  auto config = one_large();
  config.services = {{.edges = {5, 10}}};
  SimFixture sim(config);
  sim.arrive({.at = 0ms, .size = 10});
  sim.arrive({.at = 1ms, .deadline = 50ms, .size = 10});
  sim.arrive({.at = 1ms, .deadline = 60ms, .size = 5});
  EXPECT_EQ(sim.run().batches, (Batches{{0}, {1, 2}}));
  EXPECT_EQ(sim.world().batches()[1].padded_size, 10);
}

// Full batches of eight take 11 ms, so the slice serves 8 / 11 = 0.73 a millisecond, and 0.66 come. After a burst of 40
// at once the queue is old: its first members leave time for batches of a few only, and those serve less than what
// comes. Some have to be lost, but not for ever: 300 ms later everybody is in time again.
TEST(Tangram, RecoversFromABurst) {
  SimFixture sim(one_large());
  int late_comers = 0;
  for (int i = 0; i < 40; ++i) sim.arrive({.at = 0ms, .deadline = 30ms});
  for (int i = 1; i <= 600; ++i) sim.arrive({.at = i * 1520us, .deadline = i * 1520us + 30ms});
  const auto run = sim.run();
  int lost = 0;
  for (std::size_t i = 0; i < run.outcomes.size(); ++i) {
    if (run.outcomes[i] == OutcomeKind::served) continue;
    (i < 40 + 200 ? lost : late_comers) += 1;
  }
  EXPECT_GT(lost, 0);
  EXPECT_EQ(late_comers, 0);
}

// The slice is busy until 10 ms. A large request takes 40 ms, small ones 10 ms each. Request 1 must start by 20 ms and
// goes first; then requests 2 to 4, to be started by 35, 40 and 45 ms, are lost. Where twenty that had to start by 5 ms
// have been lost, 20 / 512 of the service's requests and more than one in forty, the large one is the price of three
// small ones.
TEST(Tangram, GivesUpWhatCostsMostOnceManyAreLost) {
  for (const bool losing : {false, true}) {
    FixtureConfig config;
    config.services = {{.edges = {1, 2}}};
    config.latency = {{"7g", {10ms}}};
    config.size_factor = [](std::int64_t size) { return size == 1 ? 1.0 : 4.0; };
    config.scheduler.admission = false;
    SimFixture sim(config);
    sim.arrive({.at = 0ms, .deadline = 100ms});
    sim.arrive({.at = 1ms, .deadline = 60ms, .size = 2});
    for (const Duration deadline : {45ms, 50ms, 55ms}) sim.arrive({.at = 1ms, .deadline = deadline});
    for (int i = 0; losing && i < 20; ++i) sim.arrive({.at = 1ms, .deadline = 45ms, .size = 2});
    const auto run = sim.run();
    EXPECT_EQ(run.batches, losing ? (Batches{{0}, {2}, {3}, {4}}) : (Batches{{0}, {1}}));
  }
}

// The large slice is busy until 15 ms and would end request 1 by 15 + 1.3 * 15 = 34.5 ms in all likelihood, past its
// deadline at 25 ms. The small one can never be sure to keep a promise of 24 ms, at 1.3 * 20 = 26 ms, but is likely to:
// 1 + 20 = 21.
TEST(Tangram, PrefersALikelySliceToGivingUp) {
  auto config = small_and_large();
  config.latency = {{"1g", {20ms}}, {"7g", {15ms}}};
  config.p99_factor = 1.3;
  SimFixture sim(config);
  sim.arrive({.at = 0ms, .deadline = 24ms});
  sim.arrive({.at = 1ms, .deadline = 25ms});
  const auto run = sim.run();
  EXPECT_EQ(run.slices, (std::vector<std::uint32_t>{1, 0}));
  EXPECT_EQ(run.outcomes, std::vector<OutcomeKind>(2, OutcomeKind::served));
}

// The slice is busy until 4 ms. Then requests 1 and 2, of two and three samples, run together in 5 + 3 = 8 ms. Where
// the other service of the slice has a promise of 14 ms, half of which is less, they run one after the other.
TEST(Tangram, FillsABatchWithRequestsOfOtherNumbersOfSamples) {
  for (const Duration other : {1000ms, 14ms}) {
    auto config = one_large();
    config.services = {{.name = "a"}, {.name = "b", .slo = other}};
    SimFixture sim(config);
    sim.arrive({.at = 0ms, .deadline = 100ms});
    sim.arrive({.at = 1ms, .deadline = 100ms, .samples = 2});
    sim.arrive({.at = 2ms, .deadline = 101ms, .samples = 3});
    EXPECT_EQ(sim.run().batches, other == 14ms ? (Batches{{0}, {1}, {2}}) : (Batches{{0}, {1, 2}}));
  }
}

// A large slice takes 20 ms and is sure of 30 ms, a small one takes 40 ms and is sure of 60 ms: never of the 50 ms that
// there are. Request 0 has the large one until 20 ms. Request 1 can wait for it, 20 + 30 = 50 ms. Request 2 would wait
// behind request 1, so it starts on the small one at once.
TEST(Tangram, DoesNotWaitBehindOthersForASliceThatIsSure) {
  FixtureConfig config;
  config.layouts = {"2g@0 + 3g@4"};
  config.latency = {{"2g", {40ms}}, {"3g", {20ms}}};
  config.p99_factor = 1.5;
  config.scheduler.admission = false;
  SimFixture sim(config);
  for (int i = 0; i < 3; ++i) sim.arrive({.at = 0ms, .deadline = 50ms});
  const auto run = sim.run();
  EXPECT_EQ(run.batches, (Batches{{0}, {2}, {1}}));
  EXPECT_EQ(run.slices, (std::vector<std::uint32_t>{1, 0, 1}));
  EXPECT_EQ(run.outcomes, std::vector<OutcomeKind>(3, OutcomeKind::served));
}

// A large slice takes 20 ms and is sure of 30 ms, a small one takes 25 ms and is sure of 37.5 ms. Request 1 has 37 ms,
// so it waits for the large slice, which is to be free 1 ms later: 1 + 30 = 31 ms. But the batch there ends at 29 ms,
// and the large slice is now sure only by 59 ms, past the deadline at 56 ms. The small slice, idle all along, is likely
// to end the request by 54 ms.
TEST(Tangram, TurnsToAnIdleSliceWhenTheOneWaitedForIsLate) {
  for (const bool drop : {true, false}) {
    FixtureConfig config;
    config.layouts = {"2g@0 + 3g@4"};
    config.latency = {{"2g", {25ms}}, {"3g", {20ms}}};
    config.p99_factor = 1.5;
    config.scheduler.admission = false;
    config.scheduler.policy_config.drop_unrecoverable = drop;
    config.reality.run_time = [](const Batch& batch) -> std::optional<Duration> {
      return batch.id.value() == 1 ? 29ms : 25ms;
    };
    SimFixture sim(config);
    sim.arrive({.at = 0ms, .deadline = 37ms});
    sim.arrive({.at = 19ms, .deadline = 56ms});
    const auto run = sim.run();
    EXPECT_EQ(run.batches, (Batches{{0}, {1}}));
    EXPECT_EQ(run.slices, (std::vector<std::uint32_t>{1, 0}));
    EXPECT_EQ(run.outcomes, std::vector<OutcomeKind>(2, OutcomeKind::served));
  }
}

// Two services with one request each wait for the slice; that of `b` is due first. `b` may lose one in twenty and has
// lost none, `a` may lose one in a hundred and has just lost three: so `a` comes first.
TEST(Tangram, ServesAServiceFirstThatIsShortOfItsPromise) {
  FixtureConfig config;
  config.latency = {{"7g", {10ms}}};
  config.services = {{.name = "a", .percentile = 99}, {.name = "b", .percentile = 95}};
  SimFixture sim(config);
  sim.arrive({.at = 0ms, .deadline = 12ms, .service = 1});
  for (int i = 0; i < 3; ++i) sim.arrive({.at = 1ms, .deadline = 12ms, .service = 0});
  sim.arrive({.at = 2ms, .deadline = 40ms, .service = 0});
  sim.arrive({.at = 2ms, .deadline = 35ms, .service = 1});
  const auto run = sim.run();
  EXPECT_EQ(run.batches, (Batches{{0}, {4}, {5}}));
}

}  // namespace
}  // namespace tangram::sched
