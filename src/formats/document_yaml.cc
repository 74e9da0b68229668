// YAML in both directions: a tree from yaml-cpp's events, and text from a tree.
//
// Reading uses the events instead of YAML::Node, because they carry the place of every scalar and key, and because the
// limits of a document then apply while it grows. yaml-cpp's exceptions are caught in this file. Writing is our own: it
// quotes every text that a YAML 1.1 or 1.2 reader could take for something else, and puts short maps on one line.

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <sstream>
#include <unordered_map>

#include "base/text.h"
#include "formats/detail/flow_brackets.h"
#include "formats/detail/tree_builder.h"
#include "formats/detail/utf8.h"
#include "formats/document.h"

namespace tangram::formats {
namespace {

constexpr const char* kKeyIsNoWord = "a key must be a scalar, not a list or a map";

Position position_of(const YAML::Mark& mark) {
  return mark.is_null() ? Position{} : Position{mark.line + 1, mark.column + 1};
}

// yaml-cpp turns the escapes \N (next line, U+0085) and \_ (no-break space, U+00A0) into one bare byte each, which is not
// UTF-8. The source has been checked, so a byte that stands where a character must begin can only be one of these two.
std::string with_whole_characters(const std::string& value) {
  if (!first_bad_byte(value)) return value;
  std::string whole;
  for (std::size_t i = 0; i < value.size();) {
    const auto byte = static_cast<unsigned char>(value[i]);
    if (byte == 0x85 || byte == 0xA0) whole += '\xC2';
    const std::size_t length = byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
    whole.append(value, i, length);
    i += length;
  }
  return whole;
}

// Turns events into nodes. An alias becomes a copy of its anchor's tree and is charged for it, so that nine lines of
// aliases to aliases ("billion laughs") reach the limit of a document instead of filling the memory.
class YamlHandler final : public YAML::EventHandler {
 public:
  YamlHandler(std::string_view text, TreeBuilder& builder) : text_(text), builder_(builder) { index_lines(); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const Position at = position_of(mark);
    if (builder_.expects_key()) throw DocumentStopped{at, "a key is missing"};
    Node node;
    // For an empty value the parser reports the place of the next token; the place of the key is more useful in a
    // message.
    node.at = builder_.key_place().line != 0 ? builder_.key_place() : at;
    builder_.scalar(std::move(node));
    remember(anchor, at);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const Position at = position_of(mark);
    const auto named = anchors_.find(anchor);
    // An anchor is known only once its node is complete, so an unknown one means that the alias lies inside its own
    // anchor.
    if (named == anchors_.end()) throw DocumentStopped{at, "an alias refers to a node that contains it"};
    if (builder_.expects_key()) throw DocumentStopped{at, "an alias cannot be a key"};
    builder_.copy_of(named->second, at);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    const Position at = position_of(mark);
    refuse_open_quote(at);
    // yaml-cpp gives the tag "!" to quoted and block scalars and "?" to plain ones. `!!str` counts as quotes.
    const bool quoted = tag == "!" || tag == kTextTag;
    if (!quoted && tag != "?" && !tag.empty()) throw DocumentStopped{at, "tags such as " + tag + " are not supported"};
    if (builder_.expects_key()) {
      builder_.key(with_whole_characters(value), at);
      return;
    }
    Node node;
    node.kind = Node::Kind::scalar;
    node.at = at;
    node.text = with_whole_characters(value);
    node.quoted = quoted;
    find_in_source(node);
    // A block scalar (`>` or `|`) keeps its final line end, which the author did not mean as a part of the value.
    if (is_block(node)) node.text.erase(node.text.find_last_not_of('\n') + 1);
    builder_.scalar(std::move(node));
    remember(anchor, at);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    begin(Node::Kind::sequence, mark, anchor);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    begin(Node::Kind::map, mark, anchor);
  }
  void OnSequenceEnd() override { end(); }
  void OnMapEnd() override { end(); }

 private:
  static constexpr std::string_view kTextTag = "tag:yaml.org,2002:str";

  void begin(Node::Kind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    const Position at = position_of(mark);
    if (builder_.expects_key()) throw DocumentStopped{at, kKeyIsNoWord};
    builder_.begin(kind, at);
    open_anchors_.push_back({anchor, at});
  }

