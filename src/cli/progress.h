// A bar for work that takes longer than a person likes to wait in the dark.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>

#include "cli/terminal.h"

namespace tangram::cli {

// One line on standard error that is rewritten in place and removed at the end:
//
//   simulating  ███████████▌            48%  about 12 s left
//
// Nothing is shown where no person watches, nor during the first half second; later at most ten times a second,
// so it may be told of every event.
class Progress {
 public:
  using Clock = std::chrono::steady_clock;
  using Now = std::function<Clock::time_point()>;

  // `total` is in any unit of work; zero means unknown, and the bar shows only what was done. A bar that is
  // not `wanted` (--quiet) shows nothing.
  struct Options {
    std::string label;
    std::uint64_t total = 0;
    bool wanted = true;
  };
  Progress(std::ostream& out, const Terminal& terminal, Options options, Now now = Clock::now);
  ~Progress() { finish(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void advance(std::uint64_t amount = 1) { set(done_ + amount); }
  // The work done so far, which never goes back.
  void set(std::uint64_t done);
  // The text before the bar from now on. It appears at the next redraw.
  void label(std::string text) { options_.label = std::move(text); }
  // Removes the bar. The destructor does so too.
  void finish();

 private:
  // Requires an interactive terminal. Ensures that finish() removes what is drawn here.
  void draw(Clock::time_point now);
  // The text of the bar, not yet cut to the width of the terminal.
  std::string line(double elapsed_s) const;

  std::ostream& out_;
  Terminal terminal_;
  Options options_;
  Now now_;
  Clock::time_point begin_;
  Clock::time_point next_;
  std::uint64_t done_ = 0;
  bool shown_ = false;
};

}  // namespace tangram::cli
