#include "host/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace tangram::host {
namespace {

namespace fs = std::filesystem;

// A folder of its own that is gone afterwards.
class Files : public testing::Test {
 protected:
  Files() {
    std::string name = (fs::temp_directory_path() / "tangram-files-XXXXXX").string();
    directory_ = mkdtemp(name.data());
  }
  ~Files() override { fs::remove_all(directory_); }

  std::string path(const std::string& name) const { return (directory_ / name).string(); }
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(directory_), fs::directory_iterator()));
  }

  fs::path directory_;
};

TEST_F(Files, ReadsBackWhatWasWritten) {
  const std::string content("a\0b\n", 4);
  ASSERT_TRUE(write_file_atomically(path("x"), content));
  EXPECT_EQ(*read_file(path("x")), content);
  EXPECT_EQ(entries(), 1U);  // No temporary file is left.
}

// Nobody writes to the pipe, and nobody will: to wait for that would be for ever.
TEST_F(Files, DoesNotWaitForAPipe) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  const auto pipe = read_file(path("pipe"));
  ASSERT_FALSE(pipe);
  EXPECT_EQ(pipe.error().message, path("pipe") + ": is a pipe, which can be read only once; expected a file");
  const auto device = read_file("/dev/zero");
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().message, "/dev/zero: is a device; expected a file");
}

// As a shell gives it for `<(...)`.
TEST_F(Files, ReadsAPipeThatIsOpenAlready) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], "text", 4), 4);
  close(ends[1]);
  const auto content = read_file("/dev/fd/" + std::to_string(ends[0]));
  close(ends[0]);
  ASSERT_TRUE(content) << content.error().message;
  EXPECT_EQ(*content, "text");
}

TEST_F(Files, KeepsThePermissionsOfTheFileItReplaces) {
  ASSERT_TRUE(write_file_atomically(path("x"), "old"));
  ASSERT_EQ(chmod(path("x").c_str(), 0640), 0);
  ASSERT_TRUE(write_file_atomically(path("x"), "new"));
  struct stat status {};
  ASSERT_EQ(stat(path("x").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640U);
  EXPECT_EQ(*read_file(path("x")), "new");
}

TEST_F(Files, GivesANewFileThePermissionsOfTheMask) {
  const mode_t before = umask(027);
  ASSERT_TRUE(write_file_atomically(path("x"), "new"));
  umask(before);
  struct stat status {};
  ASSERT_EQ(stat(path("x").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640U);
}

TEST_F(Files, WritesThroughASymbolicLink) {
  ASSERT_TRUE(write_file_atomically(path("target"), "old"));
  fs::create_symlink("target", path("link"));
  ASSERT_TRUE(write_file_atomically(path("link"), "new"));
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(*read_file(path("target")), "new");
}

TEST_F(Files, RefusesADirectory) {
  const auto written = write_file_atomically(directory_.string(), "x");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().message, directory_.string() + ": is a directory; expected a file to write");
  const auto read = read_file(directory_.string());
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message, directory_.string() + ": is a directory; expected a file");
}

TEST_F(Files, LeavesNothingBehindWhereTheFolderIsMissing) {
  const auto written = write_file_atomically(path("no/such/x"), "x");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::not_found);
  EXPECT_EQ(entries(), 0U);
}

// A device is not replaced by a file, and its refusal is an error: /dev/full always says that no space is left.
TEST_F(Files, ReportsAFullDevice) {
  const auto written = write_file_atomically("/dev/full", "x");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().message, "/dev/full: cannot write: No space left on device");
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST_F(Files, SaysWhatIsWrongWithAFileItCannotRead) {
  const auto missing = read_file(path("x"));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error(), (Error{ErrorCode::not_found, path("x") + ": cannot read: no such file or directory"}));
  std::ofstream(path("y")) << std::string((1 << 20) + 1, 'x');
  const auto large = read_file(path("y"), 1 << 20);
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error(), (Error{ErrorCode::invalid, path("y") + ": larger than the limit of 1 MiB"}));
  EXPECT_TRUE(read_file(path("y"), (1 << 20) + 1));
}

// /proc tells a size of zero for files that have content, so the size alone must not be believed.
TEST_F(Files, ReadsFilesWhoseSizeIsNotTold) {
  const auto status = read_file("/proc/self/status");
  ASSERT_TRUE(status);
  EXPECT_NE(status->find("CapEff"), std::string::npos);
}

TEST_F(Files, RefusesTwoOutputsInOneFileAndWhatIsRead) {
  const std::string there = path("there.txt");
  ASSERT_TRUE(write_file_atomically(there, "old"));
  const std::string link = path("link.txt");
  fs::create_symlink(there, link);
  const auto refusal = [](const std::vector<OutputFile>& outputs, const std::vector<std::string>& inputs) {
    const auto result = check_outputs(outputs, inputs);
    return result ? std::string() : result.error().message;
  };
  EXPECT_EQ(refusal({{"-a", there}, {"-b", link}}, {}),
            "-a and -b both name " + link + ": one would overwrite the other");
  const std::string fresh = path("new.txt");
  EXPECT_NE(refusal({{"-a", fresh}, {"-b", path("./new.txt")}}, {}), "");
  EXPECT_EQ(refusal({{"-a", link}}, {there}), "-a: " + link + " is an input and would be overwritten");
  EXPECT_EQ(refusal({{"-a", fresh}, {"-b", there}, {"-c", ""}, {"-d", ""}}, {}), "");
  EXPECT_EQ(refusal({{"-a", "/dev/null"}, {"-b", "/dev/null"}}, {}), "");
  EXPECT_NE(refusal({{"-a", path("no/such")}}, {}).find("no such file or directory"), std::string::npos);
  EXPECT_FALSE(fs::exists(fresh));
  EXPECT_EQ(*read_file(there), "old");
}

}  // namespace
}  // namespace tangram::host
