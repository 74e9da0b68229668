// YAML and JSON: what parses is written and parses again to the same tree. The first byte chooses.

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "formats/document.h"

namespace {

using namespace tangram::formats;

// Text without quotes that every reader takes for text comes back with quotes or without: only the words count.
bool same_words(const Node& a, const Node& b) {
  if (a.kind != b.kind || a.text != b.text || a.items.size() != b.items.size() || a.entries.size() != b.entries.size())
    return false;
  for (std::size_t i = 0; i < a.items.size(); ++i) {
    if (!same_words(a.items[i], b.items[i])) return false;
  }
  for (std::size_t i = 0; i < a.entries.size(); ++i) {
    if (a.entries[i].key != b.entries[i].key || !same_words(a.entries[i].value, b.entries[i].value)) return false;
  }
  return true;
}

// A plain scalar may hold anything in YAML; before it is written as text it must be marked as such.
void mark_text(Node& node) {
  if (node.kind == Node::Kind::scalar) node.quoted = true;
  for (auto& item : node.items) mark_text(item);
  for (auto& entry : node.entries) mark_text(entry.value);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const bool json = data[0] % 2 == 0;
  Problems problems("in");
  auto root = json ? parse_json({"in", text}, problems) : parse_yaml({"in", text}, problems);
  if (!root || !problems.empty()) return 0;
  if (!json) mark_text(*root);
  const std::string written = json ? to_json(*root) : to_yaml(*root);
  const auto again = json ? parse_json({"again", written}, problems) : parse_yaml({"again", written}, problems);
  TANGRAM_CHECK(again.has_value() && problems.empty(), written);
  TANGRAM_CHECK(same_words(*again, *root), written);
  return 0;
}
