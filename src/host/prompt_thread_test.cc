#include "host/prompt_thread.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <thread>

namespace tangram::host {
namespace {

// The length of a turn, which is the fourth number of 64 bits in the kernel's structure.
std::uint64_t turn_of_this_thread() {
  std::array<std::uint64_t, 6> attributes{};
  syscall(SYS_sched_getattr, 0, attributes.data(), sizeof attributes, 0);
  return attributes[3];
}

int nice_of_this_thread() { return getpriority(PRIO_PROCESS, static_cast<id_t>(gettid())); }

// A kernel without turns of threads leaves them as they are, which is the same for both threads then.
TEST(PromptThread, IsPromptAloneAndKeepsItsNiceValue) {
  std::thread([] {
    const std::uint64_t turn = turn_of_this_thread();
    const int nice = nice_of_this_thread();
    wake_promptly();
    EXPECT_EQ(prctl(PR_GET_TIMERSLACK), 1);
    EXPECT_EQ(nice_of_this_thread(), nice);
    EXPECT_LE(turn_of_this_thread(), turn);
    std::thread([&] { EXPECT_EQ(turn_of_this_thread(), turn); }).join();
  }).join();
}

TEST(PromptThread, GivesWayByItsNiceValueAndLongTurns) {
  std::thread([] {
    const std::uint64_t turn = turn_of_this_thread();
    const int nice = nice_of_this_thread();
    give_way(nice + 3);
    EXPECT_EQ(nice_of_this_thread(), std::min(nice + 3, 19));
    EXPECT_GE(turn_of_this_thread(), turn);
    // A value that is lower changes nothing.
    give_way(nice);
    EXPECT_EQ(nice_of_this_thread(), std::min(nice + 3, 19));
  }).join();
}

}  // namespace
}  // namespace tangram::host
