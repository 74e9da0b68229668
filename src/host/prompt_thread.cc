#include "host/prompt_thread.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace tangram::host {
namespace {

// The kernel's sched_attr in its first version. The kernel's own header cannot be included beside the C library's.
struct Attributes {
  std::uint32_t size;
  std::uint32_t policy;
  std::uint64_t flags;
  std::int32_t nice;
  std::uint32_t priority;
  std::uint64_t runtime_ns;  // The length of a turn.
  std::uint64_t deadline_ns;
  std::uint64_t period_ns;
};
static_assert(sizeof(Attributes) == 48);

constexpr std::uint64_t kResetOnFork = 1;
constexpr std::uint64_t kTurnNs = 100'000;          // The shortest that the kernel takes.
constexpr std::uint64_t kLongTurnNs = 100'000'000;  // The longest.

// False: the kernel has no such attributes, or the thread is of another kind than threads usually are.
bool read_attributes(Attributes& attributes) {
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return false;
  attributes.size = sizeof attributes;
  return attributes.policy == SCHED_OTHER;
}

}  // namespace

void wake_promptly() {
  prctl(PR_SET_TIMERSLACK, 1);
  Attributes attributes{};
  // Real-time threads have no turns. A negative nice value would be lost to those that this thread starts.
  if (!read_attributes(attributes) || attributes.nice < 0) return;
  attributes.flags |= kResetOnFork;
  attributes.runtime_ns = kTurnNs;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

void give_way(int nice) {
  Attributes attributes{};
  if (!read_attributes(attributes)) return;
  attributes.nice = std::max(attributes.nice, nice);
  attributes.runtime_ns = kLongTurnNs;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace tangram::host
