// One description of a struct, and everything that follows from it.
//
// A type that files contain is described once, beside it, by a function template:
//
//   template <typename Visitor>
//   void describe(Visitor& v, Batching& c) {
//     v.about("Batching", "How requests are put together.");
//     v.field("batch_size_max", c.batch_size_max, {.min = 1, .max = 256}, "Largest batch a policy may form.");
//     v.field("wait_ms", c.wait, {.min = 0}, "How long a batch may wait to grow.");
//     v.rule(c.batch_size_max > 1 || c.wait == Duration::zero(), {"wait_ms", "batch_size_max"},
//            "a batch of one has nothing to wait for");
//   }
//
// Reader, Writer and Describer below are visitors; from them come parsing with places, unknown keys with the nearest
// known one, YAML and JSON output, the JSON Schema and the reference page. The default of a field is what a
// default-constructed struct holds. A field may be
//   - bool, any integer, double, std::string;
//   - Duration or TimePoint, whose key ends in the unit: _ns, _us, _ms or _s;
//   - an enum, described by `v.name("none", value, SparePolicy::none, "Nothing is kept in hand.")` for each enumerator;
//   - std::optional, std::vector, or another described struct;
//   - std::variant, described by `v.option("poisson", value, PoissonTraffic{}, "Independent arrivals.")` for each
//     alternative: the key that is present selects it. `v.shorthand("rate_per_s", value, &PoissonTraffic::rate_per_s,
//     limits, help)` selects by a single value, `v.plain(value, &ConstantSize::size, limits, help)` by a bare one. The
//     writer uses the first form that fits, so shorter ones are described first;
//   - Located<T>, which also keeps the place;
//   - Subtree, a part that is kept unchanged for another parser.
// Functions are found by the namespace of the described type or, for types of `core`, in this one.
#pragma once

#include <chrono>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/time.h"
#include "formats/document.h"

namespace tangram::formats {

// What a text may contain. No text is empty, and none holds control characters.
enum class TextRule {
  line,  // Anything else.
  name,  // Letters, digits, '.', '_' and '-', beginning with a letter or digit: fit for a URL and a file name.
};

// The limits of a value. Those of a Duration count in the unit of its key.
struct Limits {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  double above = -std::numeric_limits<double>::infinity();  // Must be greater, not equal.
  double below = std::numeric_limits<double>::infinity();   // Must be less, not equal.
  bool required = false;
  std::size_t items_min = 0;                      // Of a list.
  TextRule text = TextRule::line;                 // Of text.
  std::vector<std::string> (*names)() = nullptr;  // Text must be one of these.
};

// The keys of the fields that a rule reads. The first one is where it is reported.
using RuleKeys = std::initializer_list<std::string_view>;

// A value and its place in the file. A zero place means that the file does not have it.
template <typename T>
struct Located {
  T value{};
  Position at;
  Position begin;  // Of a scalar whose bytes are in the file unchanged.
  bool literal = false;
  bool wrong = false;  // The file has it, and a problem in it has been reported.

  Position at_offset(std::size_t offset) const {
    return literal ? Position{begin.line, begin.column + static_cast<int>(offset)} : at;
  }
};

// The description itself, as a value.
struct Shape {
  enum class Kind { boolean, integer, number, text, names, list, record, choice };
  struct Name {
    std::string name;
    std::string help;
  };
  struct Field;

