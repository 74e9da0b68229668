// From cuts to cuts on the stand-in driver, with a refusal at every write, and back.
#include "recut/recut.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "base/rng.h"
#include "recut/checkpoint.h"
#include "recut/mig_pins.h"

namespace tangram::recut {
namespace {

using adapters::DriverReport;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kInsufficientResources = 23;  // As NVML numbers it.

// The machine behind the library.
class RecutTest : public testing::Test {
 protected:
  void SetUp() override {
    library_ = dlopen(TANGRAM_FAKE_NVML, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
    auto opened = adapters::MigDriver::open(TANGRAM_FAKE_NVML);
    ASSERT_TRUE(opened) << opened.error().message;
    driver_ = std::move(*opened);
  }
  void TearDown() override {
    fail_write(0);
    driver_.reset();
    dlclose(library_);
  }

  void load(const std::string& machine) {
    reinterpret_cast<void (*)(const char*)>(dlsym(library_, "fake_nvml_load"))(machine.c_str());
  }
  void fail_write(int number) {
    reinterpret_cast<void (*)(int, int)>(dlsym(library_, "fake_nvml_fail_write"))(number, kInsufficientResources);
  }
  std::vector<std::string> boards() {
    std::istringstream text(reinterpret_cast<const char* (*)()>(dlsym(library_, "fake_nvml_boards"))());
    std::vector<std::string> list;
    for (std::string line; text >> line;) list.push_back(line);
    return list;
  }
  std::string machine() { return reinterpret_cast<const char* (*)()>(dlsym(library_, "fake_nvml_save"))(); }

  RecutRun go(const std::vector<GpuGoal>& goals) {
    const auto steps = plan_recut(driver_->read(), goals);
    EXPECT_TRUE(steps) << steps.error().message;
    return run_recut(*driver_, *steps, [](std::size_t, const StepResult&) {}, [] { return false; });
  }
  // As the checkpoint has it, through the text of the file.
  Checkpoint checkpoint_now() {
    const DriverReport now = driver_->read();
    Checkpoint checkpoint{"plan.json", "2026-01-02T03:04:05Z", ChangeState::open, {}};
    for (const auto& gpu : now.gpus) checkpoint.gpus.push_back(*goal_of(gpu, fmt::format("rack-{}", gpu.index)));
    const std::string text = write_checkpoint(checkpoint, now);
    auto read = read_checkpoint("file", text, now);
    EXPECT_TRUE(read) << read.error().message;
    EXPECT_EQ(write_checkpoint(*read, now), text);
    return *read;
  }
  // Everything that there is, without what changes with each cut: ids and UUIDs.
  std::multiset<std::string> cuts() {
    std::multiset<std::string> list;
    for (const auto& gpu : driver_->read().gpus) {
      list.insert(fmt::format("{} {}", gpu.index, gpu.mig_enabled));
      for (const auto& slice : gpu.slices) {
        std::string text = fmt::format("{} {}@{}:", gpu.index, slice.vendor_id, slice.start);
        for (const auto& part : slice.parts) text += fmt::format(" {}@{}", part.number, part.start);
        list.insert(text);
      }
    }
    return list;
  }
  std::map<std::string, std::string> uuids() {
    std::map<std::string, std::string> list;
    for (const auto& gpu : driver_->read().gpus) {
      for (const auto& slice : gpu.slices) {
        for (const auto& part : slice.parts) {
          list[fmt::format("{} {}@{} {}@{}", gpu.index, slice.vendor_id, slice.start, part.number, part.start)] =
              part.uuid;
        }
      }
    }
    return list;
  }

  std::unique_ptr<adapters::MigDriver> driver_;

 private:
  void* library_ = nullptr;
};

Layout random_layout(const Geometry& geometry, Rng& rng) {
  Layout layout;
  const auto tries = rng.below(12);
  for (std::uint64_t i = 0; i < tries; ++i) {
    const auto profile = static_cast<std::uint16_t>(rng.below(geometry.profiles.size()));
    const auto& starts = geometry.profiles[profile].starts;
    const Slice slice{profile, static_cast<std::uint16_t>(starts[rng.below(starts.size())])};
    if (fits(geometry, layout, slice)) layout = with_slice(geometry, std::move(layout), slice);
  }
  return layout;
}

GpuGoal goal_for(const Geometry& geometry, int index, Layout layout) {
  return {fmt::format("rack-{}", index), fmt::format("GPU-{}", index), index, geometry, true, std::move(layout), {}};
}

// Now and then a slice that others made: in single parts, or in none.
void scatter_parts(GpuGoal& goal, Rng& rng) {
  for (const auto& slice : goal.layout.slices) {
    const auto kind = rng.below(6);
    if (kind == 0) goal.parts[slice.start] = {};
    if (kind != 1) continue;
    for (int i = 0; i < goal.geometry.profiles[slice.profile].compute_slices; ++i) {
      goal.parts[slice.start].push_back({0, i});
    }
  }
}

// Two GPUs of each type that the library has, each from a random layout to another. Every write of the way fails once,
// alone or with all that follow, so that not even what was half done can be undone; what the checkpoint says then comes
// back, part by part, and a slice that both have is not touched on any way.
TEST_F(RecutTest, EveryMoveComesBackFromAFailureAtEveryWrite) {
  Rng rng(20261116);
  int failures = 0;
  for (const std::string& board : boards()) {
    const Geometry& geometry = *find_geometry(board);
    for (int round = 0; round < 4; ++round) {
      load(fmt::format("gpu {0} GPU-0 1 1 0 0 0\ngpu {0} GPU-1 {1} {1} 0 0 0\n", geometry.type, round % 2));
      std::vector<GpuGoal> before;
      std::vector<GpuGoal> after;
      for (int i = 0; i < 2; ++i) {
        before.push_back(goal_for(geometry, i, random_layout(geometry, rng)));
        scatter_parts(before.back(), rng);
        after.push_back(goal_for(geometry, i, random_layout(geometry, rng)));
      }
      if (round % 2 == 0) before[1] = goal_for(geometry, 1, {});
      before[1].mig = round % 2 == 1;
      ASSERT_TRUE(go(before).complete());
      const std::string start = machine();
      const auto start_cuts = cuts();
      const auto start_uuids = uuids();
      for (int write = 1;; ++write) {
        ASSERT_LT(write, 200);
        load(start);
        const Checkpoint checkpoint = checkpoint_now();
        fail_write(round < 2 ? write : -write);
        const RecutRun run = go(after);
        fail_write(0);
        if (!run.complete()) {
          ++failures;
          ASSERT_THAT(run.error->message, HasSubstr("Insufficient Resources"));
        } else {
          // Done is done: there is nothing left to do.
          const auto again = plan_recut(driver_->read(), after);
          ASSERT_TRUE(again);
          ASSERT_THAT(*again, IsEmpty());
        }
        const RecutRun back = go(checkpoint.gpus);
        ASSERT_TRUE(back.complete()) << geometry.type << " write " << write << ": " << back.error->message;
        ASSERT_EQ(cuts(), start_cuts) << geometry.type << " write " << write;
        // Slices that the way there had no reason to touch are the very same ones.
        const auto end_uuids = uuids();
        for (const auto& goal : after) {
          for (const auto& slice : goal.layout.slices) {
            const auto& mine = before[static_cast<std::size_t>(goal.gpu_index)];
            const bool kept = std::ranges::find(mine.layout.slices, slice) != mine.layout.slices.end();
            if (!kept || mine.parts.contains(slice.start)) continue;
            const std::string key =
                fmt::format("{} {}@{} ", goal.gpu_index, geometry.profiles[slice.profile].vendor_id, slice.start);
            const auto was = start_uuids.lower_bound(key);
            ASSERT_EQ(end_uuids.at(was->first), was->second) << geometry.type << " " << key;
          }
        }
        if (run.complete()) break;
      }
    }
  }
  EXPECT_GT(failures, 300);
}

// 4g@0 + 1g@4 becomes 4g@0 + 2g@4: the 4g stays, the 1g goes before the 2g comes.
TEST_F(RecutTest, StepsTouchOnlyWhatMustChange) {
  const Geometry& geometry = *find_geometry("a100-80gb");
  load("gpu a100-80gb GPU-0 1 1 0 0 0\n");
  ASSERT_TRUE(go({goal_for(geometry, 0, parse_layout(geometry, "4g@0 + 1g@4").layout)}).complete());
  const auto steps = plan_recut(driver_->read(), {goal_for(geometry, 0, parse_layout(geometry, "4g@0 + 2g@4").layout)});
  ASSERT_TRUE(steps);
  std::vector<std::string> texts;
  for (const auto& step : *steps) texts.push_back(to_text(step));
  EXPECT_THAT(texts, ElementsAre("destroy 1g.10gb@4 on rack-0 (GPU 0)", "create 2g.20gb@4 on rack-0 (GPU 0)"));
  EXPECT_EQ((*steps)[0].expected, plan::RecutTimes{}.destroy(1));
}

TEST_F(RecutTest, AnInterruptStopsBetweenTwoSteps) {
  const Geometry& geometry = *find_geometry("a30");
  load("gpu a30 GPU-0 1 1 0 0 0\n");
  const std::vector<GpuGoal> goals{goal_for(geometry, 0, parse_layout(geometry, "1g@0 + 1g@1 + 2g@2").layout)};
  const auto steps = plan_recut(driver_->read(), goals);
  int asked = 0;
  const RecutRun run = run_recut(*driver_, *steps, [](std::size_t, const StepResult&) {}, [&] { return ++asked == 3; });
  EXPECT_TRUE(run.interrupted);
  EXPECT_EQ(run.done(), 2U);
  EXPECT_EQ(run.results[2].outcome, StepOutcome::not_reached);
  EXPECT_TRUE(go(goals).complete());
}

TEST_F(RecutTest, ProcessesAreInTheWayOfSlicesThatGoAndOfNoOthers) {
  const Geometry& geometry = *find_geometry("a100-80gb");
  load("gpu a100-80gb GPU-0 1 1 0 0 0\n");
  ASSERT_TRUE(go({goal_for(geometry, 0, parse_layout(geometry, "3g@0 + 3g@4").layout)}).complete());
  const auto slices = driver_->read().gpus[0].slices;
  load(machine() + fmt::format("process 0 {} {}\n", slices[1].id, getpid()));
  const DriverReport now = driver_->read();
  const auto left = plan_recut(now, {goal_for(geometry, 0, parse_layout(geometry, "4g@0 + 3g@4").layout)});
  EXPECT_THAT(obstacles(now, *left), IsEmpty());
  const auto right = plan_recut(now, {goal_for(geometry, 0, parse_layout(geometry, "3g@0 + 2g@4").layout)});
  const auto found = obstacles(now, *right);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].pid, getpid());
  EXPECT_EQ(found[0].where, "3g.40gb@4 of rack-0 (GPU 0)");
  load("gpu a100-80gb GPU-0 1 1 0 0 0\n");
}

TEST_F(RecutTest, SaysWhyAGpuCannotBeCut) {
  const Geometry& geometry = *find_geometry("a100-80gb");
  const auto message = [&](const std::string& text) {
    load(text);
    const auto steps = plan_recut(driver_->read(), {goal_for(geometry, 0, parse_layout(geometry, "7g@0").layout)});
    return steps ? "" : steps.error().message;
  };
  EXPECT_THAT(message("gpu a100-80gb GPU-7 1 1 0 0 0\n"), HasSubstr("no GPU has the UUID GPU-0"));
  EXPECT_THAT(message("gpu a100-80gb GPU-0 0 1 1 0 0\n"), HasSubstr("nvidia-smi --gpu-reset -i 0"));
}

// 3g@4 belongs to others, who have it in two parts. What is cut beside it leaves it alone; a GPU without it is refused,
// whatever else is there, and MIG mode is not switched on for it.
TEST_F(RecutTest, SlicesThatOthersUseAreNeitherMadeNorChanged) {
  const Geometry& geometry = *find_geometry("a100-80gb");
  GpuGoal goal = goal_for(geometry, 0, parse_layout(geometry, "2g@0 + 3g@4").layout);
  goal.reserved = parse_layout(geometry, "3g@4").layout;
  GpuGoal theirs = goal_for(geometry, 0, parse_layout(geometry, "1g@0 + 3g@4").layout);
  theirs.parts[4] = {{1, 0}, {0, 2}};
  load("gpu a100-80gb GPU-0 1 1 0 0 0\n");
  ASSERT_TRUE(go({theirs}).complete());
  const auto before = uuids();
  ASSERT_TRUE(go({goal}).complete());
  EXPECT_THAT(cuts(), ElementsAre("0 14@0: 1@0", "0 9@4: 1@0 0@2", "0 true"));
  for (const auto& [place, uuid] : uuids()) {
    const bool is_theirs = place.starts_with("0 9@4");
    EXPECT_EQ(is_theirs, before.contains(place) && before.at(place) == uuid) << place;
  }
  const auto refused = [&] {
    const auto steps = plan_recut(driver_->read(), {goal});
    return steps ? std::string() : steps.error().message;
  };
  ASSERT_TRUE(go({goal_for(geometry, 0, parse_layout(geometry, "1g@0 + 2g@4").layout)}).complete());
  EXPECT_THAT(refused(), HasSubstr("rack-0 (GPU 0): others use 3g.40gb@4 (reserved), but the GPU is cut 1g.10gb@0 + "
                                   "2g.20gb@4"));
  load("gpu a100-80gb GPU-0 0 0 0 0 0\n");
  EXPECT_THAT(refused(), HasSubstr("others use 3g.40gb@4 (reserved), but the GPU is cut empty"));
}

// The profile numbers of the driver's library: 2 is 3g, 1 is 2g of its parts, 0 is 1g. That tool says no starts.
TEST_F(RecutTest, UnderstandsACheckpointOfMigParted) {
  load("gpu a100-80gb GPU-0 1 1 0 0 0\n");
  const std::string text = R"({"Version":"v1","MigState":{"Devices":[{"UUID":"GPU-0","MigMode":1,"GpuInstances":[
    {"ProfileID":2,"Placement":{"Start":4,"Size":4},"ComputeInstances":[{"ProfileID":1,"EngProfileID":0},
     {"ProfileID":0,"EngProfileID":0}]}]}]}})";
  const auto checkpoint = read_checkpoint("theirs.json", text, driver_->read());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  ASSERT_TRUE(go(checkpoint->gpus).complete());
  EXPECT_THAT(cuts(), ElementsAre("0 9@4: 1@0 0@2", "0 true"));
}

