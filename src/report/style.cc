#include "report/style.h"

#include <fmt/format.h>

#include "report/colours.h"

namespace tangram::report {
// Plain and empty texts get no escape sequences, which would only lengthen the output.
std::string paint(const Terminal& terminal, Style style, std::string_view text) {
  if (!terminal.colour || style == Style::plain || text.empty()) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", ansi_code(style), text);
}

std::string paint_tile(const Terminal& terminal, int background, bool dark_text, std::string_view text) {
  if (!terminal.colour) return std::string(text);
  // 16 and 231 are black and white of the 256-colour palette, which themes do not redefine, unlike colours 0 to 15.
  return fmt::format("\x1b[38;5;{};48;5;{}m{}\x1b[0m", dark_text ? 16 : 231, background, text);
}

}  // namespace tangram::report
