#include "sched/recorded_scheduler.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "sched/background.h"
#include "sched/replay.h"
#include "sched/test_fixture.h"

namespace tangram::sched {
namespace {

using namespace std::chrono_literals;
using testing::deployment_of;
using testing::FixtureConfig;

// Two slices of one GPU and one service with buckets up to 32 and 128. A batch of n samples takes (1 + n) ms, twice
// that in the larger bucket.
Deployment small_deployment(int batch_max = 8) {
  FixtureConfig cluster;
  cluster.layouts = {"4g@0 + 3g@4"};
  std::vector<Duration> times;
  for (int n = 1; n <= batch_max; ++n) times.push_back((1 + n) * 1ms);
  cluster.latency = {{"4g", times}, {"3g", times}};
  cluster.services[0].edges = {32, 128};
  cluster.services[0].slo = 50ms;
  cluster.size_factor = [](std::int64_t size) { return size > 32 ? 2.0 : 1.0; };
  return deployment_of(cluster, cluster.layouts);
}

// Answers batches in the order of their start, each after two milliseconds.
class TinyWorld final : public World {
 public:
  TimePoint now() const override { return time; }
  void wake_at(TimePoint when) override { wake = when; }
  void launch(const Batch& batch) override { running.push_back({batch.slice, batch.id, true}); }
  void stop(SliceId slice, bool) override {
    for (auto& batch : running) batch.stopped |= batch.slice == slice;
  }
  void restart(SliceId slice) override { restarting.push_back(slice); }
  void reshape(DeviceId device, const Layout&) override { reshaping.push_back(device); }
  void lend(SliceId slice) override { lent.push_back(slice); }
  void recall(SliceId slice) override { recalled.push_back(slice); }
  void resolve(const Request&, const Outcome&, const Batch*) override { ++resolved; }

