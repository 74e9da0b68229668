#include "host/prompt_thread.h"

#include <gtest/gtest.h>
#include <linux/sched.h>
#include <linux/sched/types.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <thread>

namespace tangram::host {
namespace {

sched_attr attributes_of_this_thread() {
  sched_attr attributes{};
  syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0);
  return attributes;
}

// A kernel without turns of threads leaves them as they are, which is the same for both threads then.
TEST(PromptThread, IsPromptAloneAndKeepsItsNiceValue) {
  std::thread([] {
    const auto before = attributes_of_this_thread();
    wake_promptly();
    EXPECT_EQ(prctl(PR_GET_TIMERSLACK), 1);
    const auto after = attributes_of_this_thread();
    EXPECT_EQ(after.sched_nice, before.sched_nice);
    EXPECT_EQ(after.sched_policy, before.sched_policy);
    EXPECT_LE(after.sched_runtime, before.sched_runtime);
    std::thread([&] { EXPECT_EQ(attributes_of_this_thread().sched_runtime, before.sched_runtime); }).join();
  }).join();
}

}  // namespace
}  // namespace tangram::host
