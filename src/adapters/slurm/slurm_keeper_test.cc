#include "adapters/slurm/slurm_keeper.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"

namespace tangram::adapters {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;
using What = SlurmCommand::What;

SlurmTask running(const std::string& id, const std::string& node, Duration left = hours(8), Duration ran = minutes(5)) {
  return {id, "1g", SlurmState::running, "", node, left, ran, {}};
}

SlurmTask pending(const std::string& id, std::set<std::string> excluded = {}) {
  return {id, "1g", SlurmState::pending, "Resources", "", hours(8), Duration::zero(), std::move(excluded)};
}

SlurmKeeper keeper_of(int wanted) {
  SlurmKeeperOptions options;
  options.kinds = {{"1g", "gpu:1g:1", 0, wanted}};
  return SlurmKeeper(options);
}

TEST(SlurmKeeper, SubmitsWhatThePlanNeedsOnce) {
  SlurmKeeper keeper = keeper_of(3);
  EXPECT_FALSE(keeper.decide(seconds(0))) << "nothing is known of the queue";
  keeper.on_queue(seconds(1), {running("1_0", "n1")});
  const auto command = keeper.decide(seconds(1));
  ASSERT_TRUE(command);
  EXPECT_EQ(command->what, What::submit);
  EXPECT_EQ(command->count, 2);
  keeper.on_submitted(seconds(1), *command, "2");
  EXPECT_FALSE(keeper.decide(seconds(2))) << "the queue has not been read since";
  EXPECT_TRUE(keeper.queue_is_stale());
  keeper.on_queue(seconds(11), {running("1_0", "n1"), pending("2_0"), pending("2_1")});
  EXPECT_FALSE(keeper.decide(seconds(11)));
  EXPECT_FALSE(keeper.settled());
  keeper.on_queue(seconds(21), {running("1_0", "n1"), running("2_0", "n1"), running("2_1", "n1")});
  EXPECT_TRUE(keeper.settled());
}

TEST(SlurmKeeper, TakesOverTheQueueOfAnEarlierKeeper) {
  SlurmKeeper keeper = keeper_of(2);
  keeper.on_queue(seconds(0), {running("1_0", "n1"), running("1_1", "n1")});
  EXPECT_FALSE(keeper.decide(seconds(0)));
}

// Nine minutes are left and the lead is ten: a successor comes first, and the old task goes when it runs.
TEST(SlurmKeeper, SubmitsASuccessorBeforeATimeLimit) {
  SlurmKeeper keeper = keeper_of(1);
  keeper.on_queue(seconds(0), {running("1_0", "n1", minutes(9), hours(8))});
  const auto command = keeper.decide(seconds(0));
  ASSERT_TRUE(command);
  EXPECT_EQ(command->what, What::submit);
  EXPECT_EQ(command->why, "1_0 is about to end");
  keeper.on_submitted(seconds(0), *command, "2");
  keeper.on_queue(seconds(10), {running("1_0", "n1", minutes(9), hours(8)), pending("2_0")});
  EXPECT_FALSE(keeper.decide(seconds(10))) << "the old one serves until the new one runs";
  keeper.on_queue(seconds(20), {running("1_0", "n1", minutes(8), hours(8)), running("2_0", "n2")});
  const auto end = keeper.decide(seconds(20));
  ASSERT_TRUE(end);
  EXPECT_EQ(end->what, What::cancel);
  EXPECT_THAT(end->tasks, ElementsAre("1_0"));
}

// Tasks of four minutes have less than the lead of ten from the beginning: their successors come in the last minute.
TEST(SlurmKeeper, DoesNotReplaceATaskWithAShortLimitAtOnce) {
  SlurmKeeper keeper = keeper_of(1);
  keeper.on_queue(seconds(0), {running("1_0", "n1", minutes(4), seconds(0))});
  EXPECT_FALSE(keeper.decide(seconds(0)));
  keeper.on_queue(seconds(175), {running("1_0", "n1", seconds(65), seconds(175))});
  EXPECT_FALSE(keeper.decide(seconds(175)));
  keeper.on_queue(seconds(185), {running("1_0", "n1", seconds(55), seconds(185))});
  EXPECT_TRUE(keeper.decide(seconds(185)));
}

TEST(SlurmKeeper, ReplacesTasksOfANodeThatTheGatewayLost) {
  SlurmKeeper keeper = keeper_of(3);
  keeper.on_queue(seconds(0), {running("1_0", "n1"), running("1_1", "n2"), running("1_2", "n2")});
  keeper.on_gateway(seconds(1), {"1_0", "1_1", "1_2"});
  keeper.on_gateway(seconds(5), {"1_0"});
  EXPECT_FALSE(keeper.decide(seconds(5))) << "it may be a hiccup";
  EXPECT_TRUE(keeper.wants_queue());
  keeper.on_gateway(seconds(8), {"1_0"});
  EXPECT_FALSE(keeper.decide(seconds(8))) << "they may have ended";
  keeper.on_queue(seconds(8), {running("1_0", "n1"), running("1_1", "n2"), running("1_2", "n2")});
  EXPECT_FALSE(keeper.wants_queue());
  const auto command = keeper.decide(seconds(8));
  ASSERT_TRUE(command);
  EXPECT_EQ(command->what, What::submit);
  EXPECT_EQ(command->count, 2);
  EXPECT_THAT(command->exclude, ElementsAre("n2"));
  keeper.on_submitted(seconds(8), *command, "2");
  const auto cancel = keeper.decide(seconds(8));
  ASSERT_TRUE(cancel);
  EXPECT_THAT(cancel->tasks, UnorderedElementsAre("1_1", "1_2"));
  keeper.on_cancelled(seconds(8), *cancel);
  EXPECT_FALSE(keeper.decide(seconds(9)));
}

// A preempted task leaves the gateway before the queue is read: its node is not to blame.
TEST(SlurmKeeper, DoesNotBlameTheNodeOfATaskThatHasEnded) {
  SlurmKeeper keeper = keeper_of(2);
  keeper.on_queue(seconds(0), {running("1_0", "n1"), running("1_1", "n2")});
  keeper.on_gateway(seconds(1), {"1_0", "1_1"});
  keeper.on_gateway(seconds(2), {"1_0"});
  keeper.on_queue(seconds(6), {running("1_0", "n1")});
  keeper.on_gateway(seconds(7), {"1_0"});
  const auto command = keeper.decide(seconds(7));
  ASSERT_TRUE(command);
  EXPECT_EQ(command->count, 1);
  EXPECT_TRUE(command->exclude.empty());
}

// A gateway that starts again has nobody joined at first, and nobody is to blame.
TEST(SlurmKeeper, GivesNobodyUpWhenTheGatewayStartsAgain) {
  SlurmKeeper keeper = keeper_of(2);
  keeper.on_queue(seconds(0), {running("1_0", "n1"), running("1_1", "n2")});
  keeper.on_gateway(seconds(1), {"1_0", "1_1"});
  keeper.on_gateway_away(seconds(2));
  keeper.on_gateway(seconds(10), {});
  keeper.on_gateway(seconds(20), {"1_0"});
  EXPECT_FALSE(keeper.decide(seconds(20)));
  keeper.on_gateway(seconds(25), {"1_0", "1_1"});
  keeper.on_gateway(seconds(60), {"1_0", "1_1"});
  EXPECT_FALSE(keeper.decide(seconds(60)));
}

// All are missing: it may be the network of the gateway. After a minute they are replaced, on any node.
TEST(SlurmKeeper, WaitsWhereAllTasksAreMissingAtOnce) {
  SlurmKeeper keeper = keeper_of(2);
  keeper.on_queue(seconds(0), {running("1_0", "n1"), running("1_1", "n2")});
  keeper.on_gateway(seconds(1), {"1_0", "1_1"});
  keeper.on_gateway(seconds(2), {});
  keeper.on_gateway(seconds(40), {});
  EXPECT_FALSE(keeper.decide(seconds(40)));
  keeper.on_queue(seconds(62), {running("1_0", "n1"), running("1_1", "n2")});
  keeper.on_gateway(seconds(63), {});
  const auto command = keeper.decide(seconds(63));
  ASSERT_TRUE(command);
  EXPECT_TRUE(command->exclude.empty());
}

TEST(SlurmKeeper, ReplacesTasksOfANodeThatSlurmCannotReach) {
  SlurmKeeper keeper = keeper_of(1);
  keeper.on_queue(seconds(0), {running("1_0", "n1")});
  keeper.on_nodes(seconds(1), {{"n1", SlurmNodeHealth::bad}});
  EXPECT_FALSE(keeper.decide(seconds(1))) << "a busy node is late at times";
  keeper.on_nodes(seconds(61), {{"n1", SlurmNodeHealth::bad}});
  const auto command = keeper.decide(seconds(61));
  ASSERT_TRUE(command);
  EXPECT_THAT(command->exclude, ElementsAre("n1"));
  EXPECT_EQ(command->why, "Slurm cannot reach n1");
}

// Slurm's controller cannot reach the node, and the gateway can: what serves is left alone.
TEST(SlurmKeeper, KeepsTasksThatAreJoinedWhateverSlurmThinksOfTheirNode) {
  SlurmKeeper keeper = keeper_of(1);
  keeper.on_queue(seconds(0), {running("1_0", "n1")});
  keeper.on_gateway(seconds(0), {"1_0"});
  for (int s = 1; s < 200; s += 60) keeper.on_nodes(seconds(s), {{"n1", SlurmNodeHealth::bad}});
  EXPECT_FALSE(keeper.decide(seconds(200)));
}

TEST(SlurmKeeper, LetsADrainedNodeGoAfterItsSuccessorsRun) {
  SlurmKeeper keeper = keeper_of(1);
  keeper.on_nodes(seconds(0), {{"n1", SlurmNodeHealth::leaving}});
  keeper.on_queue(seconds(0), {running("1_0", "n1")});
  EXPECT_EQ(keeper.decide(seconds(0))->what, What::submit);
  keeper.on_queue(seconds(10), {running("1_0", "n1"), running("2_0", "n2")});
  EXPECT_THAT(keeper.decide(seconds(10))->tasks, ElementsAre("1_0"));
}

TEST(SlurmKeeper, CancelsWhatASmallerPlanDoesNotNeedPendingFirst) {
  SlurmKeeper keeper = keeper_of(3);
  keeper.on_queue(seconds(0), {running("1_0", "n1"), running("1_1", "n1", hours(1)), pending("1_2")});
  keeper.want({{"1g", "gpu:1g:1", 0, 1}});
  EXPECT_THAT(keeper.decide(seconds(0))->tasks, ElementsAre("1_2", "1_1"));
  keeper.want({});
  EXPECT_THAT(keeper.decide(seconds(0))->tasks, UnorderedElementsAre("1_0", "1_1", "1_2"));
}

// The first task that ends at once is submitted again at once, the second after 10 s, the third after 20 s.
TEST(SlurmKeeper, PausesLongerAfterEachTaskThatEndsAtOnce) {
  SlurmKeeper keeper = keeper_of(1);
  Duration now = seconds(0);
  std::vector<std::int64_t> waited;
  for (int job = 1; job <= 4; ++job) {
    keeper.on_queue(now, {});
    const Duration empty_at = now;
    auto command = keeper.decide(now);
    while (!command) command = keeper.decide(now += seconds(1));
    waited.push_back((now - empty_at) / seconds(1));
    keeper.on_submitted(now, *command, fmt::format("{}", job));
  }
  EXPECT_THAT(waited, ElementsAre(0, 0, 10, 20));
}

// A node of four dies: one reason, and no pause.
TEST(SlurmKeeper, CountsTasksThatEndTogetherAsOneFailure) {
  SlurmKeeper keeper = keeper_of(2);
  keeper.on_queue(seconds(0), {running("1_0", "n1", hours(8), seconds(5)), running("1_1", "n1", hours(8), seconds(5))});
  keeper.on_queue(seconds(10), {});
  ASSERT_TRUE(keeper.decide(seconds(10)));
  EXPECT_EQ(keeper.decide(seconds(10))->count, 2);
}

TEST(SlurmKeeper, ReplacesAPendingTaskThatAvoidsANodeThatIsGoodAgain) {
  SlurmKeeper keeper = keeper_of(1);
  keeper.on_queue(seconds(0), {pending("1_0", {"n2"})});
  const auto command = keeper.decide(seconds(0));
  ASSERT_TRUE(command);
  EXPECT_EQ(command->what, What::submit);
  EXPECT_TRUE(command->exclude.empty());
}

// Once a call every 10 s in the long run, six in a row: in 1,000 s at most 106.
TEST(SlurmCallBudget, LimitsCallsInTheLongRun) {
  SlurmCallBudget budget(seconds(10), 6);
  int calls = 0;
  for (int s = 0; s <= 1000; ++s) calls += budget.take(seconds(s)) ? 1 : 0;
  EXPECT_EQ(calls, 106);
}

TEST(SlurmCallBudget, WaitsLongerAfterEachErrorUpToTwoMinutes) {
  SlurmCallBudget budget(seconds(10), 100);
  Duration now = seconds(0);
  std::vector<std::int64_t> waits;
  for (int i = 0; i < 6; ++i) {
    budget.on_error(now);
    const Duration begin = now;
    while (!budget.take(now)) now += seconds(1);
    waits.push_back((now - begin) / seconds(1));
  }
  EXPECT_THAT(waits, ElementsAre(10, 20, 40, 80, 120, 120));
}

// A Slurm in memory: four nodes of four slices. Tasks start when a slice is free, nodes die and come back, tasks fail
// and are preempted, sbatch fails or answers too late. When all is quiet again the plan has exactly its tasks, and Slurm
// was never asked more often than the budget allows.
TEST(SlurmKeeper, ConvergesAfterAnyFaults) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Rng rng = Rng(seed).stream("slurm");
    SlurmKeeper keeper = keeper_of(8);
    SlurmCallBudget budget(seconds(10), 6);
    std::vector<SlurmTask> queue;
    std::map<std::string, bool> up{{"n1", true}, {"n2", true}, {"n3", true}, {"n4", true}};
    int job = 0;
    int calls = 0;
    int faults = 0;
    Duration read = seconds(-100);
    const auto chance = [&](double p) { return rng.chance(p); };
    int running_min = 100;
    const int quiet = 3000;
    const int end = quiet + 1500;
    for (int s = 0; s < end; ++s) {
      const Duration now = seconds(s);
      const bool faulty = s < quiet;
      for (auto& [name, is_up] : up) {
        if (faulty && is_up && chance(0.002)) is_up = false, ++faults;
        if (!is_up && chance(faulty ? 0.01 : 1.0)) is_up = true;
      }
      for (auto& task : queue) {
        if (task.state == SlurmState::running) task.ran += seconds(1), *task.time_left -= seconds(1);
        if (task.state != SlurmState::pending) continue;
        std::map<std::string, int> used;
        for (const auto& other : queue) used[other.node] += other.state == SlurmState::running ? 1 : 0;
        for (const auto& [name, is_up] : up) {
          if (!is_up || used[name] >= 4 || task.excluded.contains(name)) continue;
          task.state = SlurmState::running;
          task.node = name;
          break;
        }
      }
      std::erase_if(queue, [&](const SlurmTask& task) {
        const bool gone = *task.time_left <= Duration::zero() || (faulty && chance(0.001));
        faults += gone ? 1 : 0;
        return gone;
      });
      std::set<std::string> joined;
      for (const auto& task : queue) {
        if (task.state == SlurmState::running && up[task.node]) joined.insert(task.id);
      }
      if (faulty && chance(0.01)) {
        keeper.on_gateway_away(now);
      } else {
        keeper.on_gateway(now, joined);
      }
      if (const auto command = keeper.decide(now); command && now - read < minutes(5)) {
        if (!budget.take(now)) continue;
        ++calls;
        if (faulty && chance(0.1)) {
          keeper.on_submit_failed(now, *command);
          if (command->what == What::submit && chance(0.5)) keeper.on_unknown(now);
          continue;
        }
        if (command->what == What::cancel) {
          std::erase_if(queue, [&](const SlurmTask& task) { return std::ranges::count(command->tasks, task.id) > 0; });
          keeper.on_cancelled(now, *command);
          continue;
        }
        ++job;
        for (int i = 0; i < command->count; ++i) {
          SlurmTask task = pending(fmt::format("{}_{}", job, i), command->exclude);
          task.time_left = minutes(20);
          queue.push_back(task);
        }
        keeper.on_submitted(now, *command, fmt::format("{}", job));
      } else if ((now - read >= seconds(10) || keeper.wants_queue()) && budget.take(now, 1)) {
        ++calls;
        read = now;
        keeper.on_queue(now, queue);
      }
      ASSERT_LE(queue.size(), 40U) << "seed " << seed << ": the queue is flooded";
      if (s < end - 600) continue;
      const auto live = std::ranges::count(queue, SlurmState::running, &SlurmTask::state);
      running_min = std::min(running_min, static_cast<int>(live));
      // Old tasks, their successors, and successors of those that avoid a node in vain.
      ASSERT_LE(queue.size(), 24U) << "seed " << seed << " at " << s << " s";
    }
    // Time limits end in the quiet time as well: the successors always run first.
    EXPECT_GE(running_min, 8) << "seed " << seed << " after " << faults << " faults";
    EXPECT_LE(calls, 6 + end / 10) << "seed " << seed;
    EXPECT_GT(faults, 5) << "seed " << seed;
  }
}

}  // namespace
}  // namespace tangram::adapters
