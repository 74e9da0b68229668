#include "host/prompt_thread.h"

#include <linux/sched.h>
#include <linux/sched/types.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tangram::host {
namespace {

constexpr unsigned long long kTurnNs = 100'000;  // The shortest that the kernel takes.

}  // namespace

void wake_promptly() {
  prctl(PR_SET_TIMERSLACK, 1);
  sched_attr attributes{};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  // Real-time threads have no turns. A negative nice value would be lost to those that this thread starts.
  if (attributes.sched_policy != SCHED_NORMAL || attributes.sched_nice < 0) return;
  attributes.size = sizeof attributes;
  attributes.sched_flags |= SCHED_FLAG_RESET_ON_FORK;
  attributes.sched_runtime = kTurnNs;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace tangram::host
