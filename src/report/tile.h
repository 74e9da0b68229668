// The colours of profiles, the same in the terminal and in pictures.
#pragma once

#include <string>
#include <vector>

#include "core/layout.h"
#include "report/colours.h"

namespace tangram::report {

// Plain profiles are told apart by their compute slices, the others by their family. On the host, colours repeat.
const TileColour& colour_of(const Geometry& geometry, const MigProfile& profile);

// A piece of a row: a slice, or the unused units between two.
struct Tile {
  int start = 0;
  int units = 0;
  const MigProfile* profile = nullptr;  // Null: unused.
};

// The row from the first unit to the last without gaps. The pointers lead into `geometry`.
std::vector<Tile> tiles_of(const Geometry& geometry, const Layout& layout);

// "1g+me" for "1g.10gb+me", where the whole name has no room.
std::string short_name(const MigProfile& profile);

// Layouts as people like to see them: large slices first, from the left.
void sort_for_display(const Geometry& geometry, std::vector<Layout>& layouts);

}  // namespace tangram::report
