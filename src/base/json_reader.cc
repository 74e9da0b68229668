// A pull parser for JSON (RFC 8259) that checks the grammar while it moves one index over the text.
//
// Invariant: after the first problem ok() is false for ever and problem_ keeps the first message, so a caller may chain
// calls and look at the result once. Objects and arrays nest at most kDepthMax deep, which also bounds the recursion.

#include "base/json_reader.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace tangram {
namespace {

// Appends the UTF-8 form of a code point.
void append_code_point(std::string& out, std::uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xc0 | (code >> 6));
    out += static_cast<char>(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xe0 | (code >> 12));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3f));
    out += static_cast<char>(0x80 | (code & 0x3f));
  } else {
    out += static_cast<char>(0xf0 | (code >> 18));
    out += static_cast<char>(0x80 | ((code >> 12) & 0x3f));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3f));
    out += static_cast<char>(0x80 | (code & 0x3f));
  }
}

// The length of the UTF-8 sequence at the beginning of `text`, or 0 if it is not well-formed (RFC 3629 section 4).
// Requires a non-empty text. 0xc0 and 0xc1 could only begin overlong forms, and 0xf5 lies beyond the last code point.
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  const std::size_t length = first < 0x80                    ? 1
                             : first >= 0xc2 && first < 0xe0 ? 2
                             : first >= 0xe0 && first < 0xf0 ? 3
                             : first >= 0xf0 && first < 0xf5 ? 4
                                                             : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates (0xed 0xa0 and above), and code points beyond 0x10ffff. Filters that compare bytes would
  // miss a forbidden character in an overlong form.
  if (length == 3 && ((first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) >= 0xa0))) return 0;
  if (length == 4 && ((first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) >= 0x90))) return 0;
  return length;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// to_chars writes the shortest form that reads back as the same number: at most 24 characters for a double.
template <typename Number>
void append_number(std::string& out, Number value) {
  char buffer[40];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  out.append(buffer, result.ptr);
}

}  // namespace

std::string JsonReader::problem() const { return problem_; }

bool JsonReader::fail(std::string_view problem) {
  // The first problem is the cause; later ones follow from it.
  if (ok()) problem_ = fmt::format("{} at byte {}", problem, at_);
  return false;
}

char JsonReader::peek() {
  skip_space();
  if (at_ >= text_.size()) return '\0';
  const char c = text_[at_];
  // All numbers answer '0', so that a caller can switch on one character.
  const bool special = non_finite_ && (c == 'N' || c == 'I');
  return c == '-' || is_digit(c) || special ? '0' : c;
}

// A longer word, such as "nullx", is found by the next call, which expects a comma or an end.
bool JsonReader::word(std::string_view word) {
  skip_space();
  if (!text_.substr(at_).starts_with(word)) return false;
  at_ += word.size();
  return true;
}

bool JsonReader::boolean(bool& value) {
  if (!ok()) return false;
  value = word("true");
  return value || word("false") || fail("expected true or false");
}

bool JsonReader::null() { return ok() && (word("null") || fail("expected null")); }

// Follows the grammar of RFC 8259 section 6 itself, because from_chars also accepts "inf", "nan", "1." and leading
// zeros. On failure the index goes back, so the message names the byte where the number was expected.
std::string_view JsonReader::number_text(bool* whole) {
  if (!ok()) return {};
  skip_space();
  const std::size_t begin = at_;
  const auto digits = [&] {
    const std::size_t first = at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    return at_ - first;
  };
  const auto next = [&](std::string_view any) {
    if (at_ >= text_.size() || any.find(text_[at_]) == std::string_view::npos) return false;
    ++at_;
    return true;
  };
  next("-");
  // "0" and "0.5" are numbers; "012" is not.
  const bool zero = at_ < text_.size() && text_[at_] == '0';
  const std::size_t count = digits();
  bool good = count > 0 && (!zero || count == 1);
  *whole = true;
  if (good && next(".")) {
    *whole = false;
    good = digits() > 0;
  }
  if (good && next("eE")) {
    *whole = false;
    next("+-");
    good = digits() > 0;
  }
  if (good) return text_.substr(begin, at_ - begin);
  at_ = begin;
  fail("expected a number");
  return {};
}