  // The merge comes before end(), while the map is still open, so that an anchored map is remembered with its merged
  // keys.
  void end() {
    const auto [anchor, at] = open_anchors_.back();
    open_anchors_.pop_back();
    builder_.merge("<<");
    builder_.end();
    remember(anchor, at);
  }

  // Charged when kept, not only when used: anchors inside anchors multiply the copies in anchors_.
  void remember(YAML::anchor_t anchor, Position at) {
    if (anchor == YAML::NullAnchor) return;
    builder_.charge(builder_.last(), at);
    anchors_[anchor] = builder_.last();
  }

  // Places come as line and column, and the text is needed by offset. One pass here makes each lookup constant.
  void index_lines() {
    line_begins_.push_back(0);
    for (std::size_t i = 0; i < text_.size(); ++i) {
      if (text_[i] == '\n') line_begins_.push_back(i + 1);
    }
  }

  // Where a node begins in the text, or its end if that is not known.
  std::size_t offset_of(const Node& node) const { return offset_of(node.at); }
  std::size_t offset_of(Position at) const {
    const auto line = static_cast<std::size_t>(at.line) - 1;
    if (at.line < 1 || line >= line_begins_.size()) return text_.size();
    return std::min(line_begins_[line] + static_cast<std::size_t>(at.column) - 1, text_.size());
  }

  // The parser lets the end of the text close a quote. After a forgotten quote, the rest of the file would become one
  // value.
  void refuse_open_quote(Position at) const {
    if (const auto open = unclosed_quote(text_, offset_of(at))) {
      throw DocumentStopped{open->at, fmt::format("not valid YAML: the {} here is never closed", open->bracket)};
    }
  }

  bool is_block(const Node& node) const {
    const std::size_t offset = offset_of(node);
    return node.quoted && offset < text_.size() && (text_[offset] == '>' || text_[offset] == '|');
  }

  // Marks a scalar whose bytes are in the source as they are. Escapes and folded lines change the text; a message about
  // a part of the value can name a column only where source and value agree.
  void find_in_source(Node& node) const {
    const std::size_t offset = offset_of(node);
    if (offset >= text_.size()) return;
    const std::size_t quote = text_[offset] == '"' || text_[offset] == '\'' ? 1 : 0;
    node.literal = text_.substr(offset + quote).starts_with(node.text);
    node.begin = {node.at.line, node.at.column + static_cast<int>(quote)};
  }

  struct OpenAnchor {
    YAML::anchor_t anchor;
    Position at;
  };

