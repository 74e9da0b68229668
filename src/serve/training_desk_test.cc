#include "serve/training_desk.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "serve/live_world.h"
#include "serve/test_deployment.h"

namespace tangram::serve {
namespace {

using namespace std::chrono_literals;

// A folder that is removed with the test.
class DeskFolder {
 public:
  DeskFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "tangram-desk-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~DeskFolder() { std::filesystem::remove_all(path); }
  std::string path;
};

// A world with two idle slices, of which inference needs one, and a desk. Time is virtual for the world, a quarter of a
// second each step, and real for the runs of jobs.
class DeskBench {
 public:
  explicit DeskBench(const std::string& folder)
      : log_(open("/dev/null", O_WRONLY | O_CLOEXEC)),
        writer_(log_.get()),
        deployment_(test::deployment()),
        models_(served_models(deployment_, test::workload(), "emulated")),
        signature_{&models_[0].signature} {
    LiveWorldConfig config;
    config.make_executor = [this](SliceId, const sched::Place&, engines::ExecutorEvents&) {
      return engines::make_emulated_executor(signature_, {});
    };
    config.lend = [this](SliceId slice) {
      ++lent;
      desk->lend(slice);
    };
    config.recall = [this](SliceId slice) { desk->recall(slice); };
    world = std::make_unique<LiveWorld>(deployment_, models_, std::move(config));
    TrainingDesk::Setup setup;
    auto store = TrainingStore::open(folder);
    EXPECT_TRUE(store) << store.error().message;
    setup.store = std::move(*store);
    setup.python = "/bin/false";  // It has no PyTorch, so elastic jobs fail at once.
    setup.needs = [](const sched::Deployment&) {
      return std::vector<sched::ServiceNeeds>{{{{SliceId(0)}, {SliceId(1)}}, {{1000, 1}}}};
    };
    auto opened = TrainingDesk::open(std::move(setup), world->inbox(), writer_,
                                     [](const LiveWorld&, SliceId) { return TrainerPlace{}; });
    EXPECT_TRUE(opened) << opened.error().message;
    desk = std::move(*opened);
  }
  ~DeskBench() { desk.reset(); }

  // Steps until this holds, for at most 20 s. False: it never did.
  bool until(const std::function<bool()>& holds) {
    for (int i = 0; i < 4000; ++i) {
      if (holds()) return true;
      now_ += 250ms;
      desk->work(now_);
      world->step(now_);
      std::this_thread::sleep_for(5ms);
    }
    return false;
  }
  std::size_t slices_with(sched::SliceStatus status) const {
    std::size_t count = 0;
    for (const auto& slice : world->scheduler().state().slices) count += slice.status == status ? 1 : 0;
    return count;
  }
  TrainingState state_of(const std::string& job) const {
    const auto view = desk->view(job);
    EXPECT_TRUE(view);
    return view ? view->state : TrainingState::failed;
  }

  std::unique_ptr<LiveWorld> world;
  std::unique_ptr<TrainingDesk> desk;
  int lent = 0;

 private:
  host::Descriptor log_;
  host::LogWriter writer_;
  sched::Deployment deployment_;
  std::vector<ServedModel> models_;
  std::vector<const Signature*> signature_;
  TimePoint now_;
};

TEST(TrainingDesk, RefusesASecondJobOfAName) {
  const DeskFolder folder;
  DeskBench bench(folder.path);
  ASSERT_TRUE(bench.desk->submit("name: a\ncommand: ./x\n"));
  const auto second = bench.desk->submit("name: a\ncommand: ./y\n");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().message, "a training job 'a' is already queued");
  EXPECT_EQ(bench.desk->list().size(), 1U);
  ASSERT_TRUE(bench.desk->cancel("a"));
  EXPECT_EQ(bench.state_of("a"), TrainingState::cancelled);
  EXPECT_FALSE(bench.desk->cancel("a"));
  EXPECT_TRUE(bench.desk->submit("name: a\ncommand: ./y\n"));
}

// Its interpreter has no PyTorch. Whatever was lent for it comes back, and a next server knows why it failed.
TEST(TrainingDesk, GivesBackTheSlicesOfAJobThatCannotStart) {
  const DeskFolder folder;
  {
    DeskBench bench(folder.path);
    std::ofstream(folder.path + "/x.py") << "print()\n";
    ASSERT_TRUE(bench.desk->submit("name: a\ncommand: python3 x.py\n"));
    EXPECT_TRUE(bench.until([&] { return bench.state_of("a") == TrainingState::failed; }));
    EXPECT_TRUE(bench.until([&] { return bench.slices_with(sched::SliceStatus::idle) == 2; }));
  }
  DeskBench next(folder.path);
  EXPECT_EQ(next.state_of("a"), TrainingState::failed);
  EXPECT_NE(next.desk->view("a")->progress.problem.find("/bin/false"), std::string::npos);
}

// No worker program, so the command cannot be started either: after three times the job has failed. A slice is lent
// only for a job: without one nothing is.
TEST(TrainingDesk, LendsOnlyForJobsAndNeverWhatInferenceNeeds) {
  const DeskFolder folder;
  DeskBench bench(folder.path);
  int steps = 0;
  EXPECT_TRUE(bench.until([&] { return ++steps == 100; }));
  EXPECT_EQ(bench.lent, 0);
  std::size_t lent_most = 0;
  ASSERT_TRUE(bench.desk->submit("name: a\ncommand: ./nothing\n"));
  EXPECT_TRUE(bench.until([&] {
    lent_most = std::max(lent_most, 2 - bench.slices_with(sched::SliceStatus::idle));
    return bench.state_of("a") == TrainingState::failed;
  }));
  EXPECT_GT(bench.lent, 0);
  EXPECT_EQ(lent_most, 1U);
  EXPECT_TRUE(bench.until([&] { return bench.slices_with(sched::SliceStatus::idle) == 2; }));
}

TEST(TrainingStore, KeepsWhatAJobHasDone) {
  const DeskFolder folder;
  TrainingRecord record;
  record.job.name = "digits";
  record.job.command = {"python3", "train.py"};
  record.job.directory = "/work";
  record.order = 4;
  record.progress.step = 812;
  record.progress.steps_lost = 2;
  record.progress.losses = {{1, 2.5}, {2, 1.25}};
  {
    auto store = TrainingStore::open(folder.path);
    ASSERT_TRUE(store);
    ASSERT_TRUE((*store)->add(record));
    EXPECT_FALSE(TrainingStore::open(folder.path));
  }
  auto store = TrainingStore::open(folder.path);
  ASSERT_TRUE(store);
  const auto records = (*store)->load();
  ASSERT_TRUE(records) << records.error().message;
  ASSERT_EQ(records->size(), 1U);
  EXPECT_EQ(records->front().job, record.job);
  EXPECT_EQ(records->front().progress.step, 812);
  EXPECT_EQ(records->front().progress.losses[1].loss, 1.25);
}

}  // namespace
}  // namespace tangram::serve
