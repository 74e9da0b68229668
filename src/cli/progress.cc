#include "cli/progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/text_width.h"

namespace tangram::cli {
namespace {

using namespace std::chrono_literals;

constexpr auto kFirstAfter = 500ms;
constexpr auto kInterval = 100ms;
constexpr int kBarMax = 30;

// A bar of `width` columns, filled to eighths of a column.
std::string bar(double share, int width) {
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(share * width * 8);
  std::string text;
  for (int i = 0; i < eighths / 8; ++i) text += "█";
  text += kEighths[eighths % 8];
  return report::pad_right(text, width);
}

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
  // The line ends one column early: some terminals break when the last is used.
  out_ << "\r\x1b[K" << report::cut_to_width(line(elapsed_s), terminal_.width - 1) << std::flush;
  shown_ = true;
}

std::string Progress::line(double elapsed_s) const {
  if (options_.total == 0) return fmt::format("{}  {} done, {}", options_.label, done_, duration_text(elapsed_s));
  const double share = std::min(1.0, static_cast<double>(done_) / static_cast<double>(options_.total));
  const std::string left =
      share <= 0 ? "" : fmt::format("about {} left", duration_text(elapsed_s * (1 - share) / share));
  const int room = terminal_.width - report::display_width(options_.label) - 28;
  return fmt::format("{}  {} {:3.0f}%  {}", options_.label, bar(share, std::clamp(room, 0, kBarMax)), share * 100,
                     left);
}

void Progress::finish() {
  if (shown_) out_ << "\r\x1b[K" << std::flush;
  shown_ = false;
  options_.wanted = false;
}

}  // namespace tangram::cli
