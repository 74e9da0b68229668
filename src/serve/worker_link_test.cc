#include "worker/worker_link.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "serve/live_world.h"
#include "serve/test_calls.h"
#include "serve/test_deployment.h"

namespace tangram::serve {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

struct BenchConfig {
  std::string program = worker::find_worker_program();
  worker::WorkerPatience patience = {};
  double time_scale = 1;
  Duration stuck_min = 2s;
  double quota_cores = 0;
};

// A world whose two slices have processes, driven as the server drives it.
class WorkerBench {
 public:
  explicit WorkerBench(const BenchConfig& bench = {})
      : log_file_(memfd_create("log", MFD_CLOEXEC)),
        log_(std::make_unique<host::LogWriter>(log_file_)),
        models_(served_models(deployment_, test::workload(), "emulated")) {
    workers = std::make_unique<worker::Workers>(loop_, clock_, *log_);
    LiveWorldConfig config;
    config.scheduler.stuck_min = bench.stuck_min;
    config.make_executor = [this, bench](SliceId slice, const sched::Place&, engines::ExecutorEvents& events) {
      worker::WorkerConfig worker;
      worker.program = bench.program;
      worker.title = "slice";
      worker.patience = bench.patience;
      worker.quota_cores = bench.quota_cores;
      worker.spec.config.time_scale = bench.time_scale;
      worker.spec.models = {{.service = ServiceId(0), .name = "rank", .signature = models_[0].signature}};
      return workers->make(slice, std::move(worker), events);
    };
    world = std::make_unique<LiveWorld>(deployment_, models_, std::move(config));
    world->open_slices();
  }
  ~WorkerBench() {
    world.reset();
    workers.reset();
    log_.reset();
    close(log_file_);
  }

  Call* ask(std::int64_t id) {
    calls_.push_back(std::make_unique<Call>());
    Call& call = *calls_.back();
    test::fill_call(call, owner, models_[0], {id});
    call.deadline = 60s;
    world->inbox().post(&call);
    return &call;
  }

  // Turns the loop until `done`, or for far too long.
  template <typename Done>
  bool drive(Done&& done) {
    const TimePoint limit = clock_.now() + 30s;
    while (!done()) {
      if (clock_.now() > limit) return false;
      const TimePoint due = std::min({world->next_due(), workers->next_due(), clock_.now() + 50ms});
      loop_.wait(clock_, due);
      workers->work(clock_.now());
      world->step(clock_.now());
    }
    return true;
  }
  bool drive_until_ready() {
    return drive([&] { return world->slices_starting() == 0; });
  }
  bool drive_until_answered(std::size_t count) {
    return drive([&] { return owner.answered.size() >= count; });
  }
  std::size_t busy_count() const {
    return static_cast<std::size_t>(
        std::ranges::count(world->scheduler().state().slices, sched::SliceStatus::busy, &sched::SliceState::status));
  }
  // The slice that runs a batch, once there is one.
  std::uint32_t busy_slice() {
    std::uint32_t busy = 2;
    EXPECT_TRUE(drive([&] {
      for (std::uint32_t s = 0; s < 2; ++s) {
        if (world->scheduler().state().slices[s].status == sched::SliceStatus::busy) busy = s;
      }
      return busy < 2;
    }));
    return busy;
  }
  pid_t process(std::uint32_t slice) const { return static_cast<pid_t>(world->process_of(SliceId(slice))); }
  std::uint64_t restarts() const {
    std::uint64_t sum = 0;
    for (const auto& tally : world->ledger().slices()) sum += tally.restarts;
    return sum;
  }
  TimePoint now() const { return clock_.now(); }

  test::Collector owner;
  std::unique_ptr<worker::Workers> workers;
  std::unique_ptr<LiveWorld> world;

  // What the log says so far.
  std::string log() const { return test::written_to(log_file_); }

