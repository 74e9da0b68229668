#include "sim/metrics_recorder.h"

#include <gtest/gtest.h>

#include "sched/test_fixture.h"

namespace tangram::sim {
namespace {

using namespace std::chrono_literals;
using sched::testing::deployment_of;
using sched::testing::FixtureConfig;
using sched::testing::SimFixture;

// One 7g slice, 4 ms for one sample and 6 ms for two; buckets up to 10 and 20.
FixtureConfig two_bucket_slice() {
  FixtureConfig cluster;
  cluster.latency = {{"7g", {4ms, 6ms}}};
  cluster.services[0].edges = {10, 20};
  return cluster;
}

Request sized_request(std::uint64_t id, std::int64_t size, Duration at = 0ms) {
  Request request;
  request.id = RequestId(id);
  request.size = size;
  request.arrival = kTimeZero + at;
  return request;
}

// A batch of one service on slice 0, padded to the edge of its bucket.
sched::Batch batch_of(std::span<const Request* const> members, std::uint32_t bucket) {
  sched::Batch batch;
  batch.id = BatchId(1);
  batch.slice = SliceId(0);
  batch.service = ServiceId(0);
  batch.bucket = bucket;
  batch.padded_size = bucket == 0 ? 10 : 20;
  batch.samples = static_cast<std::int32_t>(members.size());
  batch.took = 4ms;
  batch.members = members;
  return batch;
}

// The best batch is of two, 3 ms a sample. One sample that runs alone for 4 ms therefore fills 3/4 of it, and with 5 of
// 10 units real, half of that is useful: 1.5 ms.
TEST(MetricsRecorder, CountsPaddingAndSmallBatchesAsNotUseful) {
  SimFixture cluster(two_bucket_slice());
  const sched::State& state = cluster.scheduler().state();
  MetricsRecorder recorder(state, {});
  const Request request = sized_request(0, 5);
  recorder.join(request, 0);
  const std::vector<const Request*> members{&request};
  const auto& entry = state.deployment.pools[0].services[0];
  recorder.start(batch_of(members, 0), {entry, 4'000'000, 4'000'000, kTimeZero});
  recorder.end(0, 4ms, 4ms, true);
  const sched::Batch batch = batch_of(members, 0);
  recorder.resolve(request, {OutcomeKind::served}, &batch, kTimeZero + 4ms);
  const Metrics metrics = recorder.take();
  EXPECT_EQ(metrics.slices[0].busy_ns, 4'000'000);
  EXPECT_DOUBLE_EQ(metrics.slices[0].useful_ns, 1'500'000);
  EXPECT_EQ(metrics.slices[0].batches, 1u);
  EXPECT_EQ(metrics.slices[0].served, 1u);
  EXPECT_DOUBLE_EQ(metrics.slices[0].size_padded, 10);
  EXPECT_EQ(metrics.services[0][0].served, 1u);
  EXPECT_EQ(metrics.places[0].name, "7g.40gb@0");
  EXPECT_EQ(metrics.total().arrived, 1u);
}

// Two wait, one of each bucket. The first starts and fails, so both wait again; then both are rejected.
TEST(MetricsRecorder, CountsARequestInAndOutOfItsQueues) {
  SimFixture cluster(two_bucket_slice());
  const sched::State& state = cluster.scheduler().state();
  MetricsRecorder recorder(state, {});
  const Request small = sized_request(0, 5);
  const Request large = sized_request(1, 15);
  recorder.join(small, 0);
  recorder.join(large, 1);
  EXPECT_EQ(recorder.queue_by_service()[0].waiting, 2u);
  const std::vector<const Request*> members{&small};
  recorder.start(batch_of(members, 0), {state.deployment.pools[0].services[0], 4'000'000, 4'000'000, kTimeZero});
  EXPECT_EQ(recorder.queue_by_service()[0].waiting, 1u);
  recorder.end(0, 4ms, 4ms, false);
  recorder.rejoin(members);
  EXPECT_EQ(recorder.queue_by_service()[0].waiting, 2u);
  for (const auto& request : {small, large}) {
    recorder.resolve(request, {OutcomeKind::rejected, RejectReason::queue_full}, nullptr, kTimeZero + 9ms);
  }
  const Metrics metrics = recorder.take();
  EXPECT_EQ(metrics.queue_by_service[0].waiting, 0u);
  EXPECT_EQ(metrics.queue_by_bucket[0][0].waiting, 0u);
  EXPECT_EQ(metrics.queue_by_bucket[0][1].waiting, 0u);
  EXPECT_EQ(metrics.slices[0].busy_ns, 4'000'000);
  EXPECT_EQ(metrics.slices[0].useful_ns, 0);
  EXPECT_EQ(metrics.services[0][0].rejected[index_of(RejectReason::queue_full)], 1u);
  EXPECT_EQ(metrics.services[0][1].rejected_total(), 1u);
  EXPECT_EQ(metrics.queue_depth.count(), 2u);
}

// Requests 0 and 1 are of the warm-up: they wait like others and are in no tally. Size 25 fits no bucket, so it counts
// behind the last.
TEST(MetricsRecorder, LeavesTheWarmUpOut) {
  SimFixture cluster(two_bucket_slice());
  MetricsRecorder recorder(cluster.scheduler().state(), {.warmup_requests = 2});
  for (std::uint64_t id = 0; id < 3; ++id) {
    const Request request = sized_request(id, 25);
    recorder.join(request, 0);
    EXPECT_EQ(recorder.queue_by_service()[0].waiting, 1u);
    recorder.resolve(request, {OutcomeKind::rejected, RejectReason::too_large}, nullptr, kTimeZero);
  }
  const Metrics metrics = recorder.take();
  EXPECT_EQ(metrics.queue_depth.count(), 1u);
  ASSERT_EQ(metrics.services[0].size(), 3u);
  EXPECT_EQ(metrics.services[0][2].rejected_total(), 1u);
  EXPECT_EQ(metrics.total().arrived, 1u);
}

// Ten steps of a second, of a nanosecond more each so that the last instant is in the last: a request of 3.5 s is in
// step 3, whenever it ends.
TEST(MetricsRecorder, PutsARequestIntoTheStepInWhichItCame) {
  SimFixture cluster(two_bucket_slice());
  MetricsRecorder recorder(cluster.scheduler().state(), {.duration = 10s, .timeline_steps = 10});
  const Request request = sized_request(0, 5, 3500ms);
  recorder.join(request, 0);
  recorder.resolve(request, {OutcomeKind::failed}, nullptr, kTimeZero + 8s);
  const Metrics metrics = recorder.take();
  ASSERT_EQ(metrics.timeline[0].size(), 10u);
  EXPECT_EQ(metrics.timeline[0][3].arrived, 1u);
  EXPECT_EQ(metrics.timeline[0][3].lost, 1u);
  EXPECT_EQ(metrics.timeline[0][8].arrived, 0u);
}

// The next plan has a third bucket: its tally stands behind the others, and nothing that was counted is lost.
TEST(MetricsRecorder, KeepsItsTalliesWhenAPlanAddsABucket) {
  SimFixture cluster(two_bucket_slice());
  MetricsRecorder recorder(cluster.scheduler().state(), {});
  const Request request = sized_request(0, 5);
  recorder.join(request, 0);
  recorder.resolve(request, {OutcomeKind::failed}, nullptr, kTimeZero);
  FixtureConfig next = two_bucket_slice();
  next.services[0].edges = {10, 15, 20};
  recorder.before_plan(deployment_of(next, next.layouts));
  recorder.after_plan();
  const Metrics metrics = recorder.take();
  ASSERT_EQ(metrics.services[0].size(), 4u);
  EXPECT_EQ(metrics.services[0][0].failed, 1u);
}

}  // namespace
}  // namespace tangram::sim
