#include "cli/interrupt.h"

namespace tangram::cli {
namespace {

// All that a signal handler may touch.
volatile std::sig_atomic_t interrupts = 0;

void on_interrupt(int) { interrupts = 1; }

}  // namespace

InterruptGuard::InterruptGuard() {
  interrupts = 0;
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &before_);
}

InterruptGuard::~InterruptGuard() { sigaction(SIGINT, &before_, nullptr); }

bool InterruptGuard::interrupted() const { return interrupts != 0; }

}  // namespace tangram::cli
