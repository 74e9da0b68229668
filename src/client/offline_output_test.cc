#include "client/offline_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace tangram::client {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class OfflineOutput : public testing::Test {
 protected:
  OfflineOutput() {
    std::string name = (fs::temp_directory_path() / "tangram-output-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    job_.model = "rank";
    job_.output = folder_ + "/out.jsonl";
  }
  ~OfflineOutput() override { fs::remove_all(folder_); }

  // A job of `rows` rows with these results.
  Result<Nothing> write(std::uint64_t rows, const std::vector<RowResult>& results) {
    job_.rows = rows;
    auto store = OfflineStore::create(folder_ + "/store", job_);
    EXPECT_TRUE(store);
    job_.id = store->id();
    EXPECT_TRUE(store->record(results, {}));
    return write_output(*store, job_);
  }
  static std::string content_of(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  std::string folder_;
  OfflineJob job_;
};

// Answers lose their line ends and get their number; an answer without any key gets no comma.
TEST_F(OfflineOutput, HasOneLineForEachAnswerInTheOrderOfTheRows) {
  ASSERT_TRUE(write(3, {{2, 2, true, "{}"}, {3, 4, true, "{\n\"a\":\r\n1}"}, {1, 1, true, R"({"b":2})"}}));
  EXPECT_EQ(content_of(job_.output), "{\"row\":1,\"b\":2}\n{\"row\":2}\n{\"row\":3, \"a\":  1}\n");
  EXPECT_FALSE(fs::exists(failed_path(job_.output)));
}

TEST_F(OfflineOutput, ListsRowsWithoutAnAnswerApart) {
  ASSERT_TRUE(write(2, {{1, 1, true, "{}"}, {2, 5, false, "bad \xff byte", "name"}}));
  EXPECT_EQ(content_of(job_.output), "{\"row\":1}\n");
  EXPECT_EQ(content_of(failed_path(job_.output)),
            "{\"row\":2,\"line\":5,\"id\":\"name\",\"reason\":\"bad \xef\xbf\xbd byte\"}\n");
}

TEST_F(OfflineOutput, RemovesTheListOfFailuresOfAnEarlierRun) {
  std::ofstream(failed_path(job_.output)) << "old";
  ASSERT_TRUE(write(1, {{1, 1, true, "{}"}}));
  EXPECT_FALSE(fs::exists(failed_path(job_.output)));
}

TEST_F(OfflineOutput, DoesNotAppearWhileARowIsMissing) {
  EXPECT_THAT(write(2, {{2, 2, true, "{}"}}).error().message, HasSubstr("row 1 is missing"));
  EXPECT_THAT(write(2, {{1, 1, true, "{}"}}).error().message, HasSubstr("1 of 2 rows have a result"));
  EXPECT_FALSE(fs::exists(job_.output));
}

TEST_F(OfflineOutput, SaysWhichFileCannotBeWritten) {
  job_.output = folder_ + "/missing/out.jsonl";
  const auto refused = write(1, {{1, 1, true, "{}"}});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("missing/out.jsonl.rank-1.partial: cannot be written: No such file"));
}

}  // namespace
}  // namespace tangram::client
