// How many columns a text takes in a terminal, and padding, cutting and wrapping by columns.
//
// Bytes are not columns: "é" has two bytes and one column, "模" has three bytes and two columns, a combining accent has
// none. Tables that count bytes lose their alignment with the first such name. wcwidth() of the C library is not used,
// because it depends on the locale and this room reads no environment.

#include "report/text_width.h"

#include <algorithm>
#include <cstdint>

namespace tangram::report {
namespace {

struct Letter {
  char32_t code = 0;
  std::size_t bytes = 1;
};

// The code point that begins at `text[0]`. A byte that begins no valid sequence counts as one character by itself, so
// malformed text is shown somehow and never read beyond its end.
Letter first_letter(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  // 0xC0 and 0xC1 begin only overlong forms, and 0xF8 and above begin nothing in UTF-8.
  const std::size_t length = lead < 0x80                   ? 1
                             : lead >= 0xF0 && lead < 0xF8 ? 4
                             : lead >= 0xE0                ? 3
                             : lead >= 0xC2                ? 2
                                                           : 1;
  if (length == 1 || lead >= 0xF8 || text.size() < length) return {lead, 1};
  char32_t code = lead & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xC0U) != 0x80) return {lead, 1};
    code = (code << 6) | (next & 0x3FU);
  }
  return {code, length};
}

struct Range {
  char32_t first;
  char32_t last;
};

template <std::size_t N>
bool any_holds(const Range (&ranges)[N], char32_t code) {
  return std::ranges::any_of(ranges, [&](const Range& r) { return code >= r.first && code <= r.last; });
}

// The blocks that occur in names of models and people; the full tables of Unicode would be some hundred ranges.
constexpr Range kZero[] = {{0x0300, 0x036F}, {0x200B, 0x200F}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}};
constexpr Range kTwo[] = {{0x1100, 0x115F},   {0x2E80, 0x303E},   {0x3041, 0xA4CF},   {0xAC00, 0xD7A3},
                          {0xF900, 0xFAFF},   {0xFE30, 0xFE4F},   {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},
                          {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF}, {0x1F900, 0x1F9FF}, {0x20000, 0x3FFFD}};

int width_of(char32_t code) {
  // Control characters take no column.
  if (code < 0x20 || code == 0x7F || any_holds(kZero, code)) return 0;
  return any_holds(kTwo, code) ? 2 : 1;
}

std::string spaces(int count) { return std::string(static_cast<std::size_t>(std::max(0, count)), ' '); }

}  // namespace

int display_width(std::string_view text) {
  int width = 0;
  while (!text.empty()) {
    const Letter letter = first_letter(text);
    width += width_of(letter.code);
    text.remove_prefix(letter.bytes);
  }
  return width;
}

std::string cut_to_width(std::string_view text, int columns) {
  if (display_width(text) <= columns) return std::string(text);
  if (columns <= 0) return "";
  std::size_t bytes = 0;
  for (int width = 0; bytes < text.size();) {
    const Letter letter = first_letter(text.substr(bytes));
    width += width_of(letter.code);
    // One column is kept for the ellipsis. A wide character that would not fit ends the text one column earlier.
    if (width > columns - 1) break;
    bytes += letter.bytes;
  }
  return std::string(text.substr(0, bytes)) + "…";
}

std::string pad_right(std::string_view text, int columns) {
  return std::string(text) + spaces(columns - display_width(text));
}

std::string pad_left(std::string_view text, int columns) {
  return spaces(columns - display_width(text)) + std::string(text);
}

std::string wrap(std::string_view text, int columns, int indent) {
  std::string result;
  int used = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    const int width = display_width(word);
    // A word that is wider than the line gets a line of its own and is not broken: it may be a path or a command.
    if (used > 0 && used + 1 + width > columns) {
      result += "\n" + spaces(indent);
      used = indent;
    } else if (used > 0) {
      result += ' ';
      ++used;
    }
    result += word;
    used += width;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

}  // namespace tangram::report
