// The cuts of one device.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/geometry.h"

namespace tangram {

// One cut: a profile of the device's Geometry, by index, and the unit at which it starts.
struct Slice {
  std::uint16_t profile = 0;
  std::uint16_t start = 0;

  bool operator==(const Slice&) const = default;
};

// The slices of one device in ascending order of their starts. Units between them are unused.
struct Layout {
  std::vector<Slice> slices;

  bool operator==(const Layout&) const = default;
};

// `4g.20gb@0 + 3g.20gb@4`; `empty` for a device without slices.
std::string to_string(const Geometry& geometry, const Layout& layout);

// Where in the text a part of a layout is wrong, and how.
struct LayoutProblem {
  std::size_t offset = 0;  // Bytes from the beginning of the text.
  std::string message;     // "3g.20gb cannot start at 2; allowed: 0, 4"
};

struct ParsedLayout {
  Layout layout;
  std::vector<LayoutProblem> problems;  // Empty when `layout` is valid.
};

// Reads what to_string writes, in any order, with or without spaces around `+`. All problems are reported, and
// the slices that are right are kept.
ParsedLayout parse_layout(const Geometry& geometry, std::string_view text);

// True if `slice` starts where its profile may, overlaps nothing in `layout`, and stays within the limits of its
// profile and of the device's media engines.
bool fits(const Geometry& geometry, const Layout& layout, const Slice& slice);

// `layout` with `slice` in its place. The slice fits.
Layout with_slice(const Geometry& geometry, Layout layout, const Slice& slice);

// What keeps `layout` from being valid, in words; empty when it is. Independent of `fits`.
std::string why_invalid(const Geometry& geometry, const Layout& layout);

// Sums over the slices of a layout.
int units_used(const Geometry& geometry, const Layout& layout);
int compute_slices_used(const Geometry& geometry, const Layout& layout);

// What can still be cut beside the slices of `taken`, a valid layout: the same profiles at the same indices, without
// the starts that overlap it, and with what it leaves of counts and media engines.
Geometry beside(const Geometry& geometry, const Layout& taken);

// How many of each profile, by index into Geometry::profiles.
using Multiset = std::vector<std::uint16_t>;
Multiset multiset_of(const Geometry& geometry, const Layout& layout);
// `2 x 3g.20gb`, largest first.
std::string to_string(const Geometry& geometry, const Multiset& multiset);

// Enumeration stops with an error beyond this many layouts: only large hosts reach it.
inline constexpr std::size_t kLayoutsMax = 2'000'000;

// Every valid layout, the empty one included, each once, in a fixed order.
Result<std::vector<Layout>> all_layouts(const Geometry& geometry);
// Those to which no slice can be added.
Result<std::vector<Layout>> maximal_layouts(const Geometry& geometry);
// The distinct multisets of all valid layouts, the empty one included, ascending.
Result<std::vector<Multiset>> distinct_multisets(const Geometry& geometry);
// Those that are not contained in another.
Result<std::vector<Multiset>> pareto_multisets(const Geometry& geometry);

struct LayoutCounts {
  std::size_t valid = 0;
  std::size_t maximal = 0;
  std::size_t multisets = 0;
  std::size_t pareto = 0;

  bool operator==(const LayoutCounts&) const = default;
};
Result<LayoutCounts> count_layouts(const Geometry& geometry);

// A layout that holds exactly `multiset`, or nothing if none does.
std::optional<Layout> realise(const Geometry& geometry, const Multiset& multiset);

// Where to put one more slice of a profile while others come and go: the start that leaves the best options, that
// is, keeps the largest profiles placeable (compared from the largest profile down by how many places it still has),
// the lowest start among equals. Nothing if it fits nowhere.
std::optional<Slice> advise_placement(const Geometry& geometry, const Layout& layout, std::size_t profile);

}  // namespace tangram