 private:
  int log_file_;
  std::unique_ptr<host::LogWriter> log_;
  host::LiveClock clock_;
  host::EventLoop loop_;
  sched::Deployment deployment_ = test::deployment();
  std::vector<ServedModel> models_;
  std::vector<std::unique_ptr<Call>> calls_;
};

bool alive(pid_t process) { return kill(process, 0) == 0; }

// Answers have the bytes that the executor inside the process writes, and no process is left at the end.
TEST(WorkerLink, AnswersThroughAProcessAndTakesItAlong) {
  std::vector<pid_t> processes;
  {
    WorkerBench bench;
    ASSERT_TRUE(bench.drive_until_ready());
    for (std::uint32_t s = 0; s < 2; ++s) processes.push_back(bench.process(s));
    EXPECT_THAT(processes, testing::Each(testing::Gt(0)));
    EXPECT_NE(processes[0], processes[1]);
    for (const pid_t process : processes) EXPECT_TRUE(alive(process));
    Call* call = bench.ask(9);
    ASSERT_TRUE(bench.drive_until_answered(1));
    ASSERT_EQ(call->status, CallStatus::ok) << call->error;
    EXPECT_GE(call->compute, 2ms);

    const Signature& signature = call->model->signature;
    const std::vector<const Signature*> signatures{&signature};
    const auto inside = engines::make_emulated_executor(signatures, {});
    const engines::BatchJob job{.batch = BatchId(1), .samples = 1, .size = 1};
    engines::BatchMemory* memory = *inside->prepare(job);
    const std::int64_t id = 9;
    const std::int64_t mask = 1;
    std::memcpy(memory->inputs[0].data(), &id, sizeof id);
    std::memcpy(memory->inputs[1].data(), &mask, sizeof mask);
    inside->start(job);
    const auto& pooled = memory->outputs[0];
    EXPECT_EQ(call->answer.substr(0, 12), std::string(reinterpret_cast<const char*>(pooled.data()), pooled.size()));
  }
  for (const pid_t process : processes) EXPECT_FALSE(alive(process));
}

// Killed with a batch that takes 200 x 2 ms: the batch runs again, on a new process or the other one.
TEST(WorkerLink, RunsABatchAgainWhoseWorkerIsKilled) {
  WorkerBench bench({.time_scale = 200});
  ASSERT_TRUE(bench.drive_until_ready());
  Call* call = bench.ask(1);
  const std::uint32_t first = bench.busy_slice();
  const pid_t killed = bench.process(first);
  kill(killed, SIGKILL);
  ASSERT_TRUE(bench.drive_until_answered(1));
  EXPECT_EQ(call->status, CallStatus::ok) << call->error;
  ASSERT_TRUE(bench.drive([&] { return bench.process(first) > 0; }));
  EXPECT_NE(bench.process(first), killed);
  EXPECT_EQ(bench.world->in_flight(), 0u);
}

// The second run is the last: then the client hears why.
TEST(WorkerLink, SaysWhyARequestFailedWhoseWorkersAreKilledTwice) {
  WorkerBench bench({.time_scale = 200});
  ASSERT_TRUE(bench.drive_until_ready());
  Call* call = bench.ask(1);
  const std::uint32_t first = bench.busy_slice();
  kill(bench.process(first), SIGKILL);
  ASSERT_TRUE(bench.drive([&] { return bench.restarts() == 1; }));
  const std::uint32_t second = bench.busy_slice();
  kill(bench.process(second), SIGKILL);
  ASSERT_TRUE(bench.drive_until_answered(1));
  EXPECT_EQ(call->status, CallStatus::failed);
  EXPECT_EQ(call->error, "model 'rank': the worker of slice was lost: it was ended by signal 9 (KILL)");
  // The slices are there again for whoever comes next.
  ASSERT_TRUE(bench.drive([&] {
    return std::ranges::all_of(bench.world->scheduler().state().slices,
                               [](const sched::SliceState& slice) { return slice.status == sched::SliceStatus::idle; });
  }));
  Call* next = bench.ask(2);
  ASSERT_TRUE(bench.drive_until_answered(2));
  EXPECT_EQ(next->status, CallStatus::ok) << next->error;
}

// The group is there while the worker is, with its process in it, and goes with it; where none can be made the worker
// runs without.
TEST(WorkerLink, RunsUnderItsQuotaAndTakesTheGroupAlong) {
  const auto host = adapters::probe_cpu_host();
  const std::string group = host.cgroup_directory + "/tangram-" + std::to_string(getpid()) + "-0";
  {
    WorkerBench bench({.quota_cores = 0.5});
    ASSERT_TRUE(bench.drive_until_ready());
    Call* call = bench.ask(1);
    ASSERT_TRUE(bench.drive_until_answered(1));
    EXPECT_EQ(call->status, CallStatus::ok) << call->error;
    if (access(group.c_str(), F_OK) != 0) GTEST_SKIP() << "no groups here: " << host.quota_reason;
    std::ifstream members(group + "/cgroup.procs");
    pid_t member = 0;
    members >> member;
    EXPECT_EQ(member, bench.process(0));
  }
  EXPECT_NE(access(group.c_str(), F_OK), 0);
}

// A stopped process keeps its socket open; ten times the expected time, or `stuck_min`, gives it away.
TEST(WorkerLink, ReplacesAWorkerThatHangsInABatch) {
  WorkerBench bench({.time_scale = 50, .stuck_min = 400ms});
  ASSERT_TRUE(bench.drive_until_ready());
  Call* call = bench.ask(1);
  const std::uint32_t slice = bench.busy_slice();
  const pid_t stopped = bench.process(slice);
  kill(stopped, SIGSTOP);
  ASSERT_TRUE(bench.drive_until_answered(1));
  EXPECT_EQ(call->status, CallStatus::ok) << call->error;
  ASSERT_TRUE(bench.drive([&] { return !alive(stopped); }));
  const std::string line = fmt::format(
      R"("event":"worker_lost","slice":"slice","process":{},"reason":"it does not answer: its batch takes too long")",
      stopped);
  EXPECT_TRUE(bench.drive([&] { return bench.log().find(line) != std::string::npos; })) << bench.log();
}

// Both workers are stopped in batches that were to take 100 ms, and given up after 20 s at the earliest. A request that
// waits behind them for 300 ms is refused then.
TEST(WorkerLink, DoesNotKeepWhatWaitsForHangingWorkersBeyondItsDeadline) {
  WorkerBench bench({.time_scale = 50, .stuck_min = 20s});
  ASSERT_TRUE(bench.drive_until_ready());
  for (std::int64_t id = 0; id < 2; ++id) {
    bench.ask(id);
    ASSERT_TRUE(bench.drive([&] { return bench.busy_count() == static_cast<std::size_t>(id + 1); }));
  }
  for (std::uint32_t slice = 0; slice < 2; ++slice) kill(bench.process(slice), SIGSTOP);
  Call* call = bench.ask(3);
  call->deadline = 300ms;
  const TimePoint begin = bench.now();
  ASSERT_TRUE(bench.drive_until_answered(1));
  EXPECT_GE(bench.now() - begin, 290ms);
  EXPECT_EQ(bench.owner.answered[0], call);
  EXPECT_EQ(call->status, CallStatus::refused) << call->error;
  EXPECT_EQ(bench.restarts(), 0u);
}

TEST(WorkerLink, ReplacesAnIdleWorkerThatHangs) {
  WorkerBench bench({.patience = {.ping_every = 20ms, .ping_answer = 300ms}});
  ASSERT_TRUE(bench.drive_until_ready());
  const pid_t stopped = bench.process(0);
  kill(stopped, SIGSTOP);
  ASSERT_TRUE(bench.drive([&] { return bench.process(0) != stopped && bench.process(0) > 0; }));
  ASSERT_TRUE(bench.drive([&] { return !alive(stopped); }));
  Call* call = bench.ask(1);
  ASSERT_TRUE(bench.drive_until_answered(1));
  EXPECT_EQ(call->status, CallStatus::ok) << call->error;
}

// A program that speaks the protocol as far as `lines` go. Its socket is descriptor 3, and `$1` a message "ready".
std::string script(const std::string& name, const std::string& lines) {
  const std::string path = testing::TempDir() + "/worker_" + std::to_string(getpid()) + "_" + name;
  const std::string ready = path + ".ready";
  worker::WorkerMessage message;
  message.kind = worker::WorkerMessageKind::ready;
  std::ofstream(ready, std::ios::binary).write(reinterpret_cast<const char*>(&message), sizeof message);
  std::ofstream(path) << "#!/bin/sh\nready=" << ready << "\nhear() { dd bs=256 count=1 <&3 >/dev/null 2>&1; }\n"
                      << lines << "\nexec sleep 60\n";
  chmod(path.c_str(), 0755);
  return path;
}

// It loads, takes the memory and the batch, and then says something else than an answer. The request runs again, meets
// the same, and fails; nobody waits for ever.
TEST(WorkerLink, GivesUpAWorkerThatAnswersRubbish) {
  WorkerBench bench({.program = script("rubbish", "hear; cat $ready >&3; hear; hear; echo rubbish >&3")});
  ASSERT_TRUE(bench.drive_until_ready());
  Call* call = bench.ask(1);
  ASSERT_TRUE(bench.drive_until_answered(1));
  EXPECT_EQ(call->status, CallStatus::failed);
  EXPECT_EQ(call->error, "model 'rank': the worker of slice was lost: it sent an invalid message");
}

// "Ready" is a message, but not an answer to a batch.
TEST(WorkerLink, GivesUpAWorkerThatSaysTheRightThingAtTheWrongTime) {
  WorkerBench bench({.program = script("twice", "hear; cat $ready >&3; hear; hear; cat $ready >&3")});
  ASSERT_TRUE(bench.drive_until_ready());
  Call* call = bench.ask(1);
  ASSERT_TRUE(bench.drive_until_answered(1));
  EXPECT_EQ(call->error, "model 'rank': the worker of slice was lost: it sent an invalid message");
}

// Starts that fail are tried again after 1, 2, 4 and 8 ms: when there were eight more in all, one of the two slices had
// four of them, so that at least 1 + 2 + 4 ms have passed.
TEST(WorkerLink, PausesLongerAndLongerWhereAWorkerCannotStart) {
  for (const std::string& program : {script("ends", "exit 0"), std::string("/nonexistent/worker")}) {
    WorkerBench bench({.program = program, .patience = {.pause_min = 1ms, .pause_max = 1s}});
    const TimePoint begin = bench.now();
    ASSERT_TRUE(bench.drive([&] { return bench.restarts() >= 8; })) << program;
    EXPECT_GE(bench.now() - begin, 7ms);
    EXPECT_EQ(bench.world->slices_starting(), 2u);
    EXPECT_TRUE(bench.workers->unrecoverable().empty());
  }
}

// It stops itself before it says that it is ready. Each slice is started again, and again, long before the five minutes
// that a start may take.
TEST(WorkerLink, ReplacesAWorkerThatIsStoppedWhileItStarts) {
  WorkerBench bench({.program = script("stops", "hear; kill -STOP $$; cat $ready >&3"),
                     .patience = {.pause_min = 1ms, .ping_every = 10ms, .ping_answer = 20ms}});
  const pid_t first = bench.process(0);
  ASSERT_TRUE(bench.drive([&] { return bench.restarts() >= 4; }));
  EXPECT_TRUE(bench.drive([&] { return !alive(first); }));
  EXPECT_NE(bench.log().find("\"reason\":\"it was stopped while it started\""), std::string::npos) << bench.log();
}

// One worker and what it reports, without a world.
class LinkBench final : public engines::ExecutorEvents {
 public:
  explicit LinkBench(const std::string& engine = "emulated", const std::string& path = "",
                     const Signature& tensors = *test::workload().services[0].tensors)
      : signature(tensors) {
    worker::WorkerConfig config;
    config.environment = {"TANGRAM_ONNXRUNTIME=" TANGRAM_FAKE_ONNXRUNTIME};
    config.program = worker::find_worker_program();
    config.title = "host-0/2c@0";
    config.spec.engine = engine;
    config.spec.models = {{.service = ServiceId(0), .name = "rank", .path = path, .signature = signature}};
    executor = workers.make(SliceId(0), std::move(config), *this);
  }

