#include "client/offline_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace tangram::client {
namespace {

namespace fs = std::filesystem;

// A folder of its own, gone afterwards.
class OfflineStoreTest : public ::testing::Test {
 protected:
  OfflineStoreTest() {
    std::string name = (fs::temp_directory_path() / "tangram-offline-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~OfflineStoreTest() override { fs::remove_all(folder_); }

  static OfflineJob example_job() {
    OfflineJob job;
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

TEST_F(OfflineStoreTest, KeepsTheDescriptionOfAJob) {
  ASSERT_TRUE(OfflineStore::create(folder_, example_job()).ok());
  const auto second = OfflineStore::create(folder_, example_job());
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(OfflineStore::list(folder_), (std::vector<std::string>{"rank_answers-1", "rank_answers-2"}));
  const auto job = OfflineStore::open(folder_, "rank_answers-2")->read();
  ASSERT_TRUE(job.ok());
  EXPECT_EQ(job->model, "rank/answers");
  EXPECT_EQ(job->format, RowFormat::csv);
  EXPECT_EQ(job->input_digest, 0xfedcba9876543210ULL);
  EXPECT_EQ(job->deadline_ms, 99);
  EXPECT_EQ(job->state, OfflineState::open);
  EXPECT_EQ(job->left(), 4U);
}

// Row 2 is told twice: the first answer stays, and it counts once.
TEST_F(OfflineStoreTest, CountsEveryRowOnce) {
  auto store = OfflineStore::create(folder_, example_job());
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
TEST_F(OfflineStoreTest, SurvivesTheDeathOfItsProcess) {
  ASSERT_TRUE(OfflineStore::create(folder_, example_job()).ok());
  const pid_t child = ::fork();
  if (child == 0) {
    auto store = OfflineStore::open(folder_, "rank_answers-1");
    const bool recorded = store->lock().ok() && store->record(std::vector<RowResult>{{1, 1, true, "{}"}}, {}).ok();
    ::kill(::getpid(), recorded ? SIGKILL : SIGTERM);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(WTERMSIG(status), SIGKILL);
  auto store = OfflineStore::open(folder_, "rank_answers-1");
  ASSERT_TRUE(store.ok());
  EXPECT_FALSE(store->running());
  EXPECT_TRUE(store->lock().ok());
  EXPECT_TRUE(store->running());
  EXPECT_EQ(*store->recorded(), (std::vector<bool>{false, true, false, false, false}));
}

TEST_F(OfflineStoreTest, HasOneRunnerAtATime) {
  auto first = OfflineStore::create(folder_, example_job());
  auto second = OfflineStore::open(folder_, first->id());
  ASSERT_TRUE(first->lock().ok());
  const auto refused = second->lock();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "rank_answers-1: another process runs this job");
}

// The runner learns of the cancellation when it records next, and then cannot call the job done.
TEST_F(OfflineStoreTest, TellsTheRunnerThatTheJobWasCancelled) {
  auto runner = OfflineStore::create(folder_, example_job());
  auto other = OfflineStore::open(folder_, runner->id());
  EXPECT_EQ(*runner->record({}, {}), OfflineState::open);
  EXPECT_TRUE(*other->change_state(OfflineState::open, OfflineState::cancelled));
  EXPECT_EQ(*runner->record({}, {}), OfflineState::cancelled);
  EXPECT_FALSE(*runner->change_state(OfflineState::open, OfflineState::done));
}

// Two files of makers that died, one with what SQLite had beside it, and one of a maker that is at work.
TEST_F(OfflineStoreTest, RemovesWhatDeadMakersLeft) {
  for (const char* name : {".making-1.sqlite", ".making-abc123.sqlite", ".making-abc123.sqlite-wal",
                           ".making-abc123.sqlite-shm", ".making-gone.sqlite-journal", ".making-live.sqlite"}) {
    std::ofstream(folder_ + "/" + name) << "x";
  }
  const int held = ::open((folder_ + "/.making-live.sqlite").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(::flock(held, LOCK_EX), 0);
  ASSERT_TRUE(OfflineStore::create(folder_, example_job()).ok());
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    if (entry.path().filename().string().starts_with('.')) left.push_back(entry.path().filename().string());
  }
  EXPECT_EQ(left, std::vector<std::string>{".making-live.sqlite"});
  ::close(held);
}

// Whatever the mask says, and also of a job that an older version made readable to all.
TEST_F(OfflineStoreTest, LetsNobodyElseReadTheRows) {
  const mode_t mask = ::umask(0);
  std::string inner = folder_ + "/new/store";
  {
    auto store = OfflineStore::create(inner, example_job());
    ASSERT_TRUE(store.ok());
    ASSERT_TRUE(store->lock().ok());
    ASSERT_TRUE(store->record(std::vector<RowResult>{{1, 1, true, "{}"}}, {}).ok());
    for (const auto& entry : fs::directory_iterator(inner)) {
      EXPECT_EQ(entry.status().permissions(), fs::perms::owner_read | fs::perms::owner_write) << entry.path();
    }
  }
  EXPECT_EQ(fs::status(inner).permissions(), fs::perms::owner_all);
  const std::string file = inner + "/rank_answers-1.sqlite";
  fs::permissions(file, fs::perms(0644));
  EXPECT_TRUE(OfflineStore::open(inner, "rank_answers-1").ok());
  EXPECT_EQ(fs::status(file).permissions(), fs::perms(0600));
  ::umask(mask);
}

// A hundred answers of 10,000 bytes are a megabyte; a job without any is a few pages.
TEST_F(OfflineStoreTest, GivesTheRoomOfAnswersBack) {
  const auto bytes = [&] {
    std::uintmax_t sum = 0;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      if (!entry.path().string().ends_with("-shm")) sum += entry.file_size();
    }
    return sum;
  };
  OfflineJob job = example_job();
  job.rows = 100;
  auto store = OfflineStore::create(folder_, job);
  const std::uintmax_t before = bytes();
  std::vector<RowResult> results;
  for (std::uint64_t row = 1; row <= 100; ++row) results.push_back({row, row, true, std::string(10'000, 'x')});
  ASSERT_TRUE(store->record(results, {}).ok());
  EXPECT_GT(bytes(), 1'000'000U);
  store->forget_results();
  EXPECT_LE(bytes(), before);
  EXPECT_EQ(store->read()->answered, 100U);
}

// Before ids were kept, the table of results had four columns.
TEST_F(OfflineStoreTest, OpensJobsOfOlderVersions) {
  ASSERT_TRUE(OfflineStore::create(folder_, example_job()).ok());
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open((folder_ + "/rank_answers-1.sqlite").c_str(), &database), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(database,
                         "ALTER TABLE results DROP COLUMN id; INSERT INTO results(row,line,ok,text) VALUES(1,1,0,'no')",
                         nullptr, nullptr, nullptr),
            SQLITE_OK);
  sqlite3_close(database);
  auto store = OfflineStore::open(folder_, "rank_answers-1");
  ASSERT_TRUE(store.ok());
  ASSERT_TRUE(store->record(std::vector<RowResult>{{2, 2, false, "bad", "r2"}}, {}).ok());
  std::vector<std::string> ids;
  const auto read = store->each_result([&](const RowResult& result) -> Result<Nothing> {
    ids.push_back(result.text + ":" + result.id);
    return Nothing{};
  });
  EXPECT_TRUE(read.ok());
  EXPECT_EQ(ids, (std::vector<std::string>{"no:", "bad:r2"}));
}

TEST_F(OfflineStoreTest, KnowsNoJobThatIsNotThere) {
  EXPECT_EQ(OfflineStore::open(folder_, "none-1").error().code, ErrorCode::not_found);
  EXPECT_EQ(OfflineStore::open(folder_, "../x").error().code, ErrorCode::not_found);
}

}  // namespace
}  // namespace tangram::client
