#include "client/offline_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace tangram::client {
namespace {

using testing::HasSubstr;

class OfflineInput : public testing::Test {
 protected:
  OfflineInput() : path_(testing::TempDir() + "offline_input_" + std::to_string(getpid())) {}
  ~OfflineInput() override { std::filesystem::remove(path_); }
  Result<InputFacts> scan(const std::string& text, RowFormat format) const {
    std::ofstream(path_) << text;
    return scan_input(path_, format);
  }
  std::string path_;
};

// FNV-1a of "a" is a published value.
TEST_F(OfflineInput, IsCountedAndDigested) {
  const auto one = scan("a", RowFormat::jsonl);
  ASSERT_TRUE(one);
  EXPECT_EQ(one->rows, 1U);
  EXPECT_EQ(one->bytes, 1U);
  EXPECT_EQ(one->digest, 0xaf63dc4c8601ec8cULL);
  const auto three = scan("{}\n\n{}\r\n{}", RowFormat::jsonl);  // 3 x 2 bytes and 4 line ends; a blank line is no row.
  ASSERT_TRUE(three);
  EXPECT_EQ(three->rows, 3U);
  EXPECT_EQ(three->bytes, 10U);
  EXPECT_NE(three->digest, scan("{}\n\n{}\r\n[]", RowFormat::jsonl)->digest);
}

// A row of 300,000 bytes lies across the border of two pieces of 256 KiB.
TEST_F(OfflineInput, IsReadInPieces) {
  const std::string row(300'000, 'x');
  std::ofstream(path_) << row << '\n' << row << '\n';
  RowFile file(path_, RowFormat::jsonl);
  for (std::uint64_t number = 1; number <= 2; ++number) {
    const auto next = file.next();
    ASSERT_TRUE(next && *next);
    EXPECT_EQ((*next)->number, number);
    EXPECT_EQ((*next)->text, row);
  }
  EXPECT_FALSE(*file.next());
  EXPECT_EQ(file.bytes(), 600'002U);
}

TEST_F(OfflineInput, OfCsvBeginsWithAHeaderThatIsNoRow) {
  EXPECT_EQ(scan("a,b\n1,2\n3,4\n", RowFormat::csv)->rows, 2U);
  EXPECT_THAT(scan("", RowFormat::csv).error().message, HasSubstr("the file is empty"));
  EXPECT_EQ(scan("", RowFormat::jsonl)->rows, 0U);
}

TEST_F(OfflineInput, MustBeAFileThatCanBeRead) {
  const auto missing = scan_input(path_ + ".missing", RowFormat::jsonl);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::not_found);
  EXPECT_THAT(missing.error().message, HasSubstr("cannot be read: No such file or directory"));
  EXPECT_THAT(scan_input(testing::TempDir(), RowFormat::jsonl).error().message, HasSubstr("not a regular file"));
  EXPECT_THAT(scan("a\n\"never closed", RowFormat::csv).error().message, HasSubstr("line 2"));
}

}  // namespace
}  // namespace tangram::client
