#include "measure/result_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "formats/measurements_file.h"
#include "host/files.h"

namespace tangram::measure {
namespace {

class ResultFileTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = (std::filesystem::temp_directory_path() / "tangram-results-XXXXXX").string();
    ASSERT_NE(mkdtemp(directory_.data()), nullptr);
    path_ = directory_ + "/mine.csv";
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  static Measurement timed(const std::string& model, std::int64_t batch) {
    Measurement m;
    m.device = "a30";
    m.model = model;
    m.mig_profile = "1g.6gb";
    m.batch = batch;
    m.size = 1;
    m.processes = 1;
    m.latency_ms = 2;
    return m;
  }
  Measurements stored() { return *formats::parse_measurements({path_, *host::read_file(path_)}); }

  std::string directory_;
  std::string path_;
};

// The file has bert, gpt and bert again. A campaign on bert measures one more: the three stay in their order, and the
// new one follows.
TEST_F(ResultFileTest, RowsThatWereThereStayFirst) {
  const Measurements before{timed("bert", 1), timed("gpt", 1), timed("bert", 2)};
  ASSERT_TRUE(host::write_file_atomically(path_, formats::write_measurements(before)));
  const auto file = ResultFile::open(path_, {"a30", "bert"}, "all.csv");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->rows().size(), 3U);
  ASSERT_TRUE(file->write({timed("bert", 1), timed("bert", 2), timed("bert", 4)}));
  const Measurements after = stored();
  ASSERT_EQ(after.size(), 4U);
  EXPECT_EQ(after[1].model, "gpt");
  EXPECT_EQ(after[3].batch, 4);
}

TEST_F(ResultFileTest, MakesTheFileBeforeAnythingIsMeasured) {
  ASSERT_TRUE(ResultFile::open(path_, {"a30", "bert"}, "all.csv"));
  EXPECT_TRUE(stored().empty());
}

TEST_F(ResultFileTest, RefusesStandardOutputAndItsOwnSource) {
  EXPECT_THAT(ResultFile::open("-", {"a30", "bert"}, "all.csv").error().message, testing::HasSubstr("expected a regular file"));
  ASSERT_TRUE(host::write_file_atomically(path_, ""));
  EXPECT_THAT(ResultFile::open(path_, {"a30", "bert"}, path_).error().message,
              testing::HasSubstr("is the file that the engine reads its times from"));
}

}  // namespace
}  // namespace tangram::measure
