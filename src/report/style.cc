#include "report/style.h"

#include <fmt/format.h>

namespace tangram::report {
namespace {

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

std::string paint(const Terminal& terminal, Style style, std::string_view text) {
  if (!terminal.colour || style == Style::plain || text.empty()) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", code_of(style), text);
}

std::string paint_tile(const Terminal& terminal, int background, bool dark_text, std::string_view text) {
  if (!terminal.colour) return std::string(text);
  return fmt::format("\x1b[38;5;{};48;5;{}m{}\x1b[0m", dark_text ? 16 : 231, background, text);
}

}  // namespace tangram::report
