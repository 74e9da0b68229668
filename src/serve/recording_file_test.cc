#include "serve/recording_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>

#include "host/files.h"

namespace tangram::serve {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

// A path that nobody else has, and whose file is gone afterwards.
struct OwnPath {
  explicit OwnPath(const std::string& name)
      : text((fs::temp_directory_path() / (name + "-" + std::to_string(getpid()))).string()) {}
  ~OwnPath() { fs::remove(text); }
  OwnPath(const OwnPath&) = delete;
  OwnPath& operator=(const OwnPath&) = delete;
  std::string text;
};

// Two short lines are far from a piece of 256 KiB. Nobody adds more and nobody ends the recording, as after kill -9.
TEST(RecordingFile, IsWrittenWhileNothingHappens) {
  const OwnPath path("recording");
  auto file = RecordingFile::open(path.text, {.write_every = 5ms});
  ASSERT_TRUE(file) << file.error().message;
  (*file)->add("one\n");
  (*file)->add("two\n");
  const auto limit = std::chrono::steady_clock::now() + 30s;
  while (*host::read_file(path.text) != "one\ntwo\n" && std::chrono::steady_clock::now() < limit)
    std::this_thread::yield();
  EXPECT_EQ(*host::read_file(path.text), "one\ntwo\n");
  (*file)->add("end\n");
  EXPECT_TRUE((*file)->finish());
  EXPECT_EQ(*host::read_file(path.text), "one\ntwo\nend\n");
}

// 100 lines of 8 KiB are more than three pieces; an hour is longer than the test.
TEST(RecordingFile, HoldsEveryLineInOrder) {
  const OwnPath path("recording-long");
  std::string all;
  auto file = RecordingFile::open(path.text, {.write_every = 1h});
  ASSERT_TRUE(file) << file.error().message;
  for (int i = 0; i < 100; ++i) {
    const std::string line = std::string(8 << 10, static_cast<char>('a' + i % 26)) + "\n";
    (*file)->add(line);
    all += line;
  }
  EXPECT_TRUE((*file)->finish());
  EXPECT_EQ(*host::read_file(path.text), all);
}

// The device of Linux that is always full.
TEST(RecordingFile, SaysOnceThatItCannotBeWritten) {
  std::atomic<int> told{0};
  std::string problem;
  const auto tell = [&](const Error& error) {
    problem = error.message;
    ++told;
  };
  auto file = RecordingFile::open("/dev/full", {.write_every = 1ms, .on_problem = tell});
  ASSERT_TRUE(file) << file.error().message;
  (*file)->add("one\n");
  const auto limit = std::chrono::steady_clock::now() + 30s;
  while (told == 0 && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  (*file)->add("two\n");
  EXPECT_FALSE((*file)->finish());
  EXPECT_EQ(told, 1);
  EXPECT_EQ(problem, "cannot write /dev/full: No space left on device");
}

TEST(RecordingFile, SaysThatItCannotBeOpened) {
  const auto file = RecordingFile::open("/nonexistent/recording", {});
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().message, "cannot write /nonexistent/recording: No such file or directory");
}

}  // namespace
}  // namespace tangram::serve
