// A change on the stand-in driver: what it tells, what it answers, and what the checkpoint says afterwards.
#include "recut/change.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

#include "host/files.h"

namespace tangram::recut {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Writes down every call, in words.
class HeardChange final : public ChangeObserver {
 public:
  void compared(const std::vector<GpuGoal>& goals, const adapters::DriverReport&) override {
    heard.push_back(fmt::format("compared {}", goals.size()));
  }
  void planned(const std::vector<RecutStep>& steps) override {
    heard.push_back(fmt::format("planned {}", steps.size()));
  }
  void would_wait(const std::vector<Obstacle>& list) override {
    heard.push_back(fmt::format("would wait for {}", list.size()));
  }
  void waiting(const std::vector<Obstacle>& list, bool first) override {
    heard.push_back(fmt::format("waiting for {}{}", list.size(), first ? " first" : ""));
    if (on_waiting) on_waiting();
  }
  void replanned(const std::vector<RecutStep>& steps) override {
    heard.push_back(fmt::format("replanned {}", steps.size()));
  }
  void writing_checkpoint(const std::string&) override { heard.push_back("checkpoint"); }
  void checkpoint_kept(CheckpointKept why, const std::string&) override {
    heard.push_back(why == CheckpointKept::unfinished ? "kept unfinished" : "kept half way");
  }
  void starting(bool rolls_back) override { heard.push_back(rolls_back ? "starting back" : "starting"); }
  void step_done(std::size_t index, const RecutStep&, const StepResult& result) override {
    heard.push_back(fmt::format("step {} {}", index, result.outcome == StepOutcome::done ? "done" : "failed"));
  }
  void earlier_change_remains() override { heard.push_back("earlier remains"); }
  bool stop_wanted() override { return asked++ == stop_at; }

