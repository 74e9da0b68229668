// Finds the bracket or quote that a YAML text never closes.
//
// yaml-cpp notices the mistake only where the text stops making sense, often many lines later. This scan is no parser:
// it knows comments, quotes and where a value can begin, which is enough to match brackets in files that people write.

#include "formats/detail/flow_brackets.h"

#include <algorithm>
#include <vector>

#include "formats/detail/utf8.h"

namespace tangram::formats {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

// The offset after the quote that closes the one at `offset`, or nullopt. Inside, a quote is doubled in single quotes
// and escaped in double quotes.
std::optional<std::size_t> end_of_quoted(std::string_view text, std::size_t offset) {
  const char quote = text[offset++];
  while (offset < text.size()) {
    const char c = text[offset];
    const bool escape = quote == '"' ? c == '\\' : c == '\'' && text.substr(offset).starts_with("''");
    offset += escape ? 2 : 1;
    if (!escape && c == quote) return offset;
  }
  return std::nullopt;
}

// Invariant: open_ holds the offsets of the brackets that are open at offset_, innermost last.
class BracketScan {
 public:
  explicit BracketScan(std::string_view text) : text_(text) {}

  std::optional<OpenBracket> run() {
    while (offset_ < text_.size()) {
      if (!step()) return std::nullopt;
    }
    if (open_.empty()) return std::nullopt;
    return OpenBracket{position_of(text_, open_.back()), text_[open_.back()]};
  }

 private:
  char at(std::size_t offset) const { return offset < text_.size() ? text_[offset] : '\n'; }

  // Consumes at least one byte. False if a closing bracket does not match the open one; the parser's message is better
  // then.
  bool step() {
    const char c = text_[offset_];
    // A '#' inside a word, as in a#b, begins no comment.
    if (c == '#' && (offset_ == 0 || is_blank(text_[offset_ - 1]))) {
      offset_ = std::min(text_.find('\n', offset_), text_.size());
    } else if ((c == '"' || c == '\'') && value_begins_) {
      skip_quoted();
    // Outside of brackets, a bracket inside a plain scalar is text: `note: see [1`.
    } else if ((c == '[' || c == '{') && (value_begins_ || !open_.empty())) {
      open_.push_back(offset_++);
      value_begins_ = true;
    } else if ((c == ']' || c == '}') && !open_.empty()) {
      if (text_[open_.back()] != (c == ']' ? '[' : '{')) return false;
      open_.pop_back();
      ++offset_;
      value_begins_ = false;
    } else {
      pass(c);
    }
    return true;
  }

  // A value can begin after a line end, after ": " and "- ", and inside brackets after a comma; blanks do not change
  // that.
  void pass(char c) {
    const bool indicator = (c == ':' || c == '-') && is_blank(at(offset_ + 1));
    const bool comma = c == ',' && !open_.empty();
    if (indicator || comma || (c == '\n' && open_.empty())) {
      value_begins_ = true;
    } else if (!is_blank(c)) {
      value_begins_ = false;
    }
    ++offset_;
  }

  void skip_quoted() {
    offset_ = end_of_quoted(text_, offset_).value_or(text_.size());
    value_begins_ = false;
  }

  std::string_view text_;
  std::size_t offset_ = 0;
  bool value_begins_ = true;
  std::vector<std::size_t> open_;  // The offset of each open bracket.
};

}  // namespace

std::optional<OpenBracket> unclosed_bracket(std::string_view text) { return BracketScan(text).run(); }

std::optional<OpenBracket> unclosed_quote(std::string_view text, std::size_t offset) {
  const auto at = [&] { return offset < text.size() ? text[offset] : '\0'; };
  // Anchors and tags come before the value that they belong to: `&name !!str "text"`.
  while (at() == '&' || at() == '!') {
    while (offset < text.size() && !is_blank(at())) ++offset;
    while (offset < text.size() && is_blank(at())) ++offset;
  }
  if ((at() != '"' && at() != '\'') || end_of_quoted(text, offset)) return std::nullopt;
  return OpenBracket{position_of(text, offset), at()};
}

}  // namespace tangram::formats
