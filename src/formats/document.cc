// Nodes of a document: lookup, comparison, and nodes to be written.

#include "formats/document.h"

#include <algorithm>

namespace tangram::formats {

// Linear: maps in our files have a few keys, and the order of the file must be kept.
const Node* Node::find(std::string_view key) const {
  for (const auto& entry : entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

Position Node::at_offset(std::size_t offset) const {
  if (!literal) return at;
  return {begin.line, begin.column + static_cast<int>(offset)};
}

// Quotes count, because "12" and 12 are a text and a number.
bool same(const Node& a, const Node& b) {
  if (a.kind != b.kind || a.text != b.text || a.quoted != b.quoted) return false;
  return std::ranges::equal(a.items, b.items, same) &&
         std::ranges::equal(a.entries, b.entries,
                            [](const Entry& x, const Entry& y) { return x.key == y.key && same(x.value, y.value); });
}

Node text_node(std::string text) {
  Node node;
  node.kind = Node::Kind::scalar;
  node.text = std::move(text);
  node.quoted = true;
  return node;
}

Node plain_node(std::string text) {
  Node node = text_node(std::move(text));
  node.quoted = false;
  return node;
}

}  // namespace tangram::formats