TEST_F(RecutTest, RefusesCheckpointsThatMakeNoSense) {
  load("gpu a100-80gb GPU-0 1 1 0 0 0\n");
  const auto message = [&](const std::string& text) {
    const auto read = read_checkpoint("file", text, driver_->read());
    return read ? "" : read.error().message;
  };
  const auto with = [](const std::string& slices) {
    return R"({"Version":"v1","MigState":{"Devices":[{"UUID":"GPU-0","MigMode":1,"GpuInstances":[)" + slices + "]}]}}";
  };
  EXPECT_EQ(message("{"), "file: not valid JSON");
  EXPECT_EQ(message("{}"), "file: expected Version \"v1\"");
  EXPECT_THAT(message(R"({"Version":"v1"})"), HasSubstr("expected a checkpoint of GPUs"));
  EXPECT_THAT(message(with(R"({"ProfileID":99,"Placement":{"Start":0}})")), HasSubstr("no profile with the id 99"));
  EXPECT_THAT(message(with(R"({"ProfileID":2,"Placement":{"Start":1}})")), HasSubstr("3g.40gb may not start at 1"));
  EXPECT_THAT(message(R"({"Version":"v1","MigState":{"Devices":[{"UUID":"GPU-9","MigMode":1}]}})"),
              HasSubstr("has the UUID GPU-9"));
}

