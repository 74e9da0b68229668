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
#include "worker/worker_process.h"

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
  explicit DeskBench(const std::string& folder, const std::string& worker_program = "")
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
    planned = std::make_shared<const sched::Deployment>(deployment_);
    TrainingDesk::Setup setup;
    setup.worker_program = worker_program;
    auto store = TrainingStore::open(folder);
    EXPECT_TRUE(store) << store.error().message;
    setup.store = std::move(*store);
    setup.python = "/bin/false";  // It has no PyTorch, so elastic jobs fail at once.
    setup.needs = [this] { return sched::LendingPlan{planned, needs}; };
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
      turn();
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

  // So many requests a second for so long, and whatever follows of it.
  void requests(int per_s, Duration lasting) {
    Call call;
    call.model = &models_[0];
    for (Duration passed{}; passed < lasting; passed += 250ms) {
      for (int i = 0; i < per_s / 4; ++i) desk->arrived(call);
      turn();
    }
  }

  std::unique_ptr<LiveWorld> world;
  std::unique_ptr<TrainingDesk> desk;
  std::shared_ptr<const sched::Deployment> planned;  // What the tables are for.
  std::vector<sched::ServiceNeeds> needs{{{{SliceId(0)}, {SliceId(1)}}, {{1000, 1}}}};
  int lent = 0;

 private:
  void turn() {
    now_ += 250ms;
    desk->work(now_);
    world->step(now_);
    std::this_thread::sleep_for(5ms);
  }

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

// A program that starts commands, beside this one.
std::string starter() {
  const std::string program = worker::find_worker_program();
  EXPECT_TRUE(std::filesystem::exists(program)) << "build the target tangram-worker";
  return program;
}

std::string job_text(const DeskFolder& folder, const std::string& name, const std::string& script,
                     const std::string& more = "") {
  const std::string path = folder.path + "/" + name + ".sh";
  std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return "name: " + name + "\ncommand: " + path + "\n" + more;
}

// 2,000 requests a second need both slices. The job ignores SIGTERM, so it is killed after 200 ms; it comes back when
// the traffic has ended.
TEST(TrainingDesk, TakesASliceBackWhetherTheJobWantsOrNot) {
  const DeskFolder folder;
  DeskBench bench(folder.path, starter());
  ASSERT_TRUE(bench.desk->submit(
      job_text(folder, "stubborn", "trap '' TERM; echo deaf; while :; do sleep 0.05; done", "recall_max_ms: 200\n")));
  ASSERT_TRUE(bench.until([&] { return bench.desk->log_of("stubborn", 0)->text == "deaf\n"; }));
  bench.requests(2000, 15s);
  EXPECT_TRUE(bench.until([&] { return bench.slices_with(sched::SliceStatus::idle) == 2; }));
  const TrainingTotals totals = bench.desk->totals();
  EXPECT_EQ(totals.recalls, 1U);
  ASSERT_EQ(totals.recalls_ms.size(), 1U);
  EXPECT_GE(totals.recalls_ms[0], 195);
  EXPECT_EQ(bench.state_of("stubborn"), TrainingState::parked);
  EXPECT_TRUE(bench.until([&] { return bench.state_of("stubborn") == TrainingState::running; }));
  ASSERT_TRUE(bench.desk->cancel("stubborn"));
  EXPECT_TRUE(bench.until([&] { return bench.slices_with(sched::SliceStatus::idle) == 2; }));
}

TEST(TrainingDesk, CancelsAJobThatIsParked) {
  const DeskFolder folder;
  DeskBench bench(folder.path, starter());
  ASSERT_TRUE(bench.desk->submit(job_text(folder, "a", "exec sleep 100")));
  ASSERT_TRUE(bench.until([&] { return bench.state_of("a") == TrainingState::running; }));
  bench.requests(2000, 15s);
  ASSERT_TRUE(bench.until([&] { return bench.state_of("a") == TrainingState::parked; }));
  ASSERT_TRUE(bench.desk->cancel("a"));
  int steps = 0;
  EXPECT_TRUE(bench.until([&] { return ++steps == 200; }));
  EXPECT_EQ(bench.state_of("a"), TrainingState::cancelled);
  EXPECT_EQ(bench.slices_with(sched::SliceStatus::idle), 2U);
}

// The run of the first job still ends when the second is submitted: it must not write into the record or the folder of
// the second, which begins with nothing.
TEST(TrainingDesk, BeginsAnewUnderANameThatWasCancelledAMomentAgo) {
  const DeskFolder folder;
  {
    DeskBench bench(folder.path, starter());
    for (int round = 0; round < 3; ++round) {
      ASSERT_TRUE(bench.desk->submit(job_text(folder, "a", "echo " + std::to_string(round) + "; exec sleep 100")));
      ASSERT_TRUE(bench.until([&] {
        const auto log = bench.desk->log_of("a", 0);
        return log && log->text == std::to_string(round) + "\n";
      }));
      EXPECT_EQ(bench.desk->view("a")->progress.generation, 1U);
      ASSERT_TRUE(bench.desk->cancel("a"));
    }
    ASSERT_TRUE(bench.desk->submit(job_text(folder, "a", "exit 0")));
  }
  DeskBench next(folder.path, starter());
  EXPECT_EQ(next.desk->view("a")->progress.generation, 0U);
  EXPECT_TRUE(next.until([&] { return next.state_of("a") == TrainingState::done; }));
}

