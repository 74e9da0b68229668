// JSON through nlohmann's events, with places of our own.
//
// The parser does not say where a value begins. It reports values in the order of the text, so a cursor that steps over
// the same tokens finds out: only blanks, commas and colons lie between two of them. For `{"a": 1}` the events are
// start_object, key, number, end_object, and the cursor's tokens are `{`, `"a"`, `1` and `}`.

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "formats/detail/tree_builder.h"
#include "formats/detail/utf8.h"
#include "formats/document.h"

namespace tangram::formats {
namespace {

// Requires that the parser has accepted each token before it is taken, so the cursor need not check the grammar.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}

  // Moves to the next token and returns its place.
  // At the end of the text, the place behind the last byte.
  Position seek() {
    while (offset_ < text_.size() && kBetween.find(text_[offset_]) != std::string_view::npos) step();
    return at_;
  }
  // The token itself; the cursor moves behind it.
  std::string_view take() {
    const std::size_t begin = offset_;
    const std::size_t end = begin + length();
    while (offset_ < end) step();
    return text_.substr(begin, end - begin);
  }

 private:
  static constexpr std::string_view kBetween = " \t\r\n,:";
  static constexpr std::string_view kBrackets = "{}[]";

  void step() {
    at_ = text_[offset_] == '\n' ? Position{at_.line + 1, 1} : Position{at_.line, at_.column + 1};
    ++offset_;
  }

  // The length of the token at the cursor: one bracket, one string with its quotes, or a run up to the next separator.
  std::size_t length() const {
    const std::string_view rest = text_.substr(offset_);
    if (rest.empty()) return 0;
    if (kBrackets.find(rest[0]) != std::string_view::npos) return 1;
    if (rest[0] == '"') return string_length(rest);
    return std::min(rest.find_first_of(" \t\r\n,:{}[]\""), rest.size());
  }

  // A backslash hides the next byte, so an escaped quote does not end the string.
  static std::size_t string_length(std::string_view rest) {
    std::size_t i = 1;
    while (i < rest.size() && rest[i] != '"') i += rest[i] == '\\' ? 2 : 1;
    return std::min(i + 1, rest.size());
  }

  std::string_view text_;
  std::size_t offset_ = 0;
  Position at_{1, 1};
};

// The names of the functions are nlohmann's.
class JsonHandler final : public nlohmann::json_sax<nlohmann::json> {
 public:
  JsonHandler(std::string_view text, Problems& problems)
      : text_(text), cursor_(text), problems_(problems), builder_(problems) {}

  bool null() override {
    Node node;
    node.at = cursor_.seek();
    cursor_.take();
    return guarded([&] { builder_.scalar(std::move(node)); });
  }
  bool boolean(bool) override { return plain(); }
  bool number_integer(number_integer_t) override { return plain(); }
  bool number_unsigned(number_unsigned_t) override { return plain(); }
  bool number_float(number_float_t, const string_t&) override { return plain(); }
  bool string(string_t& value) override {
    Node node = text_node(value);
    node.at = cursor_.seek();
    node.begin = {node.at.line, node.at.column + 1};
    // Without escapes, the value has the same bytes as the source, and a message can name a column inside it.
    node.literal = cursor_.take().substr(1).starts_with(value);
    return guarded([&] { builder_.scalar(std::move(node)); });
  }
  // Only the binary formats of the library produce this event, never JSON text.
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return begin(Node::Kind::map); }
  bool start_array(std::size_t) override { return begin(Node::Kind::sequence); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }
  // The library calls key() for every key before its value, which is the order that the builder needs.
  bool key(string_t& value) override {
    const Position at = cursor_.seek();
    cursor_.take();
    return guarded([&] { builder_.key(value, at); });
  }
  // The library counts the bytes it has read, so the offending byte is the one before.
  bool parse_error(std::size_t offset, const std::string&, const nlohmann::json::exception& exception) override {
    problems_.add(position_of(text_, offset == 0 ? 0 : std::min(offset - 1, text_.size())), reason(exception.what()));
    return false;
  }

  Node take() { return builder_.take(); }

 private:
  // Runs an action of the builder. A limit stops the parser by the return value false, after it has been reported here.
  template <typename Action>
  bool guarded(Action&& action) {
    try {
      action();
      return true;
    } catch (const DocumentStopped& stopped) {
      problems_.add(stopped.at, stopped.text);
      return false;
    }
  }

  // Numbers and booleans keep their text from the source: a number is converted once, by the field that knows its type,
  // and an integer above 2^53 loses nothing.
  bool plain() {
    const Position at = cursor_.seek();
    Node node = plain_node(std::string(cursor_.take()));
    node.at = node.begin = at;
    node.literal = true;
    return guarded([&] { builder_.scalar(std::move(node)); });
  }