// Slices of a checkpoint are known by our name where the driver tells no profiles: its MIG mode is off, as after a
// boot.
TEST_F(RecutTest, ReadsACheckpointWhileTheDriverTellsNoProfiles) {
  const Geometry& geometry = *find_geometry("h100-80gb");
  load("gpu h100-80gb GPU-0 1 1 0 0 0\n");
  ASSERT_TRUE(go({goal_for(geometry, 0, parse_layout(geometry, "3g@0 + 1g.20gb@6").layout)}).complete());
  const auto cut = cuts();
  const DriverReport now = driver_->read();
  const std::string text = write_checkpoint({"", "", ChangeState::done, {*goal_of(now.gpus[0], "h")}}, now);
  load("gpu h100-80gb GPU-0 0 0 0 0 0\n");
  setenv("FAKE_NVML_SHY", "1", 1);
  const auto checkpoint = read_checkpoint("file", text, driver_->read());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  ASSERT_TRUE(go(checkpoint->gpus).complete());
  unsetenv("FAKE_NVML_SHY");
  EXPECT_EQ(cuts(), cut);
}

// An open checkpoint carries the one whose place it took, byte for byte; what is no checkpoint is not carried.
TEST_F(RecutTest, AnOpenCheckpointKeepsTheOneBeforeIt) {
  load("gpu a100-80gb GPU-0 1 1 0 0 0\n");
  const DriverReport now = driver_->read();
  Checkpoint checkpoint{"a.json", "2026-01-02T03:04:05Z", ChangeState::done, {*goal_of(now.gpus[0], "a")}};
  const std::string before = write_checkpoint(checkpoint, now);
  checkpoint.state = ChangeState::open;
  checkpoint.previous = before;
  const auto read = read_checkpoint("file", write_checkpoint(checkpoint, now), now);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->previous, before);
  EXPECT_EQ(read->state, ChangeState::open);
  EXPECT_EQ(read_checkpoint("file", before, now)->state, ChangeState::done);
  checkpoint.state = ChangeState::undone;
  checkpoint.previous = "rubbish";
  const auto undone = read_checkpoint("file", write_checkpoint(checkpoint, now), now);
  EXPECT_EQ(undone->state, ChangeState::undone);
  EXPECT_EQ(undone->previous, "");
}

