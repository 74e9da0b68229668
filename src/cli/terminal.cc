#include "cli/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

#include "base/text.h"

namespace tangram::cli {
namespace {

constexpr int kWidthMin = 20;
constexpr int kWidthMax = 1000;

int usable_width(long columns) {
  if (columns < kWidthMin) return kWidthDefault;
  return columns > kWidthMax ? kWidthMax : static_cast<int>(columns);
}

int width_of(int file_descriptor) {
  winsize size{};
  if (ioctl(file_descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return usable_width(size.ws_col);
  if (const char* columns = std::getenv("COLUMNS")) return usable_width(text::parse_integer(columns).value_or(0));
  return kWidthDefault;
}

bool colour_wanted() {
  const char* no_color = std::getenv("NO_COLOR");
  if (no_color != nullptr && *no_color != '\0') return false;
  const char* term = std::getenv("TERM");
  return term != nullptr && std::string_view(term) != "dumb";
}

std::string_view code_of(Style style) {
  switch (style) {
    case Style::plain: return "";
    case Style::bold: return "1";
    case Style::dim: return "2";
    case Style::good: return "32";
    case Style::bad: return "31";
    case Style::accent: return "36";
  }
  return "";
}

}  // namespace

Terminal inspect_terminal(int file_descriptor) {
  Terminal terminal;
  terminal.interactive = isatty(file_descriptor) == 1;
  terminal.colour = terminal.interactive && colour_wanted();
  if (terminal.interactive) terminal.width = width_of(file_descriptor);
  return terminal;
}

std::string paint(const Terminal& terminal, Style style, std::string_view text) {
  if (!terminal.colour || style == Style::plain || text.empty()) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", code_of(style), text);
}

std::string paint_tile(const Terminal& terminal, int background, bool dark_text, std::string_view text) {
  if (!terminal.colour) return std::string(text);
  return fmt::format("\x1b[38;5;{};48;5;{}m{}\x1b[0m", dark_text ? 16 : 231, background, text);
}

}  // namespace tangram::cli
