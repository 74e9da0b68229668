// A small tree for YAML and JSON, read and written. Every node and key knows its place in the file.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/problems.h"
#include "formats/source.h"

namespace tangram::formats {

struct Entry;

struct Node {
  enum class Kind { null, scalar, sequence, map };

  Kind kind = Kind::null;
  Position at;
  std::string text;      // Of a scalar.
  bool quoted = false;   // The scalar is text whatever it looks like: "12" is not a number.
  bool literal = false;  // `text` is in the file unchanged, from `begin` on: an offset into it is a column.
  Position begin;
  std::vector<Node> items;     // Of a sequence.
  std::vector<Entry> entries;  // Of a map, in the order of the file.

  // The value of `key`, or null.
  const Node* find(std::string_view key) const;
  // The place of the byte `offset` of a scalar, as exactly as it is known.
  Position at_offset(std::size_t offset) const;
};

struct Entry {
  std::string key;
  Position at;
  Node value;
};

// Equal content; places do not count.
bool same(const Node& a, const Node& b);

// Nodes to be written.
Node text_node(std::string text);
Node plain_node(std::string text);  // A number or a boolean.

// The limits of a document. They bound the memory and the recursion that deep nesting or aliases of aliases can cause.
inline constexpr std::size_t kDocumentBytesMax = std::size_t{64} << 20;
inline constexpr std::size_t kDocumentNodesMax = 1'000'000;
inline constexpr std::size_t kDocumentDepthMax = 64;

// One document of YAML or JSON, or nullopt if the text cannot be parsed at all. Every problem goes to `problems`. After
// a repeated key the rest is still read, and the first of the two counts.
std::optional<Node> parse_yaml(const Source& source, Problems& problems);
std::optional<Node> parse_json(const Source& source, Problems& problems);

// Text that reads back as the same tree. Small parts are written on one line.
std::string to_yaml(const Node& node);
std::string to_json(const Node& node);

}  // namespace tangram::formats
