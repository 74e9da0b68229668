// Where the logs of tests go.
#pragma once

#include <fcntl.h>
#include <unistd.h>

namespace tangram::host::test {

// A member that stands before the log is closed after it: the log has a thread that may still write.
struct Nowhere {
  Nowhere() : descriptor(open("/dev/null", O_WRONLY)) {}
  ~Nowhere() { close(descriptor); }
  Nowhere(const Nowhere&) = delete;
  Nowhere& operator=(const Nowhere&) = delete;
  int descriptor;
};

}  // namespace tangram::host::test