  std::string_view text_;
  TreeBuilder& builder_;
  std::vector<std::size_t> line_begins_;
  std::vector<OpenAnchor> open_anchors_;
  std::unordered_map<YAML::anchor_t, Node> anchors_;  // Looked up only, so its order decides nothing.
};

// True if the text begins a second document.
bool has_second_document(YAML::Parser& parser, YamlHandler& handler) { return parser.HandleNextDocument(handler); }

std::optional<Node> read_document(std::string_view text, Problems& problems) {
  std::istringstream stream{std::string(text)};
  YAML::Parser parser(stream);
  TreeBuilder builder(problems);
  YamlHandler handler(text, builder);
  // A file of comments only has no document and becomes null.
  if (!parser.HandleNextDocument(handler)) return Node{};
  Node root = builder.take();
  if (has_second_document(parser, handler)) problems.add(root.at, "the file has more than one document");
  return root;
}

// A bracket that is never closed makes the parser fail later, at a line that is correct; the message then names the
// bracket. A stop on purpose, such as a limit, keeps its own message and place.
void report(std::string_view text, const DocumentStopped& stopped, Problems& problems) {
  const bool exact = stopped.text.ends_with("is never closed");
  const bool stumbled = !exact && (stopped.text.starts_with("not valid YAML") || stopped.text == kKeyIsNoWord);
  const auto open = stumbled ? unclosed_bracket(text) : std::nullopt;
  if (!open) return problems.add(stopped.at, stopped.text);
  problems.add(open->at, fmt::format("not valid YAML: the {} here is never closed", open->bracket));
}

}  // namespace

std::optional<Node> parse_yaml(const Source& source, Problems& problems) {
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
  try {
    return read_document(text, problems);
  } catch (const DocumentStopped& stopped) {
    report(text, {stopped.at, stopped.text}, problems);
  } catch (const YAML::Exception& exception) {
    report(text, {position_of(exception.mark), "not valid YAML: " + exception.msg}, problems);
  } catch (const std::exception& exception) {
    problems.add({}, std::string("not valid YAML: ") + exception.what());
  }
  return std::nullopt;
}

namespace {

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

// True if every reader of YAML 1.1 and 1.2 takes this plain scalar for the same text. Conservative: quotes never hurt.
// Among what is quoted are 1e5, 0x1f, 12_000 and the date 2027-01-31, and the booleans of YAML 1.1 such as no and off.
bool safe_plain(const std::string& text) {
  constexpr std::string_view kSafe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./@+- ";
  constexpr std::string_view kLikeNumber = "0123456789abcdefABCDEFxXoO_.+-";
  if (text.empty() || text.find_first_not_of(kSafe) != std::string::npos) return false;
  const char first = text.front();
  const bool digit = first >= '0' && first <= '9';
  const bool letter = (first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z');
  if (!(digit || letter || first == '/' || first == '_') || text.back() == ' ') return false;
  if (digit && text.find_first_not_of(kLikeNumber) == std::string::npos) return false;
  return !is_one_of(text::lower(text), {"null", "true", "false", "yes", "no", "on", "off", "y", "n"});
}

std::string scalar_text(const Node& node) {
  if (node.kind == Node::Kind::null) return "null";
  // A JSON string is also a double-quoted scalar of YAML.
  if (node.quoted && !safe_plain(node.text)) return to_json(node);
  return node.text;
}

std::string key_text(const std::string& key) { return safe_plain(key) ? key : to_json(text_node(key)); }

// An empty map or list has no block form and is written as {} or [].
bool is_leaf(const Node& node) {
  return (node.kind != Node::Kind::map || node.entries.empty()) &&
         (node.kind != Node::Kind::sequence || node.items.empty());
}

// The node in flow style, on one line.
std::string flow_text(const Node& node) {
  std::string text;
  if (node.kind == Node::Kind::sequence) {
    for (const auto& item : node.items) text += (text.empty() ? "" : ", ") + flow_text(item);
    return "[" + text + "]";
  }
  if (node.kind != Node::Kind::map) return scalar_text(node);
  for (const auto& entry : node.entries) {
    text += (text.empty() ? "" : ", ") + key_text(entry.key) + ": " + flow_text(entry.value);
  }
  return "{" + text + "}";
}

// Maps and lists of plain values that fit on a line read better there: slo: {latency_ms: 50, percentile: 99}.
bool fits_line(const Node& node) {
  // Without the key and the indentation, which come on top.
  constexpr std::size_t kFlowLength = 80;
  for (const auto& item : node.items) {
    if (!is_leaf(item)) return false;
  }
  std::size_t nested = 0;
  for (const auto& entry : node.entries) {
    if (is_leaf(entry.value)) continue;
    // One nested map may share the line if it is alone: `traffic: {poisson: {rate_per_s: 10}}`.
    if (node.entries.size() > 1 || !fits_line(entry.value)) return false;
    ++nested;
  }
  return nested <= 1 && flow_text(node).size() <= kFlowLength;
}

void write_block(const Node& node, std::size_t indent, bool in_list, std::string& out);

void write_value(const Node& value, std::size_t indent, std::string& out) {
  if (is_leaf(value) || fits_line(value)) {
    out += " " + flow_text(value) + "\n";
    return;
  }
  out += "\n";
  write_block(value, indent + 2, false, out);
}

// With `in_list`, the first line continues the one that already holds "- ", so it gets no margin.
void write_block(const Node& node, std::size_t indent, bool in_list, std::string& out) {
  const std::string margin(indent, ' ');
  bool first = in_list;
  for (const auto& item : node.items) {
    out += (first ? "" : margin) + "-";
    first = false;
    if (is_leaf(item) || item.kind == Node::Kind::sequence) {
      out += " " + flow_text(item) + "\n";
    } else {
      out += " ";
      write_block(item, indent + 2, true, out);
    }
  }
  for (const auto& entry : node.entries) {
    out += (first ? "" : margin) + key_text(entry.key) + ":";
    first = false;
    write_value(entry.value, indent, out);
  }
}

}  // namespace

std::string to_yaml(const Node& node) {
  if (is_leaf(node)) return flow_text(node) + "\n";
  std::string out;
  write_block(node, 0, false, out);
  return out;
}

}  // namespace tangram::formats