  Kind kind = Kind::text;
  std::string title;
  std::string help;
  Limits limits;
  std::vector<Name> names;    // Of an enum.
  std::vector<Field> fields;  // Of a record, or the options of a choice; a bare value has an empty key.
  std::vector<Shape> item;    // Of a list, exactly one.
};

struct Shape::Field {
  std::string key;
  std::string help;
  bool required = false;
  std::optional<Node> fallback;  // The default, where there is one to show.
  Shape shape;
};

// A part of a document that another parser reads. `shape` gives its description for the schema.
struct Subtree {
  Node node;
  Shape (*shape)() = nullptr;
};

namespace detail {

template <typename T, template <typename...> class Outer>
inline constexpr bool is_a = false;
template <template <typename...> class Outer, typename... Args>
inline constexpr bool is_a<Outer<Args...>, Outer> = true;

template <typename T>
inline constexpr bool is_time = std::is_same_v<T, Duration> || std::is_same_v<T, TimePoint>;

// True for types that fit one cell of a table: everything but lists, maps and choices.
template <typename T>
inline constexpr bool is_scalar =
    std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, std::string> || is_time<T>;

// The same for T or Located<T>.
template <typename T>
inline constexpr bool is_located_scalar = is_scalar<T>;
template <typename T>
inline constexpr bool is_located_scalar<Located<T>> = is_scalar<T>;

// Each reads the whole of `text` and returns an empty string, or a message that says what was expected.
std::string read_boolean(std::string_view text, bool& value);
std::string read_integer(std::string_view text, const Limits& limits, std::int64_t& value);
std::string read_number(std::string_view text, const Limits& limits, double& value);
std::string read_text(std::string_view text, const Limits& limits, std::string& value);
// Nanoseconds from a decimal number in the unit that ends `key`. Exact where the number has no exponent.
std::string read_time(std::string_view text, std::string_view key, const Limits& limits, std::int64_t& nanoseconds);
std::string write_time(std::int64_t nanoseconds, std::string_view key);
// True if YAML reads an unquoted scalar as a number, a boolean or null instead of text.
bool looks_typed(std::string_view text);
// The beginning of `text` in quotes, at most 40 bytes, on one line: for messages.
std::string excerpt(std::string_view text);
// "is unknown: "WORD", did you mean NEAREST?; known: ...", for the end of a message.
std::string unknown_word(std::string_view word, const std::vector<std::string>& known);
// The limits cut down to the range of an integer type.
Limits within_type(Limits limits, double lowest, double highest);
// True if none of `keys` is in `wrong`.
bool all_right(RuleKeys keys, const std::vector<std::string_view>& wrong);

}  // namespace detail

// Finds the enumerator that a word names. Outside `detail`, so that descriptions of core's types are found.
struct NameReader {
  std::string_view text;
  bool found = false;
  std::vector<std::string> known;

  void about(std::string_view, std::string_view) {}
  template <typename E>
  void name(std::string_view word, E& value, E named, std::string_view) {
    known.emplace_back(word);
    if (word != text) return;
    value = named;
    found = true;
  }
};

struct NameWriter {
  std::string text;

  void about(std::string_view, std::string_view) {}
  template <typename E>
  void name(std::string_view word, E& value, E named, std::string_view) {
    if (value == named) text = word;
  }
};

namespace detail {

// Reads `text` as a T. Returns an empty string, or the problem; integers and times are then unchanged.
template <typename T>
std::string read_scalar(std::string_view text, std::string_view key, const Limits& limits, T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return read_boolean(text, value);
  } else if constexpr (std::is_enum_v<T>) {
    NameReader reader{text, false, {}};
    describe(reader, value);
    return reader.found ? std::string() : unknown_word(text, reader.known);
  } else if constexpr (std::is_integral_v<T>) {
    std::int64_t wide = 0;
    using Range = std::numeric_limits<T>;
    std::string problem = read_integer(
        text, within_type(limits, static_cast<double>(Range::min()), static_cast<double>(Range::max())), wide);
    if (problem.empty()) value = static_cast<T>(wide);
    return problem;
  } else if constexpr (std::is_floating_point_v<T>) {
    return read_number(text, limits, value);
  } else if constexpr (is_time<T>) {
    std::int64_t nanoseconds = 0;
    std::string problem = read_time(text, key, limits, nanoseconds);
    if (problem.empty()) value = T(Duration(nanoseconds));
    return problem;
  } else {
    return read_text(text, limits, value);
  }
}

std::string write_number(double value);

template <typename T>
Node write_scalar(const T& value, std::string_view key) {
  if constexpr (std::is_same_v<T, bool>) {
    return plain_node(value ? "true" : "false");
  } else if constexpr (std::is_enum_v<T>) {
    NameWriter writer;
    T copy = value;
    describe(writer, copy);
    return text_node(writer.text);
  } else if constexpr (std::is_integral_v<T>) {
    return plain_node(std::to_string(value));
  } else if constexpr (std::is_floating_point_v<T>) {
    return plain_node(write_number(value));
  } else if constexpr (std::is_same_v<T, Duration>) {
    return plain_node(write_time(value.count(), key));
  } else if constexpr (std::is_same_v<T, TimePoint>) {
    return plain_node(write_time(value.time_since_epoch().count(), key));
  } else {
    return text_node(value);
  }
}

}  // namespace detail

