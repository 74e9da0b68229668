#include "host/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace tangram::host {
namespace {

namespace fs = std::filesystem;

class AtomicFileTest : public testing::Test {
 protected:
  AtomicFileTest() : folder_(fs::path(testing::TempDir()) / ("atomic_file_" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~AtomicFileTest() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  static std::string content_of(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_;
};

TEST_F(AtomicFileTest, ShowsTheOldContentUntilItTakesTheName) {
  std::ofstream(path("a")) << "old";
  AtomicFile file(path("a"));
  ASSERT_EQ(file.error(), 0);
  EXPECT_EQ(file.append("ne"), 0);
  EXPECT_EQ(file.append("w"), 0);
  EXPECT_EQ(content_of(path("a")), "old");
  EXPECT_EQ(file.sync(), 0);
  EXPECT_EQ(file.take_name(), 0);
  EXPECT_EQ(file.sync_directory(), 0);
  EXPECT_EQ(content_of(path("a")), "new");
  EXPECT_EQ(files(), 1U);
}

TEST_F(AtomicFileTest, LeavesNothingBehindIfItIsGivenUp) {
  for (const bool named : {false, true}) {
    {
      const auto file =
          named ? std::make_unique<AtomicFile>(path("a"), path("a.partial")) : std::make_unique<AtomicFile>(path("a"));
      EXPECT_EQ(file->append("half"), 0);
      EXPECT_EQ(files(), 1U);
    }
    EXPECT_EQ(files(), 0U);
  }
}

TEST_F(AtomicFileTest, OverwritesWhatAKilledProcessLeftUnderItsTemporaryName) {
  std::ofstream(path("a.partial")) << "a long text of the last process";
  AtomicFile file(path("a"), path("a.partial"));
  EXPECT_EQ(file.append("short"), 0);
  EXPECT_EQ(file.take_name(), 0);
  EXPECT_EQ(content_of(path("a")), "short");
  EXPECT_EQ(files(), 1U);
}

// A temporary name that others could guess must not show the content to them before the caller sets the mode.
TEST_F(AtomicFileTest, IsPrivateUntilTheCallerSetsAMode) {
  const AtomicFile file(path("a"));
  struct stat status {};
  ASSERT_EQ(::fstat(file.descriptor(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

TEST_F(AtomicFileTest, SaysWhyItCannotBeMade) {
  EXPECT_EQ(AtomicFile(path("missing/a")).error(), ENOENT);
  EXPECT_EQ(AtomicFile(path("missing/a"), path("missing/a.partial")).error(), ENOENT);
}

}  // namespace
}  // namespace tangram::host
