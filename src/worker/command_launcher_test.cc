#include "worker/command_launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "worker/worker_process.h"

namespace tangram::worker {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const CommandPlace kPlace{.port = 8101, .model = "/m/it's", .slice = "host-0/2c@0", .cores = {0, 1}};

TEST(FillCommand, ReplacesWhatItKnowsAndLeavesTheShellAlone) {
  EXPECT_EQ(*fill_command("server --port {port} --cpus={cores} {slice}", kPlace),
            "server --port 8101 --cpus=0,1 'host-0/2c@0'");
  EXPECT_EQ(*fill_command("run {model}", kPlace), "run '/m/it'\\''s'");
  EXPECT_EQ(*fill_command("echo ${HOME} { a; b; } {", kPlace), "echo ${HOME} { a; b; } {");
  const auto unknown = fill_command("server {prot}", kPlace);
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().message, HasSubstr("{prot}; expected {port}"));
}

TEST(FreePort, IsNotZero) { EXPECT_GT(*free_port(), 0); }

// The shell writes the number of a process that it has started, which sleeps for a minute, and then waits for it.
TEST(StartCommand, EndsAllThatTheCommandHasStarted) {
  const fs::path file = fs::temp_directory_path() / ("tangram-command-" + std::to_string(getpid()));
  const auto group = start_command(
      find_worker_program(),
      "sleep 60 & echo $! $PLACE > " + file.string() + ".new; mv " + file.string() + ".new " + file.string() + "; wait",
      {}, {"PLACE=here"});
  ASSERT_TRUE(group) << group.error().message;
  for (int i = 0; i < 1000 && !fs::exists(file); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  pid_t sleeper = 0;
  std::string place;
  std::ifstream(file) >> sleeper >> place;
  ASSERT_GT(sleeper, 1);
  EXPECT_EQ(place, "here");
  EXPECT_EQ(getpgid(sleeper), *group);
  kill(-*group, SIGKILL);
  EXPECT_EQ(waitpid(*group, nullptr, 0), *group);
  // Its new parent reaps it at some time; it runs no more.
  const auto runs = [&] {
    std::ifstream stat("/proc/" + std::to_string(sleeper) + "/stat");
    std::string pid;
    std::string name;
    std::string state;
    return static_cast<bool>(stat >> pid >> name >> state) && state != "Z" && state != "X";
  };
  for (int i = 0; i < 1000 && runs(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_FALSE(runs());
  fs::remove(file);
}

TEST(StartCommand, TellsHowTheCommandEnded) {
  const auto group = start_command(find_worker_program(), "exit 7", {}, {});
  ASSERT_TRUE(group);
  int status = 0;
  EXPECT_EQ(waitpid(*group, &status, 0), *group);
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

}  // namespace
}  // namespace tangram::worker