// GPU 0 has been cut and is where it was to go, GPU 1 has been cut half way: only when GPU 1 is reached, too, or is as
// it was, has the change come to its end.
TEST_F(RecutTest, AChangeIsSettledWhenNoneOfItsGpusIsHalfWay) {
  load("gpu a100-80gb GPU-0 1 1 0 0 0\ngpu a100-80gb GPU-1 1 1 0 0 0\n");
  const Geometry& geometry = *find_geometry("a100-80gb");
  const Checkpoint checkpoint = checkpoint_now();
  EXPECT_TRUE(is_as_it_was(checkpoint, driver_->read()));
  const GpuGoal first = goal_for(geometry, 0, parse_layout(geometry, "7g@0").layout);
  const GpuGoal second = goal_for(geometry, 1, parse_layout(geometry, "3g@0 + 3g@4").layout);
  ASSERT_TRUE(go({first, goal_for(geometry, 1, parse_layout(geometry, "3g@0").layout)}).complete());
  EXPECT_FALSE(is_as_it_was(checkpoint, driver_->read()));
  EXPECT_FALSE(is_settled(checkpoint, {first}, driver_->read()));
  EXPECT_TRUE(is_settled(checkpoint, {first, second}, driver_->read()));
  ASSERT_TRUE(go({goal_for(geometry, 1, {})}).complete());
  EXPECT_TRUE(is_settled(checkpoint, {first}, driver_->read()));
}

