#include "host/descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace tangram::host {
namespace {

int open_something() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }

bool is_open(int descriptor) { return ::fcntl(descriptor, F_GETFD) >= 0; }

TEST(Descriptor, ClosesWhatItOwnsOnceItIsDestroyed) {
  int number = -1;
  {
    const Descriptor descriptor(open_something());
    number = descriptor.get();
    EXPECT_TRUE(is_open(number));
  }
  EXPECT_FALSE(is_open(number));
}

TEST(Descriptor, LeavesOneOwnerBehindAMove) {
  Descriptor first(open_something());
  const int number = first.get();
  Descriptor second(std::move(first));
  EXPECT_FALSE(first.open());
  EXPECT_EQ(second.get(), number);
  Descriptor third(open_something());
  const int replaced = third.get();
  third = std::move(second);
  EXPECT_FALSE(is_open(replaced));
  EXPECT_EQ(third.get(), number);
}

TEST(Descriptor, DoesNotCloseWhatItGaveAway) {
  int number = -1;
  {
    Descriptor descriptor(open_something());
    number = descriptor.release();
  }
  EXPECT_TRUE(is_open(number));
  ::close(number);
}

// Callers report errno after the descriptor of the failed call is gone.
TEST(Descriptor, KeepsErrnoWhenItCloses) {
  Descriptor descriptor(open_something());
  errno = ECONNREFUSED;
  descriptor.reset();
  EXPECT_EQ(errno, ECONNREFUSED);
}

}  // namespace
}  // namespace tangram::host
