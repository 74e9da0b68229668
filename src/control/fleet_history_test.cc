#include "control/fleet_history.h"

#include <gtest/gtest.h>

#include <map>

#include "control/fleet_text.h"
#include "sched/recorded_scheduler.h"
#include "sched/replay.h"
#include "sched/test_fixture.h"

namespace tangram::control {
namespace {

using namespace std::chrono_literals;
using sched::testing::deployment_of;
using sched::testing::FixtureConfig;

// Two slices of one GPU, gpu-0/4g.20gb@0 and gpu-0/3g.20gb@4. One service, p99 within 50 ms, whose batches of one
// take 10 ms on either.
FixtureConfig two_slices() {
  FixtureConfig cluster;
  cluster.layouts = {"4g@0 + 3g@4"};
  cluster.latency = {{"4g", {10ms}}, {"3g", {10ms}}, {"7g", {10ms}}};
  cluster.services[0].name = "rank";
  cluster.services[0].slo = 50ms;
  return cluster;
}

// A world in which batches take as long as predicted and nothing else happens by itself.
class TinyFleet final : private sched::World {
 public:
  explicit TinyFleet(FleetHistoryOptions options = {}) : history(std::move(options)) {
    World& world = *this;
    recorded = std::make_unique<sched::RecordedScheduler>(
        world, deployment_of(cluster, cluster.layouts), sched::SchedulerConfig{},
        [this](std::string_view line) { recording += line; }, UINT64_MAX, &history);
  }

  // Lets everything happen that is due up to `when`.
  void run_to(Duration when) {
    const TimePoint end = kTimeZero + when;
    while (!due_.empty() && due_.begin()->first <= end) {
      const auto next = due_.begin();
      now_ = std::max(now_, next->first);
      const auto done = next->second;
      due_.erase(next);
      if (alive_[done.slice] == done.batch) recorded->on_batch_done(done);
    }
    now_ = end;
    while (wake_ <= now_) {
      wake_ = kTimeNever;
      recorded->on_wake();
    }
  }
  // Requests with this long a time each, evenly spaced from `from` on.
  void arrive(Duration from, int count, Duration gap, Duration patience = 50ms) {
    for (int i = 0; i < count; ++i) {
      run_to(from + i * gap);
      Request request;
      request.id = RequestId(next_++);
      request.arrival = now_;
      request.deadline = now_ + patience;
      recorded->on_arrival(request);
    }
  }
  void lose(Duration when, std::uint32_t slice) {
    run_to(when);
    alive_[SliceId(slice)] = BatchId(UINT64_MAX);
    recorded->on_slice_lost(SliceId(slice));
  }
  void restart(Duration when, std::uint32_t slice) {
    run_to(when);
    recorded->on_restarted(SliceId(slice), true);
  }
  const FleetFrame& last() {
    history.catch_up(recorded->scheduler(), now_, true);
    return history.frames().back();
  }
  const FleetMark* mark(MarkKind kind) const {
    for (const auto& each : history.marks().list()) {
      if (each.kind == kind) return &each;
    }
    return nullptr;
  }
  TimePoint time() const { return now_; }

  FixtureConfig cluster = two_slices();
  FleetHistory history;
  std::string recording;
  std::unique_ptr<sched::RecordedScheduler> recorded;
  std::vector<DeviceId> reshaping;

 private:
  TimePoint now() const override { return now_; }
  void wake_at(TimePoint when) override { wake_ = when; }
  void launch(const sched::Batch& batch) override {
    alive_[batch.slice] = batch.id;
    due_.emplace(now_ + batch.predicted, sched::BatchDone{batch.slice, batch.id, true});
  }
  void stop(SliceId, bool) override {}
  void restart(SliceId) override {}
  void reshape(DeviceId device, const Layout&) override { reshaping.push_back(device); }
  void lend(SliceId) override {}
  void recall(SliceId) override {}
  void resolve(const Request&, const Outcome&, const sched::Batch*) override {}