// The second write of the way destroys the slice whose part is gone already. It is refused, the part is made again, and
// programs find the slice under another UUID though every cut is as it was.
TEST_F(RecutTest, SaysWhichMigDevicesWereMadeAnew) {
  load("gpu a100-80gb GPU-0 1 1 0 0 0\n");
  const Geometry& geometry = *find_geometry("a100-80gb");
  ASSERT_TRUE(go({goal_for(geometry, 0, parse_layout(geometry, "3g@0 + 3g@4").layout)}).complete());
  const Checkpoint checkpoint = checkpoint_now();
  const DriverReport before = driver_->read();
  const std::vector<GpuGoal> goals{goal_for(geometry, 0, parse_layout(geometry, "3g@0 + 2g@4").layout)};
  EXPECT_THAT(made_anew(before, driver_->read(), goals), IsEmpty());
  fail_write(2);
  ASSERT_FALSE(go(goals).complete());
  fail_write(0);
  const DriverReport now = driver_->read();
  EXPECT_TRUE(is_as_it_was(checkpoint, now));
  const auto anew = made_anew(before, now, goals);
  ASSERT_EQ(anew.size(), 1U);
  EXPECT_EQ(anew[0].where, "3g.40gb@4 of rack-0 (GPU 0)");
  EXPECT_EQ(anew[0].before, before.gpus[0].slices[1].parts[0].uuid);
  EXPECT_EQ(anew[0].after, now.gpus[0].slices[1].parts[0].uuid);
  EXPECT_NE(anew[0].before, anew[0].after);
}