// The file is not there. Each attempt has a slice; after the third the job has failed, and says why.
TEST(TrainingDesk, FailsAJobWhoseCommandDoesNotExist) {
  const DeskFolder folder;
  DeskBench bench(folder.path, starter());
  ASSERT_TRUE(bench.desk->submit("name: a\ncommand: /nonexistent/program\n"));
  EXPECT_TRUE(bench.until([&] { return bench.state_of("a") == TrainingState::failed; }));
  EXPECT_EQ(bench.desk->view("a")->progress.problem, "/nonexistent/program: ended with exit code 127, 3 times in a row");
  EXPECT_NE(bench.desk->log_of("a", 0)->text.find("/nonexistent/program"), std::string::npos);
}

// The next plan has one slice instead of two. The scheduler keeps the number of the slice that has left, and the job
// must give its slice back; nothing is lent of the one that is left.
TEST(TrainingDesk, GivesEverythingBackWhenAPlanWithoutTheSliceComes) {
  const DeskFolder folder;
  DeskBench bench(folder.path, starter());
  ASSERT_TRUE(bench.desk->submit(job_text(folder, "a", "exec sleep 100")));
  ASSERT_TRUE(bench.until([&] { return bench.state_of("a") == TrainingState::running; }));
  sched::Deployment next = test::deployment();
  next.places.pop_back();
  next.devices[0].layout.slices.pop_back();
  std::erase_if(next.services[0].pools, [&](sched::PoolId pool) { return pool != next.places[0].pool; });
  bench.planned = std::make_shared<const sched::Deployment>(next);
  bench.needs = {{{{SliceId(0)}}, {}}};
  ASSERT_TRUE(bench.world->change_plan(next));
  EXPECT_TRUE(bench.until([&] { return bench.state_of("a") == TrainingState::parked; }));
  int steps = 0;
  EXPECT_TRUE(bench.until([&] { return ++steps == 200; }));
  EXPECT_EQ(bench.state_of("a"), TrainingState::parked);
  EXPECT_EQ(bench.slices_with(sched::SliceStatus::idle), 1U);
}

// The tables are for a plan with other slices than the one in force: nothing is lent by them.
TEST(TrainingDesk, LendsNothingByTheTablesOfAnotherPlan) {
  const DeskFolder folder;
  DeskBench bench(folder.path, starter());
  sched::Deployment other = test::deployment();
  other.devices[0].name = "gpu-1";
  bench.planned = std::make_shared<const sched::Deployment>(other);
  ASSERT_TRUE(bench.desk->submit(job_text(folder, "a", "exec sleep 100")));
  int steps = 0;
  EXPECT_TRUE(bench.until([&] { return ++steps == 300; }));
  EXPECT_EQ(bench.lent, 0);
  EXPECT_EQ(bench.state_of("a"), TrainingState::queued);
}

// The one slice that may be lent goes to the job of the higher priority, also when another has it.
TEST(TrainingDesk, GivesASliceToTheMoreImportantJob) {
  const DeskFolder folder;
  DeskBench bench(folder.path, starter());
  ASSERT_TRUE(bench.desk->submit(job_text(folder, "low", "exec sleep 100")));
  ASSERT_TRUE(bench.until([&] { return bench.state_of("low") == TrainingState::running; }));
  ASSERT_TRUE(bench.desk->submit(job_text(folder, "late", "exec sleep 100", "deadline: 2030-01-01\n")));
  ASSERT_TRUE(bench.desk->submit(job_text(folder, "high", "exec sleep 100", "priority: 1\n")));
  EXPECT_TRUE(bench.until([&] { return bench.state_of("high") == TrainingState::running; }));
  EXPECT_EQ(bench.state_of("low"), TrainingState::parked);
  EXPECT_EQ(bench.state_of("late"), TrainingState::queued);
  ASSERT_TRUE(bench.desk->cancel("high"));
  EXPECT_TRUE(bench.until([&] { return bench.state_of("late") == TrainingState::running; }));
  EXPECT_EQ(bench.state_of("low"), TrainingState::parked);
  EXPECT_LE(bench.slices_with(sched::SliceStatus::lent), 1U);
}

// Who follows a log that was cut reads on at its new beginning.
TEST(TrainingStore, ReadsALogThatWasCutFromItsBeginning) {
  const DeskFolder folder;
  auto store = TrainingStore::open(folder.path);
  ASSERT_TRUE(store);
  TrainingRecord record;
  record.job.name = "a";
  ASSERT_TRUE((*store)->add(record));
  const std::string path = (*store)->folder_of("a") + "/trainers.log";
  std::ofstream(path) << "one two three";
  const auto all = (*store)->log_of("a", 4);
  EXPECT_EQ(all.text, "two three");
  EXPECT_EQ(all.next, 13U);
  std::ofstream(path) << "four";
  EXPECT_EQ((*store)->log_of("a", 13).text, "four");
  EXPECT_EQ((*store)->log_of("a", 4).next, 4U);
  EXPECT_EQ((*store)->log_of("none", 7).next, 7U);
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
