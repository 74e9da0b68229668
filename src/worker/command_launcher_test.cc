#include "worker/command_launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "worker/command_server.h"
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

// Nobody listens on any of them. Chosen at random, two of a thousand would be the same.
TEST(FreePort, IsAnotherOneEachTime) {
  std::set<std::uint16_t> ports;
  for (int i = 0; i < 1000; ++i) ports.insert(*free_port());
  EXPECT_EQ(ports.size(), 1000U);
}

// A process whose new parent has not reaped it yet runs no more.
bool runs(pid_t process) {
  std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
  std::string pid;
  std::string name;
  std::string state;
  return static_cast<bool>(stat >> pid >> name >> state) && state != "Z" && state != "X";
}

// Asked to end, it takes its time, and says with which code. The launcher is in the same group and does not end it.
TEST(StartCommand, GivesACommandThatIsAskedToEndItsTime) {
  const std::string file = (fs::temp_directory_path() / ("tangram-asked-" + std::to_string(getpid()))).string();
  const auto group = start_command(find_worker_program(),
                                   "trap 'sleep 0.2; echo saved >> " + file + "; exit 3' TERM; echo ready > " + file +
                                       "; while :; do sleep 0.05; done",
                                   {}, {});
  ASSERT_TRUE(group) << group.error().message;
  const auto said = [&] {
    std::ifstream in(file);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  for (int i = 0; i < 1000 && said().empty(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ask_command_to_end(*group);
  int status = 0;
  EXPECT_EQ(waitpid(*group, &status, 0), *group);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 3) << status;
  EXPECT_EQ(said(), "ready\nsaved\n");
  fs::remove(file);
}

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
  for (int i = 0; i < 1000 && runs(sleeper); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_FALSE(runs(sleeper));
  fs::remove(file);
}

TEST(StartCommand, TellsHowTheCommandEnded) {
  const auto group = start_command(find_worker_program(), "exit 7", {}, {});
  ASSERT_TRUE(group);
  int status = 0;
  EXPECT_EQ(waitpid(*group, &status, 0), *group);
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

// A plain folder stands for the control group: what is written there is what the kernel would read.
TEST(StartCommand, JoinsItsControlGroupBeforeItStartsAnything) {
  const fs::path folder = fs::temp_directory_path() / ("tangram-group-" + std::to_string(getpid()));
  fs::create_directories(folder);
  std::ofstream(folder / "cgroup.procs").put('-');
  const auto test = "test \"$(cat " + (folder / "cgroup.procs").string() + ")\" = 0";
  for (const bool there : {true, false}) {
    const auto group = start_command(find_worker_program(), test, {}, {}, there ? folder.string() : "/nowhere");
    ASSERT_TRUE(group);
    int status = 0;
    EXPECT_EQ(waitpid(*group, &status, 0), *group);
    EXPECT_EQ(WEXITSTATUS(status), there ? 0 : 1);
  }
  fs::remove_all(folder);
}

// The shell ends and leaves a process behind, which would share the cores with the next server.
TEST(CommandServer, EndsWhatACommandThatEndedHasLeftBehind) {
  const fs::path file = fs::temp_directory_path() / ("tangram-left-" + std::to_string(getpid()));
  const auto server =
      CommandServer::start(find_worker_program(), "sleep 60 & echo $! > " + file.string() + "; exit 3", {}, 0, {});
  ASSERT_TRUE(server) << server.error().message;
  for (int i = 0; i < 1000 && !(*server)->ended(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ((*server)->ended(), "the command exited with code 3");
  pid_t sleeper = 0;
  std::ifstream(file) >> sleeper;
  ASSERT_GT(sleeper, 1);
  for (int i = 0; i < 1000 && runs(sleeper); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_FALSE(runs(sleeper));
  fs::remove(file);
}

}  // namespace
}  // namespace tangram::worker
