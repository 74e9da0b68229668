#include "worker/confine.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>

namespace tangram::worker {
namespace {

// Runs `check` in a child that has confined itself. Returns its exit code: 0 means that the check held.
int confined(const std::function<bool()>& check) {
  const pid_t child = fork();
  if (child == 0) _exit(confine(std::nullopt) ? 2 : check() ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Confine, TakesEveryMeasureButTheUser) {
  EXPECT_EQ(confined([] {
              for (const auto& measure : measures_in_force()) {
                if (!measure.in_force && measure.name != "own_user") return false;
              }
              return measures_in_force().size() == 5;
            }),
            0);
}

TEST(Confine, LeavesTheWorkerItsSocketsAndNoOthers) {
  EXPECT_EQ(confined([] { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0; }), 0);
  EXPECT_EQ(confined([] { return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) < 0 && errno == EPERM; }), 0);
  EXPECT_EQ(confined([] { return socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0) < 0 && errno == EPERM; }), 0);
}

// Threads, files and programs still work; changing the root folder needs a capability, or is filtered.
TEST(Confine, LeavesWhatEnginesNeed) {
  EXPECT_EQ(confined([] {
              const pid_t child = fork();
              if (child == 0) _exit(0);
              int status = 1;
              return waitpid(child, &status, 0) == child && status == 0 && access("/proc/self/exe", R_OK) == 0;
            }),
            0);
  EXPECT_EQ(confined([] { return chroot("/") != 0 && errno == EPERM; }), 0);
}

TEST(Confine, BecomesAnotherUserOrSaysWhyNot) {
  const pid_t child = fork();
  if (child == 0) {
    const auto wrong = confine(WorkerUser{65534, 65534});
    const bool other = getuid() == 65534 && geteuid() == 65534 && getgid() == 65534 && setuid(0) != 0;
    _exit(wrong ? 3 : other ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), geteuid() == 0 ? 0 : 3);
}

TEST(Confine, HandsNoSecretsOn) {
  for (const char* kept : {"PATH=/bin", "LC_ALL=C", "CUDA_VISIBLE_DEVICES=MIG-1", "OMP_NUM_THREADS=2",
                           "TANGRAM_ONNXRUNTIME=/x", "LD_LIBRARY_PATH=/y"}) {
    EXPECT_TRUE(worker_may_have(kept)) << kept;
  }
  for (const char* secret :
       {"AWS_SECRET_ACCESS_KEY=x", "TANGRAM_TOKEN=x", "PGPASSWORD=x", "PATHS=x", "SSH_AUTH_SOCK=x"}) {
    EXPECT_FALSE(worker_may_have(secret)) << secret;
  }
}

}  // namespace
}  // namespace tangram::worker