  TimePoint time;
  TimePoint wake = kTimeNever;
  std::vector<BatchDone> running;
  std::vector<SliceId> restarting;
  std::vector<DeviceId> reshaping;
  std::vector<SliceId> lent;
  std::vector<SliceId> recalled;
  int resolved = 0;
};

// A busy stretch with failures, a lost slice, a change of plan and slices on loan, some of it in the background, up to
// the end. Every tenth step lets all batches end and asks for a slice, a later one for another, a third for all of them
// back; some of it in vain.
std::string make_recording(std::uint64_t bytes_max = UINT64_MAX) {
  std::string text;
  TinyWorld world;
  Rng rng(7);
  {
    RecordedScheduler recorded(
        world, small_deployment(), {}, [&](std::string_view line) { text += line; }, bytes_max);
    for (std::uint64_t i = 0; i < 400; ++i) {
      world.time += std::chrono::microseconds(rng.below(1500));
      if (world.wake <= world.time) {
        world.wake = kTimeNever;
        recorded.on_wake();
      }
      Request request;
      request.id = RequestId(i);
      request.size = static_cast<std::int64_t>(1 + rng.below(120));
      request.arrival = world.time;
      request.deadline = world.time + std::chrono::milliseconds(5 + rng.below(40));
      if (rng.chance(0.1)) request.priority = kPriorityBackground;
      const RecordNumber record = recorded.on_arrival(request);
      if (i % 7 == 0) recorded.on_abandoned(record, request.id);
      if (i % 10 == 8) {
        recorded.recall(SliceId(0));
        for (const SliceId slice : world.lent) recorded.scheduler().recall(slice);
        world.lent.clear();
      }
      while (!world.recalled.empty()) {
        const SliceId slice = world.recalled.back();
        world.recalled.pop_back();
        recorded.on_returned(slice);
      }
      if (i == 390) recorded.on_ending();
      if (i == 200) recorded.on_plan_ready(small_deployment(4));
      if (i == 300) recorded.on_slice_lost(SliceId(1));
      while (world.running.size() > (i % 10 == 3 ? 0 : 1)) {
        auto done = world.running.front();
        done.ok = !done.stopped && !rng.chance(0.1);
        done.rejected_upstream = !done.ok && !done.stopped && rng.chance(0.5);
        world.running.erase(world.running.begin());
        recorded.on_batch_done(done);
      }
      while (!world.reshaping.empty()) {
        const DeviceId device = world.reshaping.back();
        world.reshaping.pop_back();
        recorded.on_reshaped(device, true);
      }
      while (!world.restarting.empty()) {
        const SliceId slice = world.restarting.back();
        world.restarting.pop_back();
        recorded.on_restarted(slice, true);
      }
      if (i % 10 == 3) recorded.lend_idle(PoolId(static_cast<std::uint32_t>(i / 10 % 2)));
      if (i % 10 == 5) recorded.scheduler().lend(SliceId(static_cast<std::uint32_t>(i / 10 % 2)));
    }
  }
  return text;
}

TEST(Recording, IsReplayedByteForByte) {
  const std::string text = make_recording();
  const auto report = replay("r", text);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->same) << report->difference_line << ": " << report->recorded << " / " << report->replayed;
  EXPECT_TRUE(report->complete);
  EXPECT_GT(report->events, 600u);
  EXPECT_GT(report->actions, 600u);
  EXPECT_NE(text.find(" abandoned "), std::string::npos);
  EXPECT_NE(text.find("< stop "), std::string::npos);
}

// One digit of one decision is another: the line is found.
TEST(Recording, ShowsTheFirstDecisionThatDiffers) {
  std::string text = make_recording();
  const auto at = text.find("< launch 50 ");
  ASSERT_NE(at, std::string::npos);
  const auto line =
      static_cast<std::uint64_t>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n')) + 1;
  text.replace(at, 12, "< launch 51 ");
  const auto report = replay("r", text);
  ASSERT_TRUE(report);
  EXPECT_FALSE(report->same);
  EXPECT_EQ(report->difference_line, line);
  EXPECT_TRUE(report->recorded.starts_with("< launch 51 "));
  EXPECT_TRUE(report->replayed.starts_with("< launch 50 "));
}

// Killed anywhere, what was written is still a recording.
TEST(Recording, MayStopInTheMiddle) {
  const std::string text = make_recording();
  const std::size_t head = text.find("> ");
  for (std::size_t end = head; end < text.size(); end += 997) {
    const auto report = replay("r", std::string_view(text).substr(0, end));
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_TRUE(report->same) << end << " line " << report->difference_line << ": " << report->recorded << " / "
                              << report->replayed;
    EXPECT_FALSE(report->complete);
  }
}

TEST(Recording, EndsAtItsLimitWithAWholeLine) {
  const std::string text = make_recording(20'000);
  EXPECT_LE(text.size(), 20'000u);
  EXPECT_TRUE(text.ends_with('\n'));
  const auto report = replay("r", text);
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->same);
  EXPECT_FALSE(report->complete);
}

TEST(Recording, RefusesWhatIsNone) {
  EXPECT_FALSE(replay("r", ""));
  EXPECT_EQ(replay("r", "hello\n").error().message, "r:1: not a recording");
  EXPECT_EQ(replay("r", "tangram recording 1\nconfig {}\n").error().message,
            "r:1: the recording has version 1; this build replays version 2. Use the build that made the recording");
  std::string text = make_recording();
  text.insert(text.find("> "), "> 5 dance 1\n");
  EXPECT_FALSE(replay("r", text));
}

std::size_t count_of(std::string_view text, std::string_view word) {
  std::size_t count = 0;
  for (auto at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

// Each loan is one event and the action that follows it, whether RecordedScheduler was asked or the Scheduler itself.
// A request that is not granted leaves no line.
TEST(Recording, HoldsEveryLoanAndItsReturn) {
  const std::string text = make_recording();
  const auto granted = count_of(text, "\n< lend ");
  EXPECT_GT(granted, 3u);
  EXPECT_EQ(count_of(text, " lend "), 2 * granted);
  EXPECT_EQ(count_of(text, "\n< recall "), granted);
  EXPECT_EQ(count_of(text, " returned "), granted);
}

// A loan that the recording has and the scheduler would not grant is a difference, not an error.
TEST(Recording, ShowsALoanThatWouldNotBeGranted) {
  std::string text = make_recording();
  const auto at = text.find("> ");
  text.insert(at, "> 0 recall 0\n< recall 0\n");
  const auto report = replay("r", text);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_FALSE(report->same);
  EXPECT_EQ(report->recorded, "> 0 recall 0");
}

// The plan takes both slices away, and one is on loan: the plan recalls it, so no event is written for that.
TEST(Recording, DoesNotTakeARecallByAPlanForARequest) {
  std::string text;
  TinyWorld world;
  FixtureConfig cluster;
  cluster.layouts = {"4g@0 + 3g@4"};
  cluster.latency = {{"7g", {4ms}}, {"4g", {4ms}}, {"3g", {4ms}}};
  {
    RecordedScheduler recorded(world, deployment_of(cluster, cluster.layouts), {},
                               [&](std::string_view line) { text += line; });
    EXPECT_TRUE(recorded.lend(SliceId(1)));
    recorded.on_plan_ready(deployment_of(cluster, {"7g@0"}));
  }
  EXPECT_EQ(count_of(text, "\n> 0 lend 1\n< lend 1\n"), 1u);
  EXPECT_EQ(count_of(text, "\n< recall 1\n"), 1u);
  EXPECT_EQ(count_of(text, "\n> 0 recall"), 0u);
  const auto report = replay("r", text);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->same) << report->recorded << " / " << report->replayed;
}

// A gateway that was restarted begins with what it had learned, and a reload brings a service that it did not have:
// both are replayed. A correction of a place that is not there is no recording of ours.
TEST(Recording, HoldsCorrectionsAndServicesThatWereAdded) {
  std::string text;
  TinyWorld world;
  {
    RecordedScheduler recorded(world, small_deployment(), {}, [&](std::string_view line) { text += line; });
    EXPECT_TRUE(recorded.on_correction({0, 1, 2}, 1'500'000'000, 40'000'000));
    EXPECT_DOUBLE_EQ(recorded.scheduler().state().corrections.factor(0, 1, 3), 1.5);
    Deployment next = small_deployment();
    next.services.push_back(next.services[0]);
    next.services[1].name = "b";
    for (auto& pool : next.pools) {
      pool.services.push_back(pool.services[0]);
      pool.services[1].service = pool.services[1].model.copy = ServiceId(1);
    }
    recorded.on_plan_ready(next);
    while (!world.reshaping.empty()) {
      const DeviceId device = world.reshaping.back();
      world.reshaping.pop_back();
      recorded.on_reshaped(device, true);
    }
    Request request;
    request.service = ServiceId(1);
    request.size = 20;
    request.deadline = kTimeZero + 50ms;
    recorded.on_arrival(request);
    EXPECT_EQ(world.running.size(), 1u);
  }
  const auto report = replay("r", text);
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->same) << report->difference_line << ": " << report->recorded << " / " << report->replayed;
  EXPECT_TRUE(report->complete);
  std::string wrong = text;
  wrong.replace(wrong.find("correction 0 1"), 14, "correction 9 1");
  EXPECT_FALSE(replay("r", wrong));
}

// Without a sink there is nothing between the scheduler and the World.
TEST(Recording, IsOffWithoutASink) {
  TinyWorld world;
  RecordedScheduler recorded(world, small_deployment(), {}, nullptr);
  EXPECT_FALSE(recorded.recording());
  EXPECT_TRUE(recorded.lend(SliceId(0)));
  EXPECT_EQ(world.lent, (std::vector{SliceId(0)}));
}

}  // namespace
}  // namespace tangram::sched
