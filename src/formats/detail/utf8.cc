// Checks that a text is UTF-8 before a parser sees it, so that messages can quote any part of it.

#include "formats/detail/utf8.h"

#include <algorithm>
#include <cstdint>

namespace tangram::formats {
namespace {

// The length of the well-formed character that `text` begins with, or zero (Unicode 15, table 3-7).
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<std::uint8_t>(text[i]) : std::uint8_t{0};
  };
  const auto follows = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  // A missing byte at the end reads as 0, which never continues a character, so a cut character is refused.
  const std::uint8_t first = byte(0);
  // A zero byte is valid UTF-8 but never text; C libraries would end the text there.
  if (first == 0) return 0;
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F)) return 0;
    return follows(1) && follows(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if ((first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) > 0x8F)) return 0;
    return follows(1) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::string_view without_byte_order_mark(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  return text;
}

std::optional<Position> first_bad_byte(std::string_view text) {
  std::size_t offset = 0;
  while (offset < text.size()) {
    const std::size_t length = character_length(text.substr(offset, 4));
    if (length == 0) return position_of(text, offset);
    offset += length;
  }
  return std::nullopt;
}

// Linear in the offset, so it serves messages only.
Position position_of(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const auto lines = std::ranges::count(before, '\n');
  const std::size_t line_begin = before.rfind('\n') + 1;  // npos + 1 is 0.
  return {static_cast<int>(lines) + 1, static_cast<int>(before.size() - line_begin) + 1};
}

}  // namespace tangram::formats
