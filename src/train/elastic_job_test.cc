#include "train/elastic_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace tangram::train {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr TrainerId kFirst(0);
constexpr TrainerId kSecond(1);
constexpr TrainerId kThird(2);

// Keeps what the coordinator asked for.
class AskedTrainers final : public TrainerLinks {
 public:
  void prepare(TrainerId to, const TrainingGroup& group) override {
    group_ = group;
    told_.insert(to);
  }
  void enter(TrainerId to, Generation) override { entering_.push_back(to); }
  void answer(TrainerId to, Generation, std::string_view, std::string_view value) override {
    answers_.push_back({to, std::string(value)});
  }
  void stop(TrainerId to) override { stopped_.push_back(to); }
  void fence(TrainerId trainer) override { fenced_.push_back(trainer); }

  TrainingGroup group_;  // The last that was prepared.
  std::set<TrainerId> told_;
  std::vector<TrainerId> entering_, stopped_, fenced_;
  std::vector<std::pair<TrainerId, std::string>> answers_;
};

class ElasticJobTest : public ::testing::Test {
 protected:
  TimePoint now() { return now_ += 1ms; }
  // All members build and enter the generation that was named last.
  void enter_all(std::int64_t step) {
    const TrainingGroup group = asked_.group_;
    for (const TrainerId id : group.members) job_.on_built(now(), id, group.generation);
    for (const TrainerId id : group.members) {
      job_.on_entered(now(), id, group.generation, group.is_fresh(id) ? -1 : step);
    }
  }
  void step_all(std::int64_t step) {
    for (const TrainerId id : job_.current().members) job_.on_step(now(), id, job_.current().generation, step);
  }
  // Two trainers that have made ten steps.
  void train_two() {
    job_.on_hello(now(), kFirst, 0);
    enter_all(0);
    job_.on_hello(now(), kSecond, 0);
    enter_all(9);
    step_all(10);
    job_.check();
  }

  AskedTrainers asked_;
  ElasticJob job_{{}, asked_};
  TimePoint now_ = kTimeZero;
};

TEST_F(ElasticJobTest, ATrainerThatJoinsGetsTheStateFromAMember) {
  train_two();
  EXPECT_THAT(job_.training(), ElementsAre(kFirst, kSecond));
  EXPECT_THAT(job_.current().fresh, ElementsAre(kSecond));
  EXPECT_EQ(job_.current().source, kFirst);
  EXPECT_THAT(asked_.entering_, ElementsAre(kSecond));  // After the first had switched.
  EXPECT_EQ(job_.step(), 10);
}

TEST_F(ElasticJobTest, AJoinThatIsNotEnteredYetIsReplacedWhenAnotherTrainerComes) {
  job_.on_hello(now(), kFirst, 0);
  enter_all(0);
  job_.on_hello(now(), kSecond, 0);
  const Generation replaced = asked_.group_.generation;
  job_.on_hello(now(), kThird, 0);
  EXPECT_THAT(asked_.group_.members, ElementsAre(kFirst, kSecond, kThird));
  // The vote for the one before was under way: it counts, and the third joins afterwards.
  job_.on_entered(now(), kFirst, replaced, 5);
  EXPECT_EQ(job_.current().generation, replaced);
  EXPECT_GT(asked_.group_.generation, replaced);
  job_.check();
}

TEST_F(ElasticJobTest, AMemberThatIsRecalledIsLeftOutAndTheOthersNeedNoState) {
  train_two();
  job_.recall(now(), kFirst, now_ + 1s);
  EXPECT_THAT(asked_.group_.members, ElementsAre(kSecond));
  EXPECT_THAT(asked_.group_.fresh, IsEmpty());
  EXPECT_TRUE(asked_.told_.contains(kFirst));
  job_.on_left(now(), kFirst, asked_.group_.generation);
  job_.on_entered(now(), kSecond, asked_.group_.generation, 11);
  job_.on_gone(now(), kFirst);
  EXPECT_THAT(job_.training(), ElementsAre(kSecond));
  EXPECT_EQ(job_.steps_lost(), 0);
}

TEST_F(ElasticJobTest, AMemberThatIsRecalledAndStaysIsKilledAtItsDeadline) {
  train_two();
  const TimePoint deadline = now_ + 300ms;
  job_.recall(now(), kFirst, deadline);
  EXPECT_EQ(job_.wake_at(), deadline);
  job_.on_wake(deadline - 1ns);
  EXPECT_THAT(asked_.fenced_, IsEmpty());
  job_.on_wake(deadline);
  EXPECT_THAT(asked_.fenced_, ElementsAre(kFirst));
}

// The second has applied step 11 and the first has not: the first gets the state of the second.
TEST_F(ElasticJobTest, AfterADeathTheSurvivorWithTheMostStepsIsTheSource) {
  train_two();
  job_.on_hello(now(), kThird, 0);
  enter_all(10);
  const Generation broken = job_.current().generation;
  job_.on_gone(now(), kThird);
  job_.on_failed(now(), kFirst, broken, 10);
  EXPECT_EQ(asked_.group_.generation, broken);  // Not before all have said what they have.
  job_.on_failed(now(), kSecond, broken, 11);
  EXPECT_TRUE(asked_.group_.recovers);
  EXPECT_THAT(asked_.group_.members, ElementsAre(kFirst, kSecond));
  EXPECT_THAT(asked_.group_.fresh, ElementsAre(kFirst));
  EXPECT_EQ(asked_.group_.source, kSecond);
  EXPECT_EQ(asked_.group_.step, 11);
}