  void on_done(SliceId, BatchId, std::string failure) override {
    failures.push_back(std::move(failure));
    if (kills_when_done) kill_worker();
  }
  void on_stopped(SliceId, BatchId batch) override { stopped.push_back(batch.value()); }
  void on_lost(SliceId, std::string) override { ++losses; }
  void on_restarted(SliceId, bool ok) override { restarts.push_back(ok); }

  // Returns when the process has ended and its socket is closed. The link has not heard of it yet.
  void kill_worker() const {
    const auto process = static_cast<id_t>(executor->process());
    kill(static_cast<pid_t>(process), SIGKILL);
    siginfo_t about{};
    EXPECT_EQ(waitid(P_PID, process, &about, WEXITED | WNOWAIT), 0);
  }
  template <typename Done>
  bool drive(Done&& done) {
    const TimePoint limit = clock_.now() + 30s;
    while (!done() && clock_.now() < limit) {
      loop_.wait(clock_, std::min(limit, workers.next_due()));
      workers.work(clock_.now());
    }
    return done();
  }
  // Starts the worker, for the n-th time.
  bool start_worker(std::size_t n) {
    EXPECT_FALSE(executor->restart());
    return drive([&] { return restarts.size() == n; }) && restarts.back();
  }

  Signature signature;
  std::vector<std::string> failures;
  std::vector<std::uint64_t> stopped;
  std::vector<bool> restarts;
  int losses = 0;
  bool kills_when_done = false;

