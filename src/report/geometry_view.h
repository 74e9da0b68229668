// Device types and their layouts, for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "core/layout.h"
#include "report/table.h"
#include "report/yaml.h"

namespace tangram::report {

// Numbers that are not certain carry a question mark; unpublished ones are a dash.
std::string figure_text(const Figure<int>& figure);
std::string figure_text(const Figure<double>& figure);

// "0-6", or "0,4" where there are gaps.
std::string starts_text(const std::vector<int>& starts);

Table catalog_table(std::span<const Geometry> geometries);
Table profile_table(const Geometry& geometry);

// The device type without its layouts. Unknown numbers are null, and every number carries its evidence.
Json geometry_json(const Geometry& geometry);
Json layout_json(const Geometry& geometry, const Layout& layout);
Json multiset_json(const Geometry& geometry, const Multiset& multiset);
Json counts_json(const LayoutCounts& counts);

// Where `profile` could still start in `layout`.
std::vector<int> places_left(const Geometry& geometry, const Layout& layout, std::size_t profile);

// The profiles that still fit, largest first: "4g.40gb at 0, 2g.20gb at 0 or 2"; "nothing".
std::string room_left(const Geometry& geometry, const Layout& layout);

}  // namespace tangram::report
