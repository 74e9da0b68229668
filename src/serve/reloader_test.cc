#include "serve/reloader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "serve/live_world.h"
#include "serve/test_calls.h"
#include "serve/test_deployment.h"

namespace tangram::serve {
namespace {

// A world, and a reloader whose files are whatever `config` says.
struct Reloading {
  explicit Reloading(ServerConfig c)
      : config(std::move(c)),
        deployment(test::deployment()),
        models(served_models(deployment, test::workload(), "emulated")),
        world(deployment, models, LiveWorldConfig{}),
        reloader(config, world.inbox(), reloads, log, sched::Roster::of(test::workload()),
                 {.prepare =
                      [this](const sched::Roster&) {
                        ++prepared;
                        return Result<Nothing>(Nothing{});
                      },
                  .settled = [this](LiveWorld&, const ReloadedFiles&) { return settled; },
                  .take =
                      [this](LiveWorld&, const ReloadedFiles&) {
                        ++taken;
                        return Result<Nothing>(Nothing{});
                      },
                  .wake = [this] { ++woken; }}) {}

  // Until the world has the answer of the reload that runs.
  void finish() {
    reloader.join();
    world.step(kTimeZero);
  }

  ServerConfig config;
  sched::Deployment deployment;
  std::vector<ServedModel> models;
  LiveWorld world;
  Reloads reloads;
  host::LogWriter log{memfd_create("log", 0)};
  bool settled = true;
  int prepared = 0;
  int taken = 0;
  int woken = 0;
  Reloader reloader;
};

ServerConfig with_reload(std::function<Result<ReloadedPlan>(const sched::Roster&)> reload) {
  ServerConfig config;
  config.reload = std::move(reload);
  return config;
}

// The files as they were.
Result<ReloadedPlan> same_files(const sched::Roster& now) { return ReloadedPlan{now, test::deployment()}; }

TEST(Reloader, PutsInForceWhatTheFilesSay) {
  Reloading reloading(with_reload(same_files));
  const std::uint64_t number = reloading.reloads.ask();
  reloading.reloader.begin_if_asked();  // Nobody has asked the reloader yet.
  reloading.reloader.ask();
  EXPECT_EQ(reloading.woken, 1);
  reloading.reloader.begin_if_asked();
  reloading.finish();
  EXPECT_EQ(reloading.taken, 1);
  EXPECT_EQ(reloading.reloads.report().ended, number);
  EXPECT_EQ(reloading.reloads.report().problem, "");
}

TEST(Reloader, ChangesNothingWhereAFileIsWrong) {
  Reloading reloading(with_reload(
      [](const sched::Roster&) { return Result<ReloadedPlan>(Error{ErrorCode::invalid, "plan.json: not a plan"}); }));
  reloading.reloads.ask();
  reloading.reloader.ask();
  reloading.reloader.begin_if_asked();
  reloading.finish();
  EXPECT_EQ(reloading.taken, 0);
  EXPECT_EQ(reloading.reloads.report().problem, "plan.json: not a plan");
}

// A server that makes its own plans: only other services are a reason for one. All else is taken as always.
TEST(Reloader, HasNoPlanMadeForTheSameServices) {
  bool other = false;
  Reloading reloading(with_reload([&](const sched::Roster& now) -> Result<ReloadedPlan> {
    sched::Roster next = now;
    next.workload.services[0].priority += other ? 1 : 0;
    return ReloadedPlan{next, std::nullopt};
  }));
  reloading.reloader.ask();
  reloading.reloader.begin_if_asked();
  reloading.finish();
  EXPECT_EQ(reloading.prepared, 0);
  EXPECT_EQ(reloading.taken, 1);
  other = true;
  reloading.reloader.ask();
  reloading.reloader.begin_if_asked();
  reloading.finish();
  EXPECT_EQ(reloading.prepared, 1);
  EXPECT_EQ(reloading.taken, 2);
}

// Requests of a service that goes are answered first: what was read waits, and is looked at again after a pause.
TEST(Reloader, WaitsUntilWhatWasReadCanBeApplied) {
  Reloading reloading(with_reload(same_files));
  reloading.settled = false;
  const std::uint64_t number = reloading.reloads.ask();
  reloading.reloader.ask();
  reloading.reloader.begin_if_asked();
  reloading.finish();
  EXPECT_EQ(reloading.taken, 0);
  EXPECT_EQ(reloading.reloads.report().ended, 0u);
  EXPECT_EQ(reloading.reloader.next_due(), kTimeZero + Reloader::kSettlePause);
  reloading.reloader.work(kTimeZero + Reloader::kSettlePause);
  reloading.finish();
  EXPECT_EQ(reloading.taken, 0);
  reloading.settled = true;
  reloading.reloader.work(kTimeZero + 2 * Reloader::kSettlePause);
  reloading.finish();
  EXPECT_EQ(reloading.taken, 1);
  EXPECT_EQ(reloading.reloads.report().ended, number);
  EXPECT_EQ(reloading.reloader.next_due(), kTimeNever);
}

// The second request comes while the first reload runs. What that reads may be older than the request, so the files are
// read again: two reloads, and not three.
TEST(Reloader, ReadsAgainForARequestThatCameMeanwhile) {
  Reloading reloading(with_reload(same_files));
  reloading.reloader.ask();
  reloading.reloader.begin_if_asked();
  reloading.reloader.ask();
  reloading.reloader.begin_if_asked();
  reloading.reloader.ask();
  reloading.reloader.begin_if_asked();
  reloading.finish();
  EXPECT_EQ(reloading.taken, 1);
  reloading.reloader.begin_if_asked();
  reloading.finish();
  EXPECT_EQ(reloading.taken, 2);
  reloading.reloader.begin_if_asked();
  reloading.finish();
  EXPECT_EQ(reloading.taken, 2);
}

}  // namespace
}  // namespace tangram::serve