 private:
  host::Descriptor null_{open("/dev/null", O_WRONLY | O_CLOEXEC)};
  host::LogWriter log_{null_.get()};
  host::LiveClock clock_;
  host::EventLoop loop_;

 public:
  worker::Workers workers{loop_, clock_, log_};
  std::unique_ptr<engines::Executor> executor;
};

std::string bytes_of(std::span<const std::byte> tensor) {
  return {reinterpret_cast<const char*>(tensor.data()), tensor.size()};
}

// The link reads the answer and the end of the worker in one go, before anybody has read the outputs.
TEST(WorkerLink, KeepsTheAnswerOfAWorkerThatDiesBeforeItIsRead) {
  LinkBench bench;
  bench.kills_when_done = true;
  ASSERT_TRUE(bench.start_worker(1));
  const engines::BatchJob job{.batch = BatchId(1), .samples = 1, .size = 2};
  const std::vector<const Signature*> signatures{&bench.signature};
  const auto inside = engines::make_emulated_executor(signatures, {});
  std::vector<engines::BatchMemory*> memories;
  for (engines::Executor* executor : {bench.executor.get(), inside.get()}) {
    memories.push_back(*executor->prepare(job));
    for (const auto& input : memories.back()->inputs) std::ranges::fill(input, std::byte{1});
    executor->start(job);
  }
  ASSERT_TRUE(bench.drive([&] { return bench.losses == 1; }));
  EXPECT_EQ(bench.failures, std::vector<std::string>{""});
  for (std::size_t i = 0; i < memories[1]->outputs.size(); ++i) {
    EXPECT_EQ(bytes_of(memories[0]->outputs[i]), bytes_of(memories[1]->outputs[i])) << i;
  }
}

// A batch comes before the World has heard that the worker is lost. The next worker must be told of its memory.
TEST(WorkerLink, RunsBatchesAfterOneThatFoundNoWorker) {
  LinkBench bench;
  ASSERT_TRUE(bench.start_worker(1));
  bench.kill_worker();
  ASSERT_TRUE(bench.drive([&] { return bench.losses == 1; }));
  const auto run = [&](std::uint64_t batch) {
    const engines::BatchJob job{.batch = BatchId(batch), .samples = 1, .size = 2};
    ASSERT_TRUE(bench.executor->prepare(job));
    bench.executor->start(job);
  };
  run(1);
  EXPECT_EQ(bench.losses, 2);
  ASSERT_TRUE(bench.start_worker(2));
  run(2);
  ASSERT_TRUE(bench.drive([&] { return !bench.failures.empty(); }));
  EXPECT_EQ(bench.failures, std::vector<std::string>{""});
}

// The stand-in's model looks every 10 ms whether it is to stop. The process stays, and runs the next batch.
TEST(WorkerLink, StopsABatchAndKeepsTheWorker) {
  const fs::path folder = fs::temp_directory_path() / ("tangram-link-stop-" + std::to_string(getpid()));
  fs::create_directories(folder);
  {
    LinkBench bench("onnx", folder / "slow", {{{"x", Datatype::fp32, {kVariableAxis}}}, {{"y", Datatype::uint8, {2}}}});
    std::ofstream(folder / "slow.onnx") << "input x float -1 -1\noutput y uint8 -1 2\nsteps 60000 10\n";
    ASSERT_TRUE(bench.start_worker(1));
    const auto process = bench.executor->process();
    for (const std::uint64_t batch : {1U, 2U}) {
      const engines::BatchJob job{.batch = BatchId(batch), .samples = 1, .size = 2};
      ASSERT_TRUE(bench.executor->prepare(job));
      bench.executor->start(job);
      EXPECT_FALSE(bench.executor->stop(BatchId(batch + 7), true));  // Of another batch: nothing happens.
      EXPECT_FALSE(bench.executor->stop(BatchId(batch), false));
      ASSERT_TRUE(bench.drive([&] { return bench.stopped.size() == batch; }));
    }
    EXPECT_EQ(bench.stopped, (std::vector<std::uint64_t>{1, 2}));
    EXPECT_EQ(bench.executor->process(), process);
    EXPECT_EQ(bench.losses, 0);
  }
  fs::remove_all(folder);
}

// The emulated engine sleeps for ten minutes and cannot be stopped: it may run on, unless the slice is needed. Then it
// is killed after a moment, and the next batch finds no worker.
TEST(WorkerLink, KillsAWorkerWhoseSliceIsNeeded) {
  LinkBench bench;
  ASSERT_TRUE(bench.start_worker(1));
  const auto process = static_cast<pid_t>(bench.executor->process());
  const engines::BatchJob job{.batch = BatchId(1), .samples = 1, .size = 2, .expected = 10min};
  ASSERT_TRUE(bench.executor->prepare(job));
  bench.executor->start(job);
  EXPECT_FALSE(bench.executor->stop(BatchId(1), false));
  EXPECT_EQ(bench.workers.next_due(), kTimeNever);  // Nothing is under way.
  EXPECT_FALSE(bench.executor->stop(BatchId(1), true));
  ASSERT_TRUE(bench.drive([&] { return bench.stopped.size() == 1; }));
  EXPECT_TRUE(bench.drive([&] { return !alive(process); }));
  EXPECT_FALSE(bench.executor->ready());
  EXPECT_EQ(bench.losses, 0);
}

TEST(WorkerLink, SaysThatAnEngineIsNotThere) {
  LinkBench bench("steam");
  EXPECT_FALSE(bench.executor->ready());
  EXPECT_FALSE(bench.start_worker(1));
  EXPECT_EQ(bench.restarts, std::vector<bool>{false});
  EXPECT_EQ(bench.workers.unrecoverable(), "host-0/2c@0: unknown engine 'steam'; expected one that runs tensors");
}

}  // namespace
}  // namespace tangram::serve
