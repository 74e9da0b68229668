// Ctrl-C as a question instead of a death.
#pragma once

#include <csignal>

namespace tangram::cli {

// While one exists, the first SIGINT only makes interrupted() true, so that work can end in an orderly way. A second
// SIGINT ends the process as usual, for users who do not want to wait. At most one exists at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  bool interrupted() const;

 private:
  struct sigaction before_ {};
};

}  // namespace tangram::cli