  bool begin(Node::Kind kind) {
    const Position at = cursor_.seek();
    cursor_.take();
    return guarded([&] { builder_.begin(kind, at); });
  }

  // The closing bracket is a token as well; without taking it, the cursor would stay one token behind the parser.
  bool end() {
    cursor_.seek();
    cursor_.take();
    return guarded([&] { builder_.end(); });
  }

  // Cuts "[json.exception.parse_error.101] parse error at line 1, column 5: " off, because the problem has a place
  // already.
  static std::string reason(std::string_view what) {
    const std::size_t colon = what.find(": ");
    return "not valid JSON: " + std::string(colon == std::string_view::npos ? what : what.substr(colon + 2));
  }

  std::string_view text_;
  Cursor cursor_;
  Problems& problems_;
  TreeBuilder builder_;
};

}  // namespace

std::optional<Node> parse_json(const Source& source, Problems& problems) {
  if (source.text.size() > kDocumentBytesMax) {
    problems.add({}, fmt::format("the file is longer than {} bytes", kDocumentBytesMax));
    return std::nullopt;
  }
  const std::string_view text = without_byte_order_mark(source.text);
  if (const auto bad = first_bad_byte(text)) {
    problems.add(*bad, "not UTF-8 text");
    return std::nullopt;
  }
  if (text::trim(text).empty()) {
    problems.add({}, "the file is empty");
    return std::nullopt;
  }
  // The library would skip a second one, which the cursor takes for a part of the first token.
  if (without_byte_order_mark(text).size() != text.size()) {
    problems.add({}, "not valid JSON: two byte order marks");
    return std::nullopt;
  }
  // sax_parse reports a syntax error through the handler; the catch is for exceptions of the library itself.
  JsonHandler handler(text, problems);
  try {
    if (nlohmann::json::sax_parse(text, &handler)) return handler.take();
  } catch (const std::exception& exception) {
    problems.add({}, std::string("not valid JSON: ") + exception.what());
  }
  return std::nullopt;
}

namespace {

// Control characters and DEL are escaped; other bytes pass unchanged, since all text in a Node is UTF-8.
std::string quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\t': out += "\\t"; break;
      case '\r': out += "\\r"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          out += c;
        }
    }
  }
  return out + "\"";
}

// The node on one line. Unquoted scalars are numbers and booleans and are written as they are.
std::string inline_text(const Node& node) {
  std::string text;
  switch (node.kind) {
    case Node::Kind::null: return "null";
    case Node::Kind::scalar: return node.quoted ? quote(node.text) : node.text;
    case Node::Kind::sequence:
      for (const auto& item : node.items) text += (text.empty() ? "" : ", ") + inline_text(item);
      return "[" + text + "]";
    case Node::Kind::map:
      for (const auto& entry : node.entries) {
        text += (text.empty() ? "" : ", ") + quote(entry.key) + ": " + inline_text(entry.value);
      }
      return "{" + text + "}";
  }
  return text;
}

// An estimate of the length on one line, which stops once it exceeds the limit. The cost at each level is bounded by
// the limit, so writing a deep tree stays linear instead of measuring every subtree in full.
std::size_t length_up_to(const Node& node, std::size_t limit) {
  std::size_t length = node.text.size() + 2;
  for (std::size_t i = 0; i < node.items.size() && length <= limit; ++i)
    length += length_up_to(node.items[i], limit) + 2;
  for (std::size_t i = 0; i < node.entries.size() && length <= limit; ++i) {
    length += node.entries[i].key.size() + 6 + length_up_to(node.entries[i].value, limit);
  }
  return length;
}

// Maps and lists that fit on a line of 100 characters are written on one; anything longer gets a line for each part.
void write_node(const Node& node, std::size_t indent, std::string& out) {
  constexpr std::size_t kLineLength = 100;
  if (length_up_to(node, kLineLength) <= kLineLength - std::min(indent, kLineLength)) {
    out += inline_text(node);
    return;
  }
  const std::string margin(indent + 2, ' ');
  const bool map = node.kind == Node::Kind::map;
  if (!map && node.kind != Node::Kind::sequence) {
    out += inline_text(node);
    return;
  }
  const std::size_t size = map ? node.entries.size() : node.items.size();
  out += map ? "{\n" : "[\n";
  for (std::size_t i = 0; i < size; ++i) {
    out += margin;
    if (map) out += quote(node.entries[i].key) + ": ";
    write_node(map ? node.entries[i].value : node.items[i], indent + 2, out);
    out += i + 1 < size ? ",\n" : "\n";
  }
  out += std::string(indent, ' ') + (map ? "}" : "]");
}

}  // namespace

std::string to_json(const Node& node) {
  std::string out;
  write_node(node, 0, out);
  return out;
}

}  // namespace tangram::formats
