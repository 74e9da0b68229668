// A progress bar on one line of the terminal.

#include "cli/progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/text_width.h"

namespace tangram::cli {
namespace {

using namespace std::chrono_literals;

// Work that ends within half a second shows no bar, which would only flicker.
constexpr auto kFirstAfter = 500ms;
// Faster updates cannot be read and would cost time in tight loops.
constexpr auto kInterval = 100ms;
constexpr int kBarMax = 30;

// A bar of `width` columns, filled in steps of an eighth of a column, so that slow progress is visible.
std::string bar(double share, int width) {
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(share * width * 8);
  std::string text;
  for (int i = 0; i < eighths / 8; ++i) text += "█";
  text += kEighths[eighths % 8];
  return report::pad_right(text, width);
}

// One unit only: an estimate of the time left is not exact to the second.
std::string duration_text(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", std::max(1.0, seconds));
  if (seconds < 5400) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

}  // namespace

Progress::Progress(std::ostream& out, const Terminal& terminal, Options options, Now now)
    : out_(out), terminal_(terminal), options_(std::move(options)), now_(std::move(now)) {
  begin_ = now_();
  next_ = begin_ + kFirstAfter;
}

// Cheap unless it draws: one look at the clock, and none where no person watches.
void Progress::set(std::uint64_t done) {
  done_ = std::max(done_, done);
  if (!options_.wanted || !terminal_.interactive) return;
  const auto now = now_();
  if (now < next_) return;
  draw(now);
  next_ = now + kInterval;
}

void Progress::draw(Clock::time_point now) {
  const double elapsed_s = std::chrono::duration<double>(now - begin_).count();
  // The line ends one column early: some terminals wrap when the last column is used, and the next redraw would then
  // start on another line.
  out_ << "\r\x1b[K" << report::cut_to_width(line(elapsed_s), terminal_.width - 1) << std::flush;
  shown_ = true;
}

std::string Progress::line(double elapsed_s) const {
  if (options_.total == 0) return fmt::format("{}  {} done, {}", options_.label, done_, duration_text(elapsed_s));
  const double share = std::min(1.0, static_cast<double>(done_) / static_cast<double>(options_.total));
  // Assumes that the rest goes as fast as the work so far.
  const std::string left =
      share <= 0 ? "" : fmt::format("about {} left", duration_text(elapsed_s * (1 - share) / share));
  // 28 columns are for the percentage, the time left and the gaps.
  const int room = terminal_.width - report::display_width(options_.label) - 28;
  return fmt::format("{}  {} {:3.0f}%  {}", options_.label, bar(share, std::clamp(room, 0, kBarMax)), share * 100,
                     left);
}

// Also stops later calls from drawing, so that nothing appears after the result.
void Progress::finish() {
  if (shown_) out_ << "\r\x1b[K" << std::flush;
  shown_ = false;
  options_.wanted = false;
}

}  // namespace tangram::cli