  TimePoint now_;
  TimePoint wake_ = kTimeNever;
  std::uint64_t next_ = 0;
  std::map<SliceId, BatchId> alive_;
  std::multimap<TimePoint, sched::BatchDone> due_;
};

// One slice runs a batch, the other is idle; then one is lost, the other lent.
TEST(FleetHistory, SaysWhatEverySliceDoes) {
  TinyFleet fleet;
  fleet.arrive(1s, 1, 1ms);
  const FleetFrame busy = fleet.last();
  ASSERT_EQ(busy.slices.size(), 2U);
  EXPECT_EQ((busy.slices[0].use == SliceUse::busy) + (busy.slices[1].use == SliceUse::busy), 1);
  EXPECT_EQ((busy.slices[0].use == SliceUse::idle) + (busy.slices[1].use == SliceUse::idle), 1);
  fleet.lose(2s, 0);
  ASSERT_TRUE(fleet.recorded->lend(SliceId(1)));
  EXPECT_EQ(fleet.last().slices[0].use, SliceUse::lost);
  EXPECT_EQ(fleet.last().slices[1].use, SliceUse::lent);
}

// Slices that are reported at time zero have not been ready yet: they load their models.
TEST(FleetHistory, ShowsTheFirstStartAsNoLoss) {
  TinyFleet fleet;
  fleet.lose(0s, 0);
  EXPECT_EQ(fleet.last().slices[0].use, SliceUse::cutting);
  EXPECT_EQ(fleet.mark(MarkKind::loss), nullptr);
  fleet.restart(1s, 0);
  fleet.lose(2s, 0);
  EXPECT_EQ(fleet.last().slices[0].use, SliceUse::lost);
  EXPECT_NE(fleet.mark(MarkKind::loss), nullptr);
}

// 100 requests of 10 ms each in the second before second 11: one second of slice time in eleven.
TEST(FleetHistory, AddsUpTheTimeThatSlicesRan) {
  TinyFleet fleet;
  fleet.arrive(10s, 100, 10ms);
  fleet.run_to(11s);
  const FleetFrame& frame = fleet.last();
  const double sum =
      fleet.history.busy_share(frame, frame.slices[0], 20s) + fleet.history.busy_share(frame, frame.slices[1], 20s);
  EXPECT_NEAR(sum, 1.0 / 11, 0.001);
  EXPECT_NEAR(static_cast<double>(frame.slices[0].busy_ns + frame.slices[1].busy_ns), 1e9, 1e6);
}

// 60 in time, then, two minutes later, 30 of which none can be: they bring 5 ms and need 10. Over the last minute the
// share is 0 of 30 minus the impossible ones, which do not count against a promise.
TEST(FleetHistory, CountsSharesOverSpans) {
  TinyFleet fleet;
  fleet.arrive(0s, 60, 100ms);
  fleet.run_to(130s);
  // Both slices run until 10 ms later, so that a request with 15 ms is too late behind others, though not impossible.
  for (int i = 0; i < 30; ++i) fleet.arrive(131s + i * 100ms, 4, 0ms, 15ms);
  fleet.run_to(135s);
  const FleetFrame& frame = fleet.last();
  const ServiceTotals& totals = frame.services[0].totals;
  EXPECT_EQ(totals.arrived, 180U);
  EXPECT_EQ(totals.of(OutcomeKind::served), 120U);
  EXPECT_EQ(totals.of(OutcomeKind::rejected), 60U);
  EXPECT_EQ(totals.impossible, 0U);
  EXPECT_DOUBLE_EQ(*fleet.history.in_time(frame, ServiceId(0), 60s).share, 0.5);
  EXPECT_DOUBLE_EQ(*fleet.history.in_time(frame, ServiceId(0), std::nullopt).share, 120.0 / 180);
  EXPECT_EQ(fleet.history.in_time(frame, ServiceId(0), 60s).counted, 120U);
  EXPECT_NEAR(frame.services[0].p99_ms, 10, 0.1);
}

TEST(FleetHistory, DoesNotCountWhatNoSliceCouldEverServe) {
  TinyFleet fleet;
  fleet.arrive(1s, 30, 1s, 5ms);
  EXPECT_EQ(fleet.last().services[0].totals.impossible, 30U);
  EXPECT_FALSE(fleet.history.in_time(fleet.last(), ServiceId(0), 60s).share);
}

// ---- Marks ----

TEST(FleetMarks, ALossSaysWhatWasSeenDecidedAndWhatItCost) {
  TinyFleet fleet;
  fleet.arrive(100s, 1, 1ms);
  // The one that runs the batch.
  const bool first = fleet.last().slices[0].use == SliceUse::busy;
  fleet.lose(100s + 2ms, first ? 0 : 1);
  fleet.restart(103s + 2ms, first ? 0 : 1);
  fleet.last();
  const FleetMark* mark = fleet.mark(MarkKind::loss);
  ASSERT_NE(mark, nullptr);
  EXPECT_EQ(mark->title, first ? "gpu-0/4g.20gb@0 was lost" : "gpu-0/3g.20gb@4 was lost");
  EXPECT_NE(mark->seen.find("while it ran a batch of 1 request for rank"), std::string::npos) << mark->seen;
  EXPECT_NE(mark->decided.find("rank has 1 of 2 slices left"), std::string::npos) << mark->decided;
  EXPECT_NE(mark->cost.find("3.00 slice-seconds away"), std::string::npos) << mark->cost;
  EXPECT_EQ(*mark->until - mark->from, 3s);
}

// With both slices 200 requests/s of 10 ms can be served; 150 come. One is lost from 200 s to 210 s: 100 requests/s of
// one slice are too few, so a third is rejected, the share of that minute falls below 99 %, and the loss is the cause.
TEST(FleetMarks, ABrokenPromiseNamesItsCause) {
  TinyFleet fleet;
  fleet.arrive(100s, 15'000, 6'667us);
  fleet.lose(200s + 10ms, 0);
  fleet.arrive(200s + 20ms, 1500, 6'667us);
  fleet.restart(211s, 0);
  fleet.arrive(211s, 150, 6'667us);
  fleet.last();
  const FleetMark* broken = fleet.mark(MarkKind::broken);
  const FleetMark* loss = fleet.mark(MarkKind::loss);
  ASSERT_NE(broken, nullptr);
  ASSERT_NE(loss, nullptr);
  EXPECT_EQ(broken->related, std::vector<std::uint64_t>{loss->number});
  EXPECT_NE(broken->why.find("gpu-0/4g.20gb@0 was lost at 0:03:20"), std::string::npos) << broken->why;
  EXPECT_NE(broken->why.find("could run about 100/s"), std::string::npos) << broken->why;
  EXPECT_NE(broken->title.find("99 % promised"), std::string::npos) << broken->title;
  const FleetMark* refusals = fleet.mark(MarkKind::refusals);
  ASSERT_NE(refusals, nullptr);
  EXPECT_NE(refusals->decided.find("no slice could answer by the deadline"), std::string::npos) << refusals->decided;
}

// Twice what both slices carry, and nothing was lost.
TEST(FleetMarks, AnOverloadIsToldAsOne) {
  TinyFleet fleet;
  fleet.arrive(10s, 4000, 2500us);
  fleet.last();
  const FleetMark* broken = fleet.mark(MarkKind::broken);
  ASSERT_NE(broken, nullptr);
  EXPECT_TRUE(broken->related.empty());
  EXPECT_NE(broken->why.find("More requests came than its slices carry"), std::string::npos) << broken->why;
}

TEST(FleetMarks, AMoveSaysWhichDevicesAreCutAndWhy) {
  TinyFleet fleet;
  fleet.run_to(5s);
  fleet.history.note_reason("The traffic is followed: a surge of rank.");
  fleet.recorded->on_plan_ready(deployment_of(fleet.cluster, {"7g@0"}));
  fleet.run_to(6s);
  ASSERT_EQ(fleet.reshaping.size(), 1U);
  EXPECT_EQ(fleet.last().slices.back().use, SliceUse::cutting);
  fleet.run_to(11s);
  fleet.recorded->on_reshaped(DeviceId(0), true);
  fleet.run_to(12s);
  fleet.recorded->on_wake();
  const FleetMark* move = fleet.mark(MarkKind::move);
  ASSERT_NE(move, nullptr);
  EXPECT_EQ(move->seen, "The traffic is followed: a surge of rank.");
  EXPECT_EQ(move->decided, "gpu-0: 4g.20gb@0 + 3g.20gb@4 becomes 7g.40gb@0.");
  ASSERT_TRUE(move->until);
  const FleetFaces& faces = fleet.history.faces_at(fleet.last());
  ASSERT_EQ(faces.slices.size(), 1U);
  EXPECT_EQ(faces.slices[0].name, "gpu-0/7g.40gb@0");
  EXPECT_EQ(faces.slices[0].units, 8);
}

TEST(FleetMarks, ALendSaysHowLongAndHowFastItCameBack) {
  TinyFleet fleet;
  fleet.arrive(1s, 1, 1ms);
  fleet.run_to(10s);
  ASSERT_TRUE(fleet.recorded->lend(SliceId(0)));
  fleet.run_to(30s);
  fleet.recorded->recall(SliceId(0));
  fleet.run_to(30s + 250ms);
  fleet.recorded->on_returned(SliceId(0));
  fleet.last();
  const FleetMark* lend = fleet.mark(MarkKind::lend);
  ASSERT_NE(lend, nullptr);
  EXPECT_NE(lend->cost.find("Lent for 20 s; back 0.25 s after it was asked for"), std::string::npos) << lend->cost;
}

// ---- Memory, files and streams ----

// A day of frames in a memory for about a thousand: the last ones are a second apart, and the first is there still.
TEST(FleetHistory, ForgetsOldDetailsFirst) {
  TinyFleet fleet({.bytes_max = 1 << 20});
  for (int s = 1; s <= 20'000; ++s) fleet.arrive(s * 1s, 1, 1ms);
  const auto& frames = fleet.history.frames();
  EXPECT_LE(fleet.history.bytes(), std::size_t{1} << 19);
  EXPECT_EQ(frames.front().at, kTimeZero + 1s);
  EXPECT_EQ(frames.back().at - frames[frames.size() - 2].at, 1s);
  EXPECT_GT(frames[2].at - frames[1].at, 8s);
  // What was dropped changes no share: the counters are totals.
  EXPECT_DOUBLE_EQ(*fleet.history.in_time(frames.back(), ServiceId(0), std::nullopt).share, 1);
}

TEST(FleetHistory, AWholeRunBecomesEvenlyCoarser) {
  TinyFleet fleet({.interval = 1s, .frames_max = 100, .keep_recent = false});
  for (int s = 1; s <= 5'000; ++s) fleet.arrive(s * 1s, 1, 1ms);
  const auto& frames = fleet.history.frames();
  EXPECT_LE(frames.size(), 100U);
  EXPECT_GE(frames.size(), 45U);
  for (std::size_t i = 2; i + 1 < frames.size(); ++i) EXPECT_EQ(frames[i].at - frames[i - 1].at, 64s) << i;
}

// What a recording is replayed to is what was seen while it was made: one value for live and recorded time.
TEST(FleetHistory, AReplayGivesTheSameHistory) {
  TinyFleet fleet;
  fleet.arrive(1s, 300, 4ms);
  fleet.lose(3s, 1);
  fleet.arrive(3s, 200, 8ms);
  ASSERT_TRUE(fleet.recorded->lend(SliceId(0)) || true);
  fleet.restart(6s, 1);
  fleet.arrive(7s, 50, 20ms);
  fleet.recorded->on_plan_ready(deployment_of(fleet.cluster, {"7g@0"}));
  fleet.run_to(12s);
  if (!fleet.reshaping.empty()) fleet.recorded->on_reshaped(DeviceId(0), true);
  fleet.arrive(20s, 50, 20ms);
  const RecordedPage page{"a", "recording", "b"};
  const std::string seen = history_json(fleet.history, page);
  fleet.recorded.reset();

  EXPECT_EQ(sched::last_event_of(fleet.recording), fleet.time());
  FleetHistory again({});
  const auto report = sched::replay("recording", fleet.recording, &again);
  ASSERT_TRUE(report.ok());
  ASSERT_TRUE(report->same);
  EXPECT_TRUE(history_json(again, page) == seen) << "the texts differ";
}

TEST(FleetHistory, TellsTheStoryOfARequest) {
  TinyFleet fleet;
  fleet.arrive(1s, 1, 1ms);
  fleet.run_to(1s + 10ms);
  fleet.history.note_name("call-1");
  fleet.arrive(3s, 12, 0ms);
  const RequestStory* served = fleet.history.find_request("call-1");
  ASSERT_NE(served, nullptr);
  EXPECT_EQ(served->id, RequestId(0));
  EXPECT_EQ(served->ended - served->launched, 10ms);
  EXPECT_EQ(fleet.history.needs_of(*served), "Nothing: it was answered 40 ms before its deadline.");
  // Twelve at once, each slice runs one after the other, five within 50 ms: two have to go.
  const auto troubled = fleet.history.last_troubled(10);
  ASSERT_EQ(troubled.size(), 2U);
  EXPECT_EQ(troubled[0]->outcome, OutcomeKind::rejected);
  EXPECT_NE(fleet.history.needs_of(*troubled[0]).find(" ms more: the first answer could be ready"), std::string::npos)
      << fleet.history.needs_of(*troubled[0]);
  EXPECT_EQ(fleet.history.find_request("call-2"), nullptr);
}

// A reader that knows a frame gets what changed since.
TEST(FleetText, AStreamSendsOnlyChanges) {
  TinyFleet fleet;
  fleet.arrive(1s, 3, 1s);
  const std::uint64_t known = fleet.last().number;
  fleet.run_to(4s);
  fleet.arrive(4s, 1, 1s);
  fleet.run_to(10s);
  fleet.last();
  const std::string all = events_text(fleet.history, 0, "{}");
  const std::string fresh = events_text(fleet.history, known, "{}");
  EXPECT_NE(all.find("event: fleet"), std::string::npos);
  EXPECT_EQ(fresh.find("event: fleet"), std::string::npos);
  EXPECT_NE(fresh.find("\"since\":" + std::to_string(known)), std::string::npos) << fresh;
  EXPECT_EQ(fresh.find("\"since\":null"), std::string::npos);
  EXPECT_LT(fresh.size(), all.size());
  const std::string now = events_text(fleet.history, std::nullopt, "{}");
  EXPECT_NE(now.find("\"since\":null"), std::string::npos);
}

}  // namespace
}  // namespace tangram::control