TEST_F(ElasticJobTest, TheLastTrainerSavesTheStateBeforeItLeaves) {
  job_.on_hello(now(), kFirst, 0);
  enter_all(0);
  step_all(7);
  job_.recall(now(), kFirst, now_ + 1s);
  EXPECT_THAT(asked_.group_.members, IsEmpty());
  EXPECT_EQ(asked_.group_.source, kFirst);
  job_.on_saved(now(), kFirst, 8);
  job_.on_left(now(), kFirst, asked_.group_.generation);
  job_.on_gone(now(), kFirst);
  EXPECT_EQ(job_.state(), ElasticJobState::parked);
  // The next one begins where it was saved.
  job_.on_hello(now(), kSecond, 0);
  EXPECT_TRUE(asked_.group_.restarts);
  enter_all(8);
  EXPECT_EQ(job_.step(), 8);
  EXPECT_EQ(job_.steps_lost(), 0);
}

TEST_F(ElasticJobTest, StepsAreLostOnlyWithEverybodyWhoHadMadeThem) {
  job_.on_hello(now(), kFirst, 0);
  enter_all(0);
  step_all(7);
  job_.on_gone(now(), kFirst);
  job_.on_hello(now(), kSecond, 0);
  EXPECT_TRUE(asked_.group_.restarts);
  enter_all(3);  // A checkpoint of step 3.
  EXPECT_EQ(job_.steps_lost(), 4);
  EXPECT_EQ(job_.step(), 3);
}

TEST_F(ElasticJobTest, ARecalledMemberStaysUntilSomebodyElseHasTheState) {
  job_.on_hello(now(), kFirst, 0);
  enter_all(0);
  job_.recall(now(), kFirst, now_ + 10s);
  job_.on_hello(now(), kSecond, 0);  // Before the state was saved.
  EXPECT_THAT(asked_.group_.members, ElementsAre(kFirst, kSecond));
  EXPECT_EQ(asked_.group_.source, kFirst);
  enter_all(4);
  EXPECT_THAT(asked_.group_.members, ElementsAre(kSecond));
  EXPECT_THAT(asked_.group_.fresh, IsEmpty());
}

TEST_F(ElasticJobTest, ATrainerThatIsSilentIsKilled) {
  train_two();
  const TimePoint later = now_ + 10s;
  job_.on_alive(later - 1ms, kSecond, true);
  job_.on_wake(later);
  EXPECT_THAT(asked_.fenced_, ElementsAre(kFirst));
}

TEST_F(ElasticJobTest, TheJobIsDoneWhenRankZeroIs) {
  train_two();
  job_.on_done(now(), kSecond, 12);
  EXPECT_EQ(job_.state(), ElasticJobState::training);
  job_.on_done(now(), kFirst, 12);
  EXPECT_EQ(job_.state(), ElasticJobState::done);
  EXPECT_THAT(asked_.stopped_, ElementsAre(kFirst, kSecond));
}

TEST(ElasticJob, BeginsWithTheStateOfTheFirstTrainerWhoeverIsQuickest) {
  AskedTrainers asked;
  ElasticJob job({.ready_min = 3, .members_max = 2}, asked);
  for (const TrainerId id : {kThird, kFirst, kSecond}) job.on_hello(kTimeZero, id, 0);
  EXPECT_TRUE(asked.group_.restarts);
  EXPECT_EQ(asked.group_.source, kFirst);
  EXPECT_THAT(asked.group_.members, ElementsAre(kFirst, kSecond));
}

TEST_F(ElasticJobTest, TheEndingIsLostIfRankZeroDiesWhenTheOthersAreDone) {
  train_two();
  job_.on_done(now(), kSecond, 12);
  EXPECT_FALSE(job_.ending_lost());
  job_.on_gone(now(), kFirst);
  EXPECT_EQ(job_.state(), ElasticJobState::done);
  EXPECT_TRUE(job_.ending_lost());
}

TEST_F(ElasticJobTest, AKeyIsAnsweredWhetherItWasSetBeforeOrAfterTheQuestion) {
  train_two();
  const Generation generation = job_.current().generation;
  job_.on_get(kSecond, generation, "0/1");
  job_.on_set(kFirst, generation, "0/1", "address");
  job_.on_get(kFirst, generation, "0/1");
  ASSERT_EQ(asked_.answers_.size(), 2u);
  EXPECT_EQ(asked_.answers_[0], (std::pair<TrainerId, std::string>{kSecond, "address"}));
  EXPECT_EQ(asked_.answers_[1].first, kFirst);
  job_.on_get(kFirst, generation + 100, "0/1");  // A generation that nobody has named.
  EXPECT_EQ(asked_.answers_.size(), 2u);
}

}  // namespace
}  // namespace tangram::train