// Fills a described struct from a node. Every problem goes to `problems`; a value that is wrong keeps its default.
class Reader {
 public:
  Reader(const Node& node, Problems& problems) : node_(node), problems_(problems) {}

  void about(std::string_view, std::string_view) {}

  template <typename T>
  void field(std::string_view key, T& value, const Limits& limits, std::string_view) {
    const std::size_t before = problems_.count();
    if (const Entry* entry = expect(key, limits.required)) read(entry->value, entry->key, limits, value);
    if (problems_.count() != before) wrong_.push_back(key);
  }
  template <typename T>
  void field(std::string_view key, T& value, std::string_view help) {
    field(key, value, Limits{}, help);
  }

  // A condition between fields. It is reported only if every field that it reads was read without a problem, because a
  // wrong field holds its default.
  void rule(bool holds, RuleKeys keys, std::string_view message);

  template <typename Variant, typename Alternative>
  void option(std::string_view key, Variant& value, Alternative prototype, std::string_view) {
    const Entry* entry = choose(key);
    if (entry == nullptr) return;
    read(entry->value, entry->key, {}, prototype);
    value = std::move(prototype);
  }
  template <typename Variant, typename Alternative, typename T>
  void shorthand(std::string_view key, Variant& value, T Alternative::*member, const Limits& limits, std::string_view) {
    const Entry* entry = choose(key);
    if (entry == nullptr) return;
    Alternative chosen{};
    read(entry->value, entry->key, limits, chosen.*member);
    value = std::move(chosen);
  }
  template <typename Variant, typename Alternative, typename T>
  void plain(Variant& value, T Alternative::*member, const Limits& limits, std::string_view) {
    if (node_.kind != Node::Kind::scalar) return;
    Alternative chosen{};
    read(node_, "", limits, chosen.*member);
    value = std::move(chosen);
    bare_ = true;
  }

  // Reads `node` as the value of `key`.
  template <typename T>
  void read(const Node& node, std::string_view key, const Limits& limits, T& value);

 private:
  // The entry of `key`, which becomes a known key; null if there is none, after reporting a required one.
  const Entry* expect(std::string_view key, bool required);
  // The same for an alternative of a choice, which counts as chosen if it is present.
  const Entry* choose(std::string_view key);
  // True if the node is a map; otherwise reports that `expected` must be one.
  bool is_map(const char* expected);
  // Reports unknown keys. Requires that describe() has visited all fields.
  void finish_record();
  // Reports unknown keys, no alternative, or several. Requires that describe() has visited all alternatives.
  void finish_choice();
  // The text of a scalar, or null after reporting why there is none. `text`: the field is a text or an enum, which must
  // be in quotes if it looks like a number; other fields must not be in quotes.
  const std::string* scalar_of(const Node& node, std::string_view key, bool text);
  // Adds "KEY TEXT" at `at`.
  void report(Position at, std::string_view key, const std::string& text);
  void report_unknown_keys(std::string_view what);

  const Node& node_;
  Problems& problems_;
  std::vector<std::string> known_;
  std::vector<std::string_view> wrong_;  // Keys of fields that are missing or not as they should be.
  std::vector<const Entry*> chosen_;
  bool bare_ = false;
};

enum class Defaults { keep, skip };

// Makes a node of a described struct. Optional fields without a value are left out, and with Defaults::skip every
// field that is not required and holds its default.
class Writer {
 public:
  explicit Writer(Defaults defaults, const Node* prototype = nullptr) : defaults_(defaults), prototype_(prototype) {
    node_.kind = Node::Kind::map;
  }

  void about(std::string_view, std::string_view) {}
  void rule(bool, RuleKeys, std::string_view) {}