  std::vector<std::string> heard;
  std::function<void()> on_waiting;
  int asked = 0;
  int stop_at = -1;  // Which question is answered with yes.
};

// One a100-80gb and a state directory of its own.
class ChangeTest : public testing::Test {
 protected:
  void SetUp() override {
    library_ = dlopen(TANGRAM_FAKE_NVML, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
    directory_ = (std::filesystem::temp_directory_path() / "tangram-change-XXXXXX").string();
    ASSERT_NE(mkdtemp(directory_.data()), nullptr);
    load("gpu a100-80gb GPU-0 1 1 0 0 0\n");
  }
  void TearDown() override {
    fail_write(0);
    load("gpu a100-80gb GPU-0 1 1 0 0 0\n");
    dlclose(library_);
    std::filesystem::remove_all(directory_);
  }

  void load(const std::string& machine) {
    reinterpret_cast<void (*)(const char*)>(dlsym(library_, "fake_nvml_load"))(machine.c_str());
  }
  std::string machine() { return reinterpret_cast<const char* (*)()>(dlsym(library_, "fake_nvml_save"))(); }
  void fail_write(int number) {
    reinterpret_cast<void (*)(int, int)>(dlsym(library_, "fake_nvml_fail_write"))(
        number, 23);  // Insufficient resources, as NVML numbers it.
  }

  // One change from open() to its end. The observer is new for each.
  ChangeResult change(ChangeOptions options, const std::function<ChangeResult(Change&)>& act) {
    options.directory = directory_;
    options.look_every = std::chrono::milliseconds(0);
    Change change(options, heard_);
    const auto opened = change.open(TANGRAM_FAKE_NVML);
    EXPECT_TRUE(opened) << opened.error().message;
    ChangeResult result = act(change);
    now_ = change.now();
    return result;
  }
  ChangeResult apply(const std::string& layout, const ChangeOptions& options = {}) {
    return change(options, [&](Change& change) { return change.apply({goal(layout)}, "plan.json"); });
  }
  ChangeResult roll_back(const ChangeOptions& options = {}) {
    return change(options, [&](Change& change) { return change.roll_back(*stored(change.now())); });
  }
  GpuGoal goal(const std::string& layout) {
    const Geometry& geometry = *find_geometry("a100-80gb");
    return {"rack-0", "GPU-0", 0, geometry, true, parse_layout(geometry, layout).layout, {}};
  }
  std::optional<Checkpoint> stored(const adapters::DriverReport& now) {
    HeardChange nobody;
    return *CheckpointKeeper(checkpoint_path(directory_), nobody).stored(now);
  }
  // "3g.40gb@0 + 3g.40gb@4"
  std::string layout() {
    const Geometry& geometry = *find_geometry("a100-80gb");
    return to_string(geometry, adapters::recognise_layout(geometry, now_.gpus[0]).layout);
  }
  // This process uses the slice at `start`.
  void use_slice(std::size_t index) {
    load(machine() + fmt::format("process 0 {} {}\n", now_.gpus[0].slices[index].id, getpid()));
  }

  HeardChange heard_;
  adapters::DriverReport now_;
  std::string directory_;

 private:
  void* library_ = nullptr;
};

// Two slices are two steps. The checkpoint is written before the first of them and closed after the last.
TEST_F(ChangeTest, WritesTheCheckpointBeforeTheFirstStepAndClosesItAfterTheLast) {
  const ChangeResult result = apply("3g@0 + 3g@4");
  EXPECT_EQ(result.status, ChangeStatus::done);
  EXPECT_EQ(result.changed, true);
  EXPECT_EQ(result.steps, 2U);
  EXPECT_FALSE(result.as_before);
  EXPECT_THAT(heard_.heard, ElementsAre("compared 1", "planned 2", "checkpoint", "starting", "step 0 done",
                                        "step 1 done", "checkpoint"));
  ASSERT_TRUE(stored(now_));
  EXPECT_EQ(stored(now_)->state, ChangeState::done);
  EXPECT_EQ(stored(now_)->plan, "plan.json");
}

TEST_F(ChangeTest, ADryRunWritesNothing) {
  const ChangeResult result = apply("7g@0", {.dry_run = true});
  EXPECT_EQ(result.status, ChangeStatus::planned);
  EXPECT_THAT(heard_.heard, ElementsAre("compared 1", "planned 1", "would wait for 0"));
  EXPECT_TRUE(std::filesystem::is_empty(directory_));
  EXPECT_TRUE(now_.gpus[0].slices.empty());
}

TEST_F(ChangeTest, RollbackGoesBackOnce) {
  ASSERT_EQ(apply("3g@0").status, ChangeStatus::done);
  ASSERT_EQ(apply("3g@0 + 2g@4").status, ChangeStatus::done);
  heard_.heard.clear();
  const ChangeResult back = roll_back();
  EXPECT_EQ(back.status, ChangeStatus::done);
  EXPECT_TRUE(back.as_before);
  EXPECT_EQ(layout(), "3g.40gb@0");
  EXPECT_EQ(stored(now_)->state, ChangeState::undone);
  EXPECT_EQ(roll_back().status, ChangeStatus::nothing_to_do);
  EXPECT_EQ(layout(), "3g.40gb@0");
}

// Others had 3g@4 when the plan was applied, and have cut it into two since. The way back would put it together again:
// it is refused, and the slices stay theirs.
TEST_F(ChangeTest, RollbackLeavesWhatOthersUse) {
  ASSERT_EQ(apply("1g@0 + 3g@4").status, ChangeStatus::done);
  const auto planned = [&](Change& change) {
    GpuGoal wanted = goal("2g@0 + 3g@4");
    wanted.reserved = goal("3g@4").layout;
    return change.apply({wanted}, "plan.json");
  };
  ASSERT_EQ(change({}, planned).status, ChangeStatus::done);
  const auto kept = *stored(now_);
  EXPECT_EQ(kept.gpus[0].reserved, goal("3g@4").layout);
  {  // By hand, as nvidia-smi would.
    auto driver = adapters::MigDriver::open(TANGRAM_FAKE_NVML);
    ASSERT_TRUE(driver);
    const auto steps = plan_recut((*driver)->read(), {goal("2g@0 + 1g@4 + 1g@5")});
    ASSERT_TRUE(steps) << steps.error().message;
    const auto run = run_recut(**driver, *steps, [](std::size_t, const StepResult&) {}, [] { return false; });
    ASSERT_TRUE(run.complete());
  }
  const ChangeResult back = roll_back();
  EXPECT_EQ(back.status, ChangeStatus::failed);
  ASSERT_TRUE(back.error);
  EXPECT_NE(back.error->message.find("others use 3g.40gb@4"), std::string::npos) << back.error->message;
  EXPECT_EQ(layout(), "2g.20gb@0 + 1g.10gb@4 + 1g.10gb@5");
}

// After the rollback another tool cuts 2g@4 again. What was undone must not be undone a second time.
TEST_F(ChangeTest, RefusesToUndoWhatIsUndoneWhenTheCutsDifferSince) {
  ASSERT_EQ(apply("2g@4").status, ChangeStatus::done);
  const std::string cut = machine();
  ASSERT_EQ(roll_back().status, ChangeStatus::done);
  load(cut);
  const ChangeResult again = roll_back();
  EXPECT_EQ(again.status, ChangeStatus::failed);
  EXPECT_THAT(again.error->message, HasSubstr("was rolled back, and these GPUs have been cut since"));
  EXPECT_EQ(layout(), "2g.20gb@4");
}

// stop_wanted() is asked before each step: yes to the second question leaves one step of two.
TEST_F(ChangeTest, AnInterruptLeavesAnOpenCheckpointThatTheNextChangeKeeps) {
  heard_.stop_at = 1;
  const ChangeResult result = apply("3g@0 + 3g@4");
  EXPECT_EQ(result.status, ChangeStatus::interrupted);
  ASSERT_TRUE(result.stopped);
  EXPECT_EQ(result.stopped->done, 1U);
  ASSERT_TRUE(result.stopped->way_back);
  ASSERT_EQ(result.stopped->way_back->steps.size(), 1U);
  EXPECT_EQ(result.stopped->way_back->steps[0].action, RecutAction::destroy);
  EXPECT_EQ(stored(now_)->state, ChangeState::open);
  const std::string made = stored(now_)->made;

  heard_.heard.clear();
  EXPECT_EQ(apply("3g@0 + 2g@4").status, ChangeStatus::done);
  EXPECT_THAT(heard_.heard, testing::Contains("kept unfinished"));
  EXPECT_EQ(stored(now_)->made, made);
  // The way back leads before the first of the two changes.
  EXPECT_EQ(roll_back().status, ChangeStatus::done);
  EXPECT_TRUE(now_.gpus[0].slices.empty());
}

// A change stops half way, and the next one knows what others use by now. The way back knows it, too; where the saved
// cuts do not have it, there is none, so the change is refused.
TEST_F(ChangeTest, ANoteOfAnInterruptedChangeLearnsWhatOthersUse) {
  ASSERT_EQ(apply("1g@0 + 3g@4").status, ChangeStatus::done);
  heard_.asked = 0;
  heard_.stop_at = 1;
  ASSERT_EQ(apply("2g@0 + 2g@2 + 3g@4").status, ChangeStatus::interrupted);
  ASSERT_EQ(stored(now_)->state, ChangeState::open);
  const auto apply_beside = [&](const char* layout, const char* theirs) {
    return change({}, [&](Change& change) {
      GpuGoal wanted = goal(layout);
      wanted.reserved = goal(theirs).layout;
      return change.apply({wanted}, "plan.json");
    });
  };
  ASSERT_EQ(apply_beside("1g@0 + 1g@1 + 3g@4", "3g@4").status, ChangeStatus::done);
  EXPECT_EQ(stored(now_)->gpus[0].reserved, goal("3g@4").layout);

  ASSERT_EQ(apply("3g@4").status, ChangeStatus::done);
  heard_.asked = 0;
  heard_.stop_at = 2;
  ASSERT_EQ(apply("2g@0 + 2g@2 + 1g@4").status, ChangeStatus::interrupted);
  const std::string cut = layout();
  ASSERT_THAT(cut, HasSubstr("2g.20gb@0"));
  const ChangeResult refused = apply_beside("2g@0 + 1g@4", "2g@0");
  EXPECT_EQ(refused.status, ChangeStatus::failed);
  ASSERT_TRUE(refused.error);
  EXPECT_THAT(refused.error->message, HasSubstr("rack-0 (GPU 0): others use 2g.20gb@0 (reserved), but an interrupted"));
  EXPECT_EQ(layout(), cut);
}

// The first write of the second change fails: no cut changed, so the change did not happen and rollback still undoes
// the change before it.
TEST_F(ChangeTest, AChangeThatChangedNothingRestoresTheCheckpointBeforeIt) {
  ASSERT_EQ(apply("3g@0").status, ChangeStatus::done);
  const std::string before = *host::read_file(checkpoint_path(directory_));
  fail_write(1);
  const ChangeResult result = apply("3g@0 + 3g@4");
  fail_write(0);
  EXPECT_EQ(result.status, ChangeStatus::failed);
  EXPECT_THAT(result.error->message, HasSubstr("Insufficient Resources"));
  EXPECT_EQ(result.changed, false);
  EXPECT_EQ(*host::read_file(checkpoint_path(directory_)), before);
  ASSERT_TRUE(result.stopped->way_back);
  EXPECT_EQ(result.stopped->way_back->checkpoint.state, ChangeState::done);
  EXPECT_EQ(roll_back().status, ChangeStatus::done);
  EXPECT_TRUE(now_.gpus[0].slices.empty());
}

// A rollback opens the checkpoint before its first step. One that fails there must leave the change as done.
TEST_F(ChangeTest, ARollbackThatDidNothingLeavesTheChangeDone) {
  ASSERT_EQ(apply("3g@0").status, ChangeStatus::done);
  fail_write(1);
  const ChangeResult back = roll_back();
  fail_write(0);
  EXPECT_EQ(back.status, ChangeStatus::failed);
  EXPECT_FALSE(back.stopped->way_back);
  EXPECT_EQ(stored(now_)->state, ChangeState::done);
}

TEST_F(ChangeTest, RefusesWhileASliceThatMustGoIsInUse) {
  ASSERT_EQ(apply("3g@0").status, ChangeStatus::done);
  use_slice(0);
  heard_.heard.clear();
  const ChangeResult result = apply("4g@0");
  EXPECT_EQ(result.status, ChangeStatus::refused);
  EXPECT_EQ(result.waited_s, 0);
  EXPECT_THAT(heard_.heard, ElementsAre("compared 1", "planned 2", "waiting for 1 first"));
  EXPECT_EQ(layout(), "3g.40gb@0");
}

// The process ends during the first look, so the second look finds the way clear.
TEST_F(ChangeTest, GoesOnWhenTheProcessEnds) {
  ASSERT_EQ(apply("3g@0").status, ChangeStatus::done);
  const std::string idle = machine();
  use_slice(0);
  heard_.on_waiting = [&] { load(idle); };
  heard_.heard.clear();
  EXPECT_EQ(apply("4g@0", {.wait_s = 60}).status, ChangeStatus::done);
  EXPECT_THAT(heard_.heard, ElementsAre("compared 1", "planned 2", "waiting for 1 first", "replanned 2", "checkpoint",
                                        "starting", "step 0 done", "step 1 done", "checkpoint"));
}

TEST_F(ChangeTest, AnInterruptWhileWaitingChangesNothing) {
  ASSERT_EQ(apply("3g@0").status, ChangeStatus::done);
  use_slice(0);
  heard_.asked = 0;
  heard_.stop_at = 2;
  const ChangeResult result = apply("4g@0", {.wait_s = 60});
  EXPECT_EQ(result.status, ChangeStatus::interrupted);
  EXPECT_FALSE(result.stopped);
  EXPECT_EQ(layout(), "3g.40gb@0");
}

// Another run holds the lock: the second change does not even read the driver.
TEST_F(ChangeTest, OneChangeAtATime) {
  Change first({.directory = directory_}, heard_);
  ASSERT_TRUE(first.open(TANGRAM_FAKE_NVML));
  Change second({.directory = directory_}, heard_);
  const auto opened = second.open(TANGRAM_FAKE_NVML);
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("another tangram apply"));
  EXPECT_THAT(second.now().gpus, IsEmpty());
}

TEST_F(ChangeTest, AddressesNameTheMigDeviceOfEachSlice) {
  ASSERT_EQ(apply("3g@0").status, ChangeStatus::done);
  const auto addresses = slice_addresses(now_, {goal("3g@0 + 3g@4")});
  ASSERT_EQ(addresses.size(), 2U);
  EXPECT_EQ(addresses[0].slice, "3g.40gb@0");
  EXPECT_EQ(addresses[0].mig_uuid, now_.gpus[0].slices[0].parts[0].uuid);
  EXPECT_EQ(addresses[1].mig_uuid, "");
}

}  // namespace
}  // namespace tangram::recut
