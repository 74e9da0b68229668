#include "serve/batch_store.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

namespace tangram::serve {
namespace {

namespace fs = std::filesystem;

// A folder of its own, gone afterwards.
class BatchStore : public ::testing::Test {
 protected:
  BatchStore() {
    std::string name = (fs::temp_directory_path() / "tangram-batch-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~BatchStore() override { fs::remove_all(folder_); }

  static Job example_job() {
    Job job;
    job.model = "rank/answers";
    job.input = "/in.csv";
    job.output = "/out.jsonl";
    job.format = RowFormat::csv;
    job.rows = 4;
    job.input_digest = 0xfedcba9876543210ULL;
    job.submitted_ms = 17;
    job.deadline_ms = 99;
    return job;
  }

  std::string folder_;
};

TEST_F(BatchStore, KeepsTheDescriptionOfAJob) {
  ASSERT_TRUE(JobStore::create(folder_, example_job()).ok());
  const auto second = JobStore::create(folder_, example_job());
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(JobStore::list(folder_), (std::vector<std::string>{"rank_answers-1", "rank_answers-2"}));
  const auto job = JobStore::open(folder_, "rank_answers-2")->read();
  ASSERT_TRUE(job.ok());
  EXPECT_EQ(job->model, "rank/answers");
  EXPECT_EQ(job->format, RowFormat::csv);
  EXPECT_EQ(job->input_digest, 0xfedcba9876543210ULL);
  EXPECT_EQ(job->deadline_ms, 99);
  EXPECT_EQ(job->state, JobState::open);
  EXPECT_EQ(job->left(), 4U);
}

// Row 2 is told twice: the first answer stays, and it counts once.
TEST_F(BatchStore, CountsEveryRowOnce) {
  auto store = JobStore::create(folder_, example_job());
  ASSERT_TRUE(store.ok());
  const std::vector<RowResult> first{{2, 2, true, "{\"a\":1}"}, {1, 1, false, "bad"}};
  const std::vector<RowResult> again{{2, 2, true, "{\"a\":2}"}, {4, 9, true, std::string("\0x", 2)}};
  ASSERT_TRUE(store->record(first, {1.5, 20}).ok());
  ASSERT_TRUE(store->record(again, {2.5, 30}).ok());
  const auto job = store->read();
  EXPECT_EQ(job->answered, 2U);
  EXPECT_EQ(job->failed, 1U);
  EXPECT_EQ(job->rows_per_s, 2.5);
  EXPECT_EQ(*store->recorded(), (std::vector<bool>{false, true, true, false, true}));
  std::vector<std::string> texts;
  const auto read = store->each_result([&](const RowResult& result) -> Result<Nothing> {
    texts.push_back(result.text);
    return Nothing{};
  });
  EXPECT_TRUE(read.ok());
  EXPECT_EQ(texts, (std::vector<std::string>{"bad", "{\"a\":1}", std::string("\0x", 2)}));
}

// A child records row 1 and dies without closing anything, while it holds the lock; then row 1 is there, and the lock
// is free.
TEST_F(BatchStore, SurvivesTheDeathOfItsProcess) {
  ASSERT_TRUE(JobStore::create(folder_, example_job()).ok());
  const pid_t child = ::fork();
  if (child == 0) {
    auto store = JobStore::open(folder_, "rank_answers-1");
    const bool recorded = store->lock().ok() && store->record(std::vector<RowResult>{{1, 1, true, "{}"}}, {}).ok();
    ::kill(::getpid(), recorded ? SIGKILL : SIGTERM);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(WTERMSIG(status), SIGKILL);
  auto store = JobStore::open(folder_, "rank_answers-1");
  ASSERT_TRUE(store.ok());
  EXPECT_FALSE(store->running());
  EXPECT_TRUE(store->lock().ok());
  EXPECT_TRUE(store->running());
  EXPECT_EQ(*store->recorded(), (std::vector<bool>{false, true, false, false, false}));
}

TEST_F(BatchStore, HasOneRunnerAtATime) {
  auto first = JobStore::create(folder_, example_job());
  auto second = JobStore::open(folder_, first->id());
  ASSERT_TRUE(first->lock().ok());
  const auto refused = second->lock();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "rank_answers-1: another process runs this job");
}

// The runner learns of the cancellation when it records next, and then cannot call the job done.
TEST_F(BatchStore, TellsTheRunnerThatTheJobWasCancelled) {
  auto runner = JobStore::create(folder_, example_job());
  auto other = JobStore::open(folder_, runner->id());
  EXPECT_EQ(*runner->record({}, {}), JobState::open);
  EXPECT_TRUE(*other->change_state(JobState::open, JobState::cancelled));
  EXPECT_EQ(*runner->record({}, {}), JobState::cancelled);
  EXPECT_FALSE(*runner->change_state(JobState::open, JobState::done));
}

TEST_F(BatchStore, KnowsNoJobThatIsNotThere) {
  EXPECT_EQ(JobStore::open(folder_, "none-1").error().code, ErrorCode::not_found);
  EXPECT_EQ(JobStore::open(folder_, "../x").error().code, ErrorCode::not_found);
}

}  // namespace
}  // namespace tangram::serve