  template <typename T>
  void field(std::string_view key, T& value, const Limits& limits, std::string_view) {
    std::optional<Node> node = write(value, key);
    if (!node) return;
    const Node* usual = prototype_ == nullptr ? nullptr : prototype_->find(key);
    if (!limits.required && usual != nullptr && same(*usual, *node)) return;
    node_.entries.push_back({std::string(key), {}, std::move(*node)});
  }
  template <typename T>
  void field(std::string_view key, T& value, std::string_view help) {
    field(key, value, Limits{}, help);
  }

  template <typename Variant, typename Alternative>
  void option(std::string_view key, Variant& value, const Alternative&, std::string_view) {
    if (auto* held = std::get_if<Alternative>(&value); held != nullptr && !done_) put_only(key, *held);
  }
  template <typename Variant, typename Alternative, typename T>
  void shorthand(std::string_view key, Variant& value, T Alternative::*member, const Limits&, std::string_view) {
    if (auto* held = std::get_if<Alternative>(&value); held != nullptr && !done_) put_only(key, held->*member);
  }
  template <typename Variant, typename Alternative, typename T>
  void plain(Variant& value, T Alternative::*member, const Limits&, std::string_view) {
    auto* held = std::get_if<Alternative>(&value);
    if (held == nullptr || done_) return;
    node_ = *write(held->*member, "");
    done_ = true;
  }

  // Nullopt for an optional without a value.
  template <typename T>
  std::optional<Node> write(const T& value, std::string_view key) const;

  Node take() { return std::move(node_); }

 private:
  template <typename T>
  void put_only(std::string_view key, const T& value) {
    node_.entries.push_back({std::string(key), {}, *write(value, key)});
    done_ = true;
  }

  Defaults defaults_;
  const Node* prototype_;
  Node node_;
  bool done_ = false;
};

// Makes a Shape of a described type.
class Describer {
 public:
  explicit Describer(Shape& shape) : shape_(shape) {}

  void about(std::string_view title, std::string_view help) {
    shape_.title = title;
    shape_.help = help;
  }
  void rule(bool, RuleKeys, std::string_view) {}

  template <typename T>
  void field(std::string_view key, T& value, const Limits& limits, std::string_view help) {
    // A required column of optionals must exist, but its cells may be blank.
    const bool required = limits.required && !detail::is_a<T, std::optional>;
    Shape::Field field{std::string(key), std::string(help), required, std::nullopt, shape_of(value, limits)};
    const bool shown = !limits.required && detail::is_located_scalar<T>;
    if (shown) field.fallback = Writer(Defaults::keep).write(value, key);
    shape_.fields.push_back(std::move(field));
  }
  template <typename T>
  void field(std::string_view key, T& value, std::string_view help) {
    field(key, value, Limits{}, help);
  }
  template <typename E>
  void name(std::string_view word, E&, E, std::string_view help) {
    shape_.names.push_back({std::string(word), std::string(help)});
  }
  template <typename Variant, typename Alternative>
  void option(std::string_view key, Variant&, Alternative prototype, std::string_view help) {
    shape_.fields.push_back({std::string(key), std::string(help), true, std::nullopt, shape_of(prototype, {})});
  }
  template <typename Variant, typename Alternative, typename T>
  void shorthand(std::string_view key, Variant&, T Alternative::*member, const Limits& limits, std::string_view help) {
    Alternative prototype{};
    shape_.fields.push_back(
        {std::string(key), std::string(help), true, std::nullopt, shape_of(prototype.*member, limits)});
  }
  template <typename Variant, typename Alternative, typename T>
  void plain(Variant& value, T Alternative::*member, const Limits& limits, std::string_view help) {
    shorthand("", value, member, limits, help);
  }

  template <typename T>
  static Shape shape_of(T& value, const Limits& limits);

 private:
  Shape& shape_;
};

