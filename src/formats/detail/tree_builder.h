// Builds a Node from the events of a parser and holds it to the limits of a document.
#pragma once

#include <string>
#include <vector>

#include "formats/document.h"

namespace tangram::formats {

// Parsers of others report by exceptions or by return values; this one is thrown through the former and caught at the
// door of this room.
struct DocumentStopped {
  Position at;
  std::string text;
};

class TreeBuilder {
 public:
  explicit TreeBuilder(Problems& problems) : problems_(problems) {}

  // Each throws DocumentStopped where a limit is reached.
  void scalar(Node node);
  // A whole tree at once, as an alias brings it. Keeping a copy for later aliases costs the same, by `charge`.
  void copy_of(const Node& tree, Position at);
  void charge(const Node& tree, Position at);
  void begin(Node::Kind kind, Position at);
  void end();
  void key(std::string text, Position at);
  // Puts what stands under `key` in the open map, a map or a list of maps, into that map itself, as YAML's `<<` asks
  // for. What the map says itself goes before, and earlier maps before later ones. To be called before end().
  void merge(std::string_view key);

  // True where the next value needs a key first.
  bool expects_key() const {
    return !open_.empty() && open_.back().node.kind == Node::Kind::map && !open_.back().keyed;
  }
  // Where the key of the next value stands; a zero place outside a map.
  Position key_place() const {
    return open_.empty() || !open_.back().keyed ? Position{} : open_.back().node.entries.back().at;
  }
  // The finished document.
  Node take() { return std::move(root_); }

  // The node that was finished last, for anchors. There is one.
  const Node& last() const;

 private:
  struct Open {
    Node node;
    bool keyed = false;
  };

  void place(Node node);
  void count(std::size_t weight, Position at);
  void report_duplicates(Node& map);

  Problems& problems_;
  std::vector<Open> open_;
  Node root_;
  std::size_t nodes_ = 0;
};

}  // namespace tangram::formats