TEST(RecutLockTest, IsHeldByOneAtATime) {
  std::string directory = (std::filesystem::temp_directory_path() / "tangram-lock-XXXXXX").string();
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  auto first = RecutLock::take(directory + "/deep/state");
  ASSERT_TRUE(first);
  EXPECT_THAT(RecutLock::take(directory + "/deep/state").error().message, HasSubstr("another tangram apply"));
  first->reset();
  EXPECT_TRUE(RecutLock::take(directory + "/deep/state"));
  std::filesystem::remove_all(directory);
}

PlannedDevice device_of(const std::string& name, const std::string& type, const std::string& layout) {
  const Geometry& geometry = *find_geometry(type);
  PlannedDevice device{name, type, geometry, {}};
  for (const auto& slice : parse_layout(geometry, layout).layout.slices) device.slices.push_back({slice, {}});
  return device;
}

// GPU 2 is cut as `b` wants, GPU 0 nearly as `a` wants, and GPU 1 is of another type.
TEST_F(RecutTest, DevicesAreTheGpusThatNeedTheFewestCuts) {
  load("gpu a100-80gb GPU-0 1 1 0 0 0\ngpu h100-80gb GPU-1 1 1 0 0 0\ngpu a100-80gb GPU-2 1 1 0 0 0\n");
  const Geometry& geometry = *find_geometry("a100-80gb");
  ASSERT_TRUE(go({goal_for(geometry, 0, parse_layout(geometry, "4g@0").layout),
                  goal_for(geometry, 2, parse_layout(geometry, "3g@0 + 3g@4").layout)})
                  .complete());
  const Plan plan{{device_of("b", "a100-80gb", "3g@0 + 3g@4"), device_of("a", "a100-80gb", "4g@0 + 3g@4")}};
  const DriverReport now = driver_->read();
  const auto indices = [&](const GpuChoices& choices) {
    std::vector<int> list;
    for (const auto& pair : *match_devices(plan, now, choices)) list.push_back(pair.gpu->index);
    return list;
  };
  EXPECT_THAT(indices({}), ElementsAre(2, 0));
  EXPECT_THAT(indices({{"b", "GPU-0"}}), ElementsAre(0, 2));
  EXPECT_THAT(indices({{"a", "2"}}), ElementsAre(0, 2));
  const auto message = [&](const GpuChoices& choices) { return match_devices(plan, now, choices).error().message; };
  EXPECT_EQ(message({{"a", "1"}}), "--gpu a=1: the plan needs a100-80gb, but this GPU is h100-80gb");
  EXPECT_THAT(message({{"c", "1"}}), HasSubstr("the plan has no GPU of that name"));
  EXPECT_THAT(message({{"a", "0"}, {"b", "0"}}), HasSubstr("another device already uses this GPU"));
  Plan larger = plan;
  larger.devices.push_back(device_of("c", "a100-80gb", "7g@0"));
  EXPECT_THAT(match_devices(larger, now, {}).error().message,
              HasSubstr("needs 3 GPUs of type a100-80gb, but this machine has 2"));
}