template <typename T>
void Reader::read(const Node& node, std::string_view key, const Limits& limits, T& value) {
  if constexpr (detail::is_scalar<T>) {
    const std::string* text = scalar_of(node, key, std::is_same_v<T, std::string> || std::is_enum_v<T>);
    if (text == nullptr) return;
    if (const std::string problem = detail::read_scalar(*text, key, limits, value); !problem.empty()) {
      report(node.at, key, problem);
    }
  } else if constexpr (std::is_same_v<T, Subtree>) {
    value.node = node;
  } else if constexpr (detail::is_a<T, std::optional>) {
    typename T::value_type inner{};
    const std::size_t before = problems_.count();
    read(node, key, limits, inner);
    if (problems_.count() == before) value = std::move(inner);
  } else if constexpr (detail::is_a<T, Located>) {
    value.at = node.at;
    value.begin = node.begin;
    value.literal = node.literal;
    const std::size_t before = problems_.count();
    read(node, key, limits, value.value);
    value.wrong = problems_.count() != before;
  } else if constexpr (detail::is_a<T, std::vector>) {
    if (node.kind != Node::Kind::sequence) return report(node.at, key, "must be a list");
    if (node.items.size() < limits.items_min) report(node.at, key, "must not be empty");
    for (const Node& item : node.items) read(item, key, Limits{}, value.emplace_back());
  } else if constexpr (detail::is_a<T, std::variant>) {
    Reader reader(node, problems_);
    describe(reader, value);
    reader.finish_choice();
  } else {
    Reader reader(node, problems_);
    if (!reader.is_map(key.empty() ? "the document" : std::string(key).c_str())) return;
    describe(reader, value);
    reader.finish_record();
  }
}

template <typename T>
std::optional<Node> Writer::write(const T& value, std::string_view key) const {
  if constexpr (detail::is_scalar<T>) {
    return detail::write_scalar(value, key);
  } else if constexpr (std::is_same_v<T, Subtree>) {
    return value.node;
  } else if constexpr (detail::is_a<T, std::optional>) {
    return value ? write(*value, key) : std::nullopt;
  } else if constexpr (detail::is_a<T, Located>) {
    return write(value.value, key);
  } else if constexpr (detail::is_a<T, std::vector>) {
    Node list;
    list.kind = Node::Kind::sequence;
    for (const auto& item : value) list.items.push_back(*write(item, key));
    return list;
  } else {
    T copy = value;
    std::optional<Node> usual;
    if constexpr (!detail::is_a<T, std::variant>) {
      if (defaults_ == Defaults::skip) usual = Writer(Defaults::keep).write(T{}, key);
    }
    Writer writer(defaults_, usual ? &*usual : nullptr);
    describe(writer, copy);
    return writer.take();
  }
}

template <typename T>
Shape Describer::shape_of(T& value, const Limits& limits) {
  using Kind = Shape::Kind;
  Shape shape;
  shape.limits = limits;
  if constexpr (std::is_same_v<T, bool>) {
    shape.kind = Kind::boolean;
  } else if constexpr (std::is_enum_v<T> || detail::is_a<T, std::variant>) {
    shape.kind = std::is_enum_v<T> ? Kind::names : Kind::choice;
    Describer describer(shape);
    describe(describer, value);
  } else if constexpr (std::is_integral_v<T>) {
    shape.kind = Kind::integer;
  } else if constexpr (std::is_floating_point_v<T> || detail::is_time<T>) {
    shape.kind = Kind::number;
  } else if constexpr (std::is_same_v<T, std::string>) {
    shape.kind = Kind::text;
  } else if constexpr (std::is_same_v<T, Subtree>) {
    shape = value.shape();
  } else if constexpr (detail::is_a<T, std::optional>) {
    typename T::value_type inner{};
    shape = shape_of(inner, limits);
  } else if constexpr (detail::is_a<T, Located>) {
    shape = shape_of(value.value, limits);
  } else if constexpr (detail::is_a<T, std::vector>) {
    shape.kind = Kind::list;
    typename T::value_type inner{};
    shape.item.push_back(shape_of(inner, {}));
  } else {
    shape.kind = Kind::record;
    Describer describer(shape);
    describe(describer, value);
  }
  return shape;
}

// Whole documents as described structs.
template <typename T>
void read_document(const Node& root, Problems& problems, T& value) {
  Reader(root, problems).read(root, "", {}, value);
}
template <typename T>
Node write_document(const T& value, Defaults defaults) {
  return *Writer(defaults).write(value, "");
}
template <typename T>
Shape shape_of() {
  T value{};
  return Describer::shape_of(value, {});
}

}  // namespace tangram::formats
