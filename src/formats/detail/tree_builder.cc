// A tree from parser events, within the limits of a document.
//
// Invariant: open_ is the path from the root to the node under construction; in each map of it except the last, the
// last entry has a key and waits for its value. nodes_ counts everything that was built or copied, so the memory is
// bounded whatever the input does with aliases.

#include "formats/detail/tree_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <span>

namespace tangram::formats {

namespace {

// The cost of copying a tree, in nodes. Long text counts too, because aliases can multiply it just as well.
std::size_t weight_of(const Node& node) {
  constexpr std::size_t kTextPerNode = 64;
  std::size_t weight = 1 + node.text.size() / kTextPerNode;
  for (const auto& item : node.items) weight += weight_of(item);
  for (const auto& entry : node.entries) weight += weight_of(entry.value) + entry.key.size() / kTextPerNode;
  return weight;
}

// Recursion is safe: a tree that was built here is at most kDocumentDepthMax deep.
std::size_t depth_of(const Node& node) {
  std::size_t deepest = 0;
  for (const auto& item : node.items) deepest = std::max(deepest, depth_of(item));
  for (const auto& entry : node.entries) deepest = std::max(deepest, depth_of(entry.value));
  return deepest + 1;
}

Error too_deep() { return {ErrorCode::exhausted, fmt::format("nested more than {} deep", kDocumentDepthMax)}; }

}  // namespace

void TreeBuilder::scalar(Node node) {
  count(1, node.at);
  place(std::move(node));
}

void TreeBuilder::copy_of(const Node& tree, Position at) {
  charge(tree, at);
  // An alias deep in the document can exceed the depth although its anchor did not.
  if (open_.size() + depth_of(tree) > kDocumentDepthMax) throw DocumentStopped{at, too_deep().message};
  place(tree);
}

void TreeBuilder::charge(const Node& tree, Position at) { count(weight_of(tree), at); }

// Throws before the node is stored, so the limit also bounds the memory at the moment of the error.
void TreeBuilder::count(std::size_t weight, Position at) {
  nodes_ += weight;
  if (nodes_ > kDocumentNodesMax) {
    throw DocumentStopped{at, fmt::format("more than {} values in one document", kDocumentNodesMax)};
  }
}

void TreeBuilder::begin(Node::Kind kind, Position at) {
  if (open_.size() >= kDocumentDepthMax) throw DocumentStopped{at, too_deep().message};
  count(1, at);
  Node node;
  node.kind = kind;
  node.at = at;
  open_.push_back({std::move(node)});
}

void TreeBuilder::end() {
  TANGRAM_CHECK(!open_.empty(), "a parser ends what it began");
  Node node = std::move(open_.back().node);
  open_.pop_back();
  if (node.kind == Node::Kind::map) report_duplicates(node);
  place(std::move(node));
}

void TreeBuilder::key(std::string text, Position at) {
  TANGRAM_CHECK(expects_key(), "a key stands in a map, before its value");
  // The entry exists before its value, so a map under construction always knows the key that the value belongs to.
  open_.back().node.entries.push_back({std::move(text), at, {}});
  open_.back().keyed = true;
}

// A finished node has already been given to its parent, where it is the last value or item.
const Node& TreeBuilder::last() const {
  if (open_.empty()) return root_;
  const Node& node = open_.back().node;
  return node.kind == Node::Kind::map ? node.entries.back().value : node.items.back();
}

void TreeBuilder::place(Node node) {
  if (open_.empty()) {
    root_ = std::move(node);
    return;
  }
  Open& parent = open_.back();
  if (parent.node.kind == Node::Kind::map) {
    parent.node.entries.back().value = std::move(node);
    parent.keyed = false;
  } else {
    parent.node.items.push_back(std::move(node));
  }
}

void TreeBuilder::merge(std::string_view key) {
  auto& entries = open_.back().node.entries;
  const auto is_merge = [&](const Entry& entry) { return entry.key == key; };
  const auto found = std::ranges::find_if(entries, is_merge);
  if (found == entries.end()) return;
  // The merge key itself is no key of the result.
  const Entry merged = std::move(*found);
  entries.erase(found);
  if (const auto again = std::ranges::find_if(entries, is_merge); again != entries.end()) {
    throw DocumentStopped{again->at, fmt::format("{} is given twice; first in line {}", key, merged.at.line)};
  }
  // Own keys win over merged ones, and earlier maps over later ones (YAML 1.1, merge key type).
  std::set<std::string> known;
  for (const auto& entry : entries) known.insert(entry.key);
  const bool list = merged.value.kind == Node::Kind::sequence;
  for (const Node& map : list ? std::span<const Node>(merged.value.items) : std::span<const Node>(&merged.value, 1)) {
    if (map.kind != Node::Kind::map) {
      throw DocumentStopped{merged.at, fmt::format("{} takes a map or a list of maps, as in {}: *anchor", key, key)};
    }
    for (const auto& entry : map.entries) {
      if (known.insert(entry.key).second) entries.push_back(entry);
    }
  }
}

// Reports repeated keys and keeps the first of each. Sorting costs n log n; comparing all pairs would be quadratic, and
// a map may have a million keys. The sort is stable, so the first in the order is the first in the file.
void TreeBuilder::report_duplicates(Node& map) {
  auto& entries = map.entries;
  std::vector<std::size_t> order(entries.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) -> const std::string& { return entries[i].key; });
  std::vector<bool> again(entries.size());
  std::size_t first = 0;
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (entries[order[i]].key != entries[order[first]].key) {
      first = i;
      continue;
    }
    again[order[i]] = true;
    problems_.add(entries[order[i]].at, fmt::format("{} is given twice; first in line {}", entries[order[i]].key,
                                                    entries[order[first]].at.line));
  }
  std::size_t index = 0;
  std::erase_if(entries, [&](const Entry&) { return again[index++]; });
}

}  // namespace tangram::formats