// Of two GPUs the first does not answer, and tells its UUID or not even that: the device that is said to be it cannot be
// reached, or else the last one. With a GPU for each there is none.
TEST_F(RecutTest, DevicesWhoseGpuDoesNotAnswerAreKnown) {
  load("gpu a100-80gb GPU-0 1 1 0 0 0\ngpu a100-80gb GPU-1 1 1 0 0 0\n");
  const Plan plan{{device_of("a", "a100-80gb", ""), device_of("b", "a100-80gb", "")}};
  DriverReport now = driver_->read();
  EXPECT_TRUE(unreachable_devices(plan, now, {{"a", "GPU-0"}}).empty());
  now.gpus[0].reachable = now.gpus[0].mig_capable = false;
  EXPECT_EQ(unreachable_devices(plan, now, {}), (GpuChoices{{"b", "GPU-0"}}));
  EXPECT_EQ(unreachable_devices(plan, now, {{"a", "GPU-0"}, {"b", "GPU-1"}}), (GpuChoices{{"a", "GPU-0"}}));
  EXPECT_EQ(unreachable_devices(plan, now, {{"b", "0"}}), (GpuChoices{{"b", "GPU-0"}}));
  const Plan one{{device_of("a", "a100-80gb", "")}};
  EXPECT_TRUE(unreachable_devices(one, now, {}).empty());
  now.gpus[0].uuid.clear();
  EXPECT_EQ(unreachable_devices(plan, now, {{"a", "GPU-0"}}), (GpuChoices{{"a", "GPU-0"}}));
  EXPECT_EQ(unreachable_devices(plan, now, {{"a", "GPU-1"}}), (GpuChoices{{"b", "unknown"}}));
}

// The second GPU needs more cuts, but it has the slice that others use.
TEST_F(RecutTest, ADeviceWithASliceOfOthersIsAGpuThatHasIt) {
  load("gpu a100-80gb GPU-0 1 1 0 0 0\ngpu a100-80gb GPU-1 1 1 0 0 0\n");
  const Geometry& geometry = *find_geometry("a100-80gb");
  ASSERT_TRUE(go({goal_for(geometry, 0, parse_layout(geometry, "2g@0").layout),
                  goal_for(geometry, 1, parse_layout(geometry, "1g@0 + 1g@1 + 3g@4").layout)})
                  .complete());
  Plan plan{{device_of("a", "a100-80gb", "2g@0 + 3g@4")}};
  plan.devices[0].slices[1].reserved = true;
  const DriverReport now = driver_->read();
  const auto matched = match_devices(plan, now, {});
  ASSERT_TRUE(matched);
  EXPECT_EQ((*matched)[0].gpu->index, 1);
  const auto goals = goals_of(*matched);
  EXPECT_EQ(to_string(geometry, goals[0].reserved), "3g.40gb@4");
}

// A worker of 3g@4 is pinned to that slice's MIG device; one of a slice that is not there has no place to run.
TEST_F(RecutTest, WorkersAreOnTheMigDevicesOfTheirSlices) {
  setenv("TANGRAM_NVML", TANGRAM_FAKE_NVML, 1);
  const Geometry& geometry = *find_geometry("a100-80gb");
  load("gpu a100-80gb GPU-0 1 1 0 0 0\n");
  ASSERT_TRUE(go({goal_for(geometry, 0, parse_layout(geometry, "4g@0 + 3g@4").layout)}).complete());
  const Plan plan{{device_of("a", "a100-80gb", "4g@0 + 3g@4")}};
  MigPins pins({}, true);
  ASSERT_TRUE(pins.look_up(plan));
  const auto slice = plan.devices[0].slices[1].slice;
  const std::string uuid = driver_->read().gpus[0].slices[1].parts[0].uuid;
  EXPECT_THAT(pins.environment("a", slice), ElementsAre("CUDA_VISIBLE_DEVICES=" + uuid));
  EXPECT_THAT(pins.environment("b", slice), IsEmpty());
  const Plan other{{device_of("a", "a100-80gb", "4g@0 + 2g@4")}};
  EXPECT_EQ(pins.look_up(other).error().message, "a: 2g.20gb@4 does not exist on GPU 0; tangram apply creates it");
  EXPECT_THAT(pins.environment("a", slice), ElementsAre("CUDA_VISIBLE_DEVICES=" + uuid)) << "what was known is kept";
  Plan beside = other;
  beside.devices[0].slices[1].reserved = true;  // Others have cut it into parts of their own, or not made it yet.
  EXPECT_TRUE(MigPins({}, true).look_up(beside));
  MigPins easy({}, false);
  EXPECT_TRUE(easy.look_up(other));
  EXPECT_THAT(easy.environment("a", slice), IsEmpty());
  setenv("TANGRAM_NVML", "/nowhere.so", 1);
  EXPECT_THAT(*MigPins({}, true).look_up(plan), HasSubstr("run on the CPU"));
  unsetenv("TANGRAM_NVML");
}

}  // namespace
}  // namespace tangram::recut
