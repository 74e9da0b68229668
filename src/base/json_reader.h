// JSON read in one pass, without a tree.
//
// An inference request may hold a million numbers; a tree of them costs more than the inference. The caller says what
// it expects and is called for each part. Strict: no comments, no trailing commas, no NaN unless allowed; strings must
// be UTF-8.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

namespace tangram {

class JsonReader {
 public:
  static constexpr int kDepthMax = 64;

  explicit JsonReader(std::string_view text) : text_(text) {}
  // NaN, Infinity and -Infinity are numbers from now on, as Python writes them.
  void allow_non_finite() { non_finite_ = true; }

  // After the first problem every call returns false.
  bool ok() const { return problem_.empty(); }
  // "expected a string at byte 17"
  std::string problem() const;
  // Reports a problem of the caller's own at the present place. Returns false, for `return fail(...)`.
  bool fail(std::string_view problem);

  // The first letter of the next value: { [ " t f n, or 0 for a number, or '\0' at the end.
  char peek();
  // Calls `each(key)` for every member; it must consume the value and returns false to give up.
  template <typename Each>
  bool object(Each&& each);
  // Calls `each()` for every element; it must consume it.
  template <typename Each>
  bool array(Each&& each);
  bool string(std::string& value);
  bool boolean(bool& value);
  bool null();
  bool number(double& value);
  // Whole numbers without point or exponent.
  template <typename Integer>
  bool integer(Integer& value);
  // Consumes a value of any kind.
  bool skip();
  // Only white space is left.
  bool end();
  // What has not been consumed.
  std::string_view rest() const { return text_.substr(at_); }

 private:
  void skip_space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) {
      ++at_;
    }
  }
  // Skips white space and consumes `c` if it is next.
  bool take(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool expect(char c, const char* what) { return take(c) || fail(what); }
  // Skips white space and consumes `word` if it is next.
  bool word(std::string_view word);
  // Consumes NaN, Infinity or -Infinity if it is next. Requires ok().
  bool take_non_finite(double& value);
  // The characters of the next number, checked against the grammar; empty after a problem.
  std::string_view number_text(bool* whole);
  // Each requires at_ just behind the backslash or the 'u'. False after a problem.
  bool escape(std::string& value);
  bool code_point(std::uint32_t& unit);

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool non_finite_ = false;
  std::string problem_;
};

template <typename Each>
bool JsonReader::object(Each&& each) {
  if (!expect('{', "expected an object")) return false;
  if (++depth_ > kDepthMax) return fail("nested too deeply");
  if (!take('}')) {
    do {
      std::string key;
      if (!string(key) || !expect(':', "expected a colon")) return false;
      if (!each(std::string_view(key)) || !ok()) return ok() && fail("unexpected value");
    } while (take(','));
    if (!expect('}', "expected , or }")) return false;
  }
  --depth_;
  return ok();
}

template <typename Each>
bool JsonReader::array(Each&& each) {
  if (!expect('[', "expected an array")) return false;
  if (++depth_ > kDepthMax) return fail("nested too deeply");
  if (!take(']')) {
    do {
      if (!each() || !ok()) return ok() && fail("unexpected value");
    } while (take(','));
    if (!expect(']', "expected , or ]")) return false;
  }
  --depth_;
  return ok();
}

template <typename Integer>
bool JsonReader::integer(Integer& value) {
  bool whole = true;
  const std::string_view text = number_text(&whole);
  if (text.empty()) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (!whole || error != std::errc{} || end != text.data() + text.size()) {
    return fail("expected a whole number in the range of its type");
  }
  return true;
}

// Whether a JSON string may hold it.
bool is_utf8(std::string_view text);

// Appends `text` with quotes, escaped as JSON needs it.
void append_json_string(std::string& out, std::string_view text);
// Appends the shortest text that reads back as the same number. Numbers that JSON does not have become null.
void append_json_number(std::string& out, double value);
void append_json_number(std::string& out, float value);
void append_json_number(std::string& out, std::int64_t value);
void append_json_number(std::string& out, std::uint64_t value);

}  // namespace tangram
