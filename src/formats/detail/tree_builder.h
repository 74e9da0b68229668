// Builds a Node from the events of a parser, within the limits of a document.
#pragma once

#include <string>
#include <vector>

#include "formats/document.h"

namespace tangram::formats {

// Thrown by the builder through a foreign parser to stop it, and caught in the file that called the parser.
struct DocumentStopped {
  Position at;
  std::string text;
};

class TreeBuilder {
 public:
  explicit TreeBuilder(Problems& problems) : problems_(problems) {}

  // Each throws DocumentStopped where a limit is reached.
  void scalar(Node node);
  // Adds a copy of a whole tree, for an alias. charge() counts a copy that is kept for later aliases.
  void copy_of(const Node& tree, Position at);
  void charge(const Node& tree, Position at);
  void begin(Node::Kind kind, Position at);
  void end();
  void key(std::string text, Position at);
  // Merges the value of `key` in the open map, a map or a list of maps, into that map, as YAML's `<<` does. Own keys
  // win over merged ones, and earlier maps over later ones. Must be called before end().
  void merge(std::string_view key);

  // True if the open node is a map and its next value has no key yet.
  bool expects_key() const {
    return !open_.empty() && open_.back().node.kind == Node::Kind::map && !open_.back().keyed;
  }
  // The place of the key of the next value; a zero place outside a map.
  Position key_place() const {
    return open_.empty() || !open_.back().keyed ? Position{} : open_.back().node.entries.back().at;
  }
  // The finished document.
  Node take() { return std::move(root_); }

  // The node that was finished last, for anchors. Requires that there is one.
  const Node& last() const;

 private:
  struct Open {
    Node node;
    bool keyed = false;
  };

  // Gives the node to the open map or list, or makes it the root.
  void place(Node node);
  // Counts against kDocumentNodesMax. Throws at the limit.
  void count(std::size_t weight, Position at);
  // Reports keys that occur again and removes them; the first of each stays.
  void report_duplicates(Node& map);

  Problems& problems_;
  std::vector<Open> open_;
  Node root_;
  std::size_t nodes_ = 0;
};

}  // namespace tangram::formats