// Looks at one or two letters first: nearly all numbers are ordinary ones.
bool JsonReader::take_non_finite(double& value) {
  const char first = peek();
  if (first != '0' || is_digit(text_[at_])) return false;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (word("NaN")) {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (word("Infinity")) {
    value = kInfinity;
  } else if (word("-Infinity")) {
    value = -kInfinity;
  } else {
    return false;
  }
  return true;
}

bool JsonReader::number(double& value) {
  if (non_finite_ && ok() && take_non_finite(value)) return true;
  bool whole = true;
  const std::string_view text = number_text(&whole);
  if (text.empty()) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // from_chars reports underflow and overflow alike. A number too small for a double reads as zero, one too large is an
  // error; the sign of the exponent tells them apart.
  if (error == std::errc::result_out_of_range) {
    const auto exponent = text.find_first_of("eE");
    const bool tiny = exponent != std::string_view::npos && text[exponent + 1] == '-';
    if (!tiny) return fail("number out of range");
    value = 0;
  }
  return true;
}

// Reads the four hexadecimal digits of a \u escape: one UTF-16 unit, which may be half of a pair.
bool JsonReader::code_point(std::uint32_t& unit) {
  if (text_.size() - at_ < 4) return fail("invalid escape");
  const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + at_ + 4, unit, 16);
  if (error != std::errc{} || end != text_.data() + at_ + 4) return fail("invalid escape");
  at_ += 4;
  return true;
}

// Reads what follows a backslash and appends the character as UTF-8. Code points above 0xffff come as two escapes, a
// high and a low surrogate; a lone half has no UTF-8 form and is refused.
bool JsonReader::escape(std::string& value) {
  if (at_ >= text_.size()) return fail("invalid escape");
  const char c = text_[at_++];
  switch (c) {
    case '"':
    case '\\':
    case '/': value += c; return true;
    case 'b': value += '\b'; return true;
    case 'f': value += '\f'; return true;
    case 'n': value += '\n'; return true;
    case 'r': value += '\r'; return true;
    case 't': value += '\t'; return true;
    case 'u': break;
    default: return fail("unknown escape");
  }
  std::uint32_t code = 0;
  if (!code_point(code)) return false;
  // A low surrogate without the high one before it.
  if (code >= 0xdc00 && code < 0xe000) return fail("half of a surrogate pair");
  if (code >= 0xd800 && code < 0xdc00) {
    std::uint32_t low = 0;
    if (!text_.substr(at_).starts_with("\\u")) return fail("half of a surrogate pair");
    at_ += 2;
    if (!code_point(low)) return false;
    if (low < 0xdc00 || low >= 0xe000) return fail("half of a surrogate pair");
    // Ten bits from each half (Unicode 15, section 3.9, UTF-16).
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }
  append_code_point(value, code);
  return true;
}

// Replaces `value`. Control characters must be escaped (RFC 8259 section 7).
bool JsonReader::string(std::string& value) {
  if (!ok() || !expect('"', "expected a string")) return false;
  value.clear();
  while (at_ < text_.size()) {
    const char c = text_[at_];
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"') {
      ++at_;
      return true;
    }
    if (c == '\\') {
      ++at_;
      if (!escape(value)) return false;
    } else if (byte < 0x20) {
      return fail("control character in a string");
      // The common case, without a call. Everything above it is checked, so `value` is always well-formed UTF-8.
    } else if (byte < 0x80) {
      value += c;
      ++at_;
    } else {
      const std::size_t length = sequence_length(text_.substr(at_));
      if (length == 0) return fail("not UTF-8");
      value.append(text_.substr(at_, length));
      at_ += length;
    }
  }
  return fail("string is not closed");
}

// Checks the skipped value in full, so a request with a broken part is refused even if the part is not used.
bool JsonReader::skip() {
  std::string text;
  bool truth = false;
  double number_value = 0;
  switch (peek()) {
    case '{': return object([this](std::string_view) { return skip(); });
    case '[': return array([this] { return skip(); });
    case '"': return string(text);
    case 't':
    case 'f': return boolean(truth);
    case 'n': return null();
    case '0': return number(number_value);
    default: return fail("expected a value");
  }
}

// A second value behind the first would be ignored by some readers and used by others, so it is refused.
bool JsonReader::end() {
  skip_space();
  return ok() && (at_ == text_.size() || fail("unexpected text after the end"));
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = static_cast<unsigned char>(text[0]) < 0x80 ? 1 : sequence_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

// Escapes only what RFC 8259 section 7 demands. Bytes above 127 pass unchanged, so `text` must be UTF-8.
void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", byte);
    } else {
      out += c;
    }
  }
  out += '"';
}

// JSON has no infinity and no NaN.
void append_json_number(std::string& out, double value) {
  if (std::isfinite(value)) {
    append_number(out, value);
  } else {
    out += "null";
  }
}
// A float has its own overload, because as a double 0.1f would be written as 0.10000000149011612.
void append_json_number(std::string& out, float value) {
  if (std::isfinite(value)) {
    append_number(out, value);
  } else {
    out += "null";
  }
}
void append_json_number(std::string& out, std::int64_t value) { append_number(out, value); }
void append_json_number(std::string& out, std::uint64_t value) { append_number(out, value); }

}  // namespace tangram
