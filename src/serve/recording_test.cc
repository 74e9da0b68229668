#include "serve/recording.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "sched/background.h"
#include "serve/test_deployment.h"

namespace tangram::serve {
namespace {

// Answers batches in the order of their start, each after two milliseconds.
class TinyWorld final : public sched::World {
 public:
  TimePoint now() const override { return time; }
  void wake_at(TimePoint when) override { wake = when; }
  void launch(const sched::Batch& batch) override { running.push_back({batch.slice, batch.id, true}); }
  void restart(SliceId slice) override { restarting.push_back(slice); }
  void reshape(DeviceId device, const Layout&) override { reshaping.push_back(device); }
  void lend(SliceId) override {}
  void recall(SliceId) override {}
  void resolve(const Request&, const Outcome&, const sched::Batch*) override { ++resolved; }

  TimePoint time;
  TimePoint wake = kTimeNever;
  std::vector<sched::BatchDone> running;
  std::vector<SliceId> restarting;
  std::vector<DeviceId> reshaping;
  int resolved = 0;
};

// A busy stretch with failures, a lost slice and a change of plan, some of it in the background, up to the end.
std::string make_recording(std::uint64_t bytes_max = UINT64_MAX) {
  std::string text;
  TinyWorld world;
  Rng rng(7);
  {
    Door door(
        world, test::deployment(), {}, [&](std::string_view line) { text += line; }, bytes_max);
    for (std::uint64_t i = 0; i < 400; ++i) {
      world.time += std::chrono::microseconds(rng.below(1500));
      if (world.wake <= world.time) {
        world.wake = kTimeNever;
        door.on_wake();
      }
      Request request;
      request.id = RequestId(i);
      request.size = static_cast<std::int64_t>(1 + rng.below(120));
      request.arrival = world.time;
      request.deadline = world.time + std::chrono::milliseconds(5 + rng.below(40));
      if (rng.chance(0.1)) request.priority = sched::kPriorityBackground;
      door.on_arrival(request);
      if (i == 390) door.on_ending();
      if (i == 200) door.on_plan_ready(test::deployment(4));
      if (i == 300) door.on_slice_lost(SliceId(1));
      while (world.running.size() > 1) {
        auto done = world.running.front();
        done.ok = !rng.chance(0.1);
        done.turned_away = !done.ok && rng.chance(0.5);
        world.running.erase(world.running.begin());
        door.on_batch_done(done);
      }
      while (!world.reshaping.empty()) {
        const DeviceId device = world.reshaping.back();
        world.reshaping.pop_back();
        door.on_reshaped(device, true);
      }
      while (!world.restarting.empty()) {
        const SliceId slice = world.restarting.back();
        world.restarting.pop_back();
        door.on_restarted(slice, true);
      }
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
  EXPECT_FALSE(replay("r", "tangram recording 99\n"));
  EXPECT_EQ(replay("r", "hello\n").error().message, "r:1: not a recording, or one of another version");
  std::string text = make_recording();
  text.insert(text.find("> "), "> 5 dance 1\n");
  EXPECT_FALSE(replay("r", text));
}

TEST(Deployment, IsWrittenAndReadBack) {
  const std::string text = write_deployment(test::deployment());
  const auto back = read_deployment(text);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(write_deployment(*back), text);
  EXPECT_FALSE(read_deployment("{}"));
  EXPECT_FALSE(read_deployment("["));
}

}  // namespace
}  // namespace tangram::serve
