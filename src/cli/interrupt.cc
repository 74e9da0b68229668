// SIGINT as a flag that work can ask for.

#include "cli/interrupt.h"

namespace tangram::cli {
namespace {

// The only kind of variable that a signal handler may write. It is global because a handler has no argument for an
// object.
volatile std::sig_atomic_t interrupts = 0;

void on_interrupt(int) { interrupts = 1; }

}  // namespace

InterruptGuard::InterruptGuard() {
  interrupts = 0;
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  // SA_RESETHAND restores the default after the first signal, so a second Ctrl-C ends a process that does not react.
  // SA_RESTART keeps reads and writes that are under way from failing with EINTR.
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &before_);
}

InterruptGuard::~InterruptGuard() { sigaction(SIGINT, &before_, nullptr); }

bool InterruptGuard::interrupted() const { return interrupts != 0; }

}  // namespace tangram::cli
