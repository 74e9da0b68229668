// Tiles: the pieces of which pictures of layouts consist, with their colours and order.

#include "report/tile.h"

#include <algorithm>

namespace tangram::report {
namespace {

constexpr std::size_t kHostColours = 8;  // Repeated on the host.

std::size_t special_colour(const MigProfile& profile) {
  if (profile.name.ends_with("+gfx")) return 8;
  return profile.name.ends_with("+me.all") ? 9 : 7;
}

// Indices into kTileColours: 0 to 4 for plain profiles by compute slices (1, 2, 3, 4, more), 5 to 9 for other families.
std::size_t colour_index(const Geometry& geometry, const MigProfile& profile) {
  if (geometry.units_per_core > 0) return static_cast<std::size_t>(profile.units - 1) % kHostColours;
  switch (profile.family) {
    case ProfileFamily::double_memory: return 5;
    case ProfileFamily::media: return 6;
    case ProfileFamily::special: return special_colour(profile);
    case ProfileFamily::plain: break;
  }
  return profile.compute_slices <= 4 ? static_cast<std::size_t>(profile.compute_slices - 1) : 4;
}

}  // namespace

const TileColour& colour_of(const Geometry& geometry, const MigProfile& profile) {
  return kTileColours[colour_index(geometry, profile)];
}

// Requires slices in ascending order of start, as layouts have them. Gaps become tiles without a profile, so that the
// tiles always cover the whole device.
std::vector<Tile> tiles_of(const Geometry& geometry, const Layout& layout) {
  std::vector<Tile> tiles;
  int next = 0;
  for (const auto& slice : layout.slices) {
    const MigProfile& profile = geometry.profiles[slice.profile];
    if (slice.start > next) tiles.push_back({next, slice.start - next, nullptr});
    tiles.push_back({slice.start, profile.units, &profile});
    next = slice.start + profile.units;
  }
  if (next < geometry.units) tiles.push_back({next, geometry.units - next, nullptr});
  return tiles;
}

// Drops the memory size: the compute slices and the suffix ("+me") are what tells profiles of one device apart.
std::string short_name(const MigProfile& profile) {
  const std::size_t point = profile.name.find('.');
  const std::size_t memory_end = profile.name.find("gb", point);
  if (point == std::string::npos || memory_end == std::string::npos) return profile.name;
  return profile.name.substr(0, point) + profile.name.substr(memory_end + 2);
}

// Layouts are compared slice by slice, so all that begin with the same large slice are next to each other.
void sort_for_display(const Geometry& geometry, std::vector<Layout>& layouts) {
  const auto larger_first = [&](const Slice& a, const Slice& b) {
    const MigProfile& left = geometry.profiles[a.profile];
    const MigProfile& right = geometry.profiles[b.profile];
    if (left.units != right.units) return left.units > right.units;
    if (left.compute_slices != right.compute_slices) return left.compute_slices > right.compute_slices;
    return a.profile != b.profile ? a.profile < b.profile : a.start < b.start;
  };
  std::ranges::stable_sort(layouts, [&](const Layout& a, const Layout& b) {
    return std::ranges::lexicographical_compare(a.slices, b.slices, larger_first);
  });
}

}  // namespace tangram::report
