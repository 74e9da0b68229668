// Layouts as an SVG document.
//
// The document has its own style sheet for light and dark, so it can be shown by itself, in a README or in a page. All
// positions are computed before the first element is written, since the height in the <svg> element depends on them.

#include "report/mosaic_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "report/colours.h"
#include "report/plot.h"
#include "report/tile.h"

namespace tangram::report {
namespace {

// All lengths are in pixels of a picture 960 wide.
constexpr double kWidth = 960;
constexpr double kMargin = 36;
constexpr double kHeader = 104;  // Title, subtitle and the space below them.
constexpr double kRuler = 20;
constexpr double kRowHeight = 28;
constexpr double kRowGap = 7;
constexpr double kTileGap = 3;
constexpr double kNumberWidth = 26;
constexpr double kColumnGap = 44;
constexpr double kLegendHeight = 46;
constexpr double kLegendItem = 148;
constexpr std::size_t kOneColumnMax = 8;  // Up to this many rows fit in one column.

struct Point {
  double x = 0;
  double y = 0;
};

std::string text_at(Point at, const char* style, std::string_view anchor, std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"{}\" text-anchor=\"{}\">{}</text>\n", at.x, at.y, style,
                     anchor, plot::escape(text));
}

// Assumes 8 pixels per letter, which is the widest of the fonts in the style sheet: SVG cannot measure text.
bool has_room(std::string_view text, double width) { return static_cast<double>(text.size()) * 8.0 + 8 <= width; }

std::string tile_svg(const Geometry& geometry, const Tile& tile, Point at, double unit_width) {
  const double width = tile.units * unit_width - kTileGap;
  const double x = at.x + tile.start * unit_width;
  // `hint` is the tooltip of a tile whose name has no room; empty for none.
  const auto rectangle = [&](const std::string& attributes, const std::string& hint) {
    const std::string end = hint.empty() ? "/>" : fmt::format("><title>{}</title></rect>", plot::escape(hint));
    return fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.0f}\" rx=\"5\" {}{}\n", x, at.y,
                       width, kRowHeight, attributes, end);
  };
  if (tile.profile == nullptr) return rectangle("class=\"unused\"", "");
  const TileColour& colour = colour_of(geometry, *tile.profile);
  const std::string fill = fmt::format("fill=\"{}\"", colour.hex);
  const std::string brief = short_name(*tile.profile);
  // The full name if it fits, else the short one, else only a tooltip.
  const std::string& name = has_room(tile.profile->name, width) ? tile.profile->name : brief;
  if (!has_room(name, width)) return rectangle(fill, fmt::format("{}@{}", tile.profile->name, tile.start));
  return rectangle(fill, "") +
         fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"tile\" text-anchor=\"middle\" fill=\"{}\">{}</text>\n",
                     x + width / 2, at.y + kRowHeight / 2 + 4.5, colour.hex_text, plot::escape(name));
}

// Unverified numbers carry a question mark, and unknown ones are left out.
std::string legend_figures(const MigProfile& profile) {
  const auto mark = [](Evidence evidence) { return evidence == Evidence::verified ? "" : "?"; };
  std::string text;
  if (profile.sm_count.evidence != Evidence::unknown) {
    text = fmt::format("{}{} SMs", profile.sm_count.value, mark(profile.sm_count.evidence));
  }
  if (profile.memory_gib.evidence != Evidence::unknown) {
    text += fmt::format("{}{:.4g}{} GiB", text.empty() ? "" : ", ", profile.memory_gib.value,
                        mark(profile.memory_gib.evidence));
  }
  return text;
}

// Only profiles that occur in the picture, largest first: a legend of all profiles would be longer than the picture.
std::vector<const MigProfile*> shown_profiles(const Geometry& geometry, std::span<const Layout> layouts) {
  std::vector<bool> used(geometry.profiles.size(), false);
  for (const auto& layout : layouts) {
    for (const auto& slice : layout.slices) used[slice.profile] = true;
  }
  std::vector<const MigProfile*> result;
  for (std::size_t i = geometry.profiles.size(); i-- > 0;) {
    if (used[i]) result.push_back(&geometry.profiles[i]);
  }
  return result;
}

// Decides whether the legend explains the dashed tiles.
bool leaves_units_unused(const Geometry& geometry, std::span<const Layout> layouts) {
  return std::ranges::any_of(layouts, [&](const Layout& l) { return units_used(geometry, l) < geometry.units; });
}

// The positions of everything, computed once from the number of layouts and of legend entries.
struct Frame {
  std::size_t columns = 1;
  std::size_t rows = 1;  // In the longest column.
  double column_width = 0;
  double unit_width = 0;
  double legend_y = 0;
  std::size_t legend_per_line = 1;
  std::size_t legend_lines = 1;
  double height = 0;
};

Frame frame_for(const Geometry& geometry, std::size_t layouts, std::size_t legend_items) {
  Frame frame;
  frame.columns = layouts > kOneColumnMax ? 2 : 1;
  // Rounded up: the first column is filled and the second has the rest.
  frame.rows = (layouts + frame.columns - 1) / frame.columns;
  const auto columns = static_cast<double>(frame.columns);
  frame.column_width = (kWidth - 2 * kMargin - (columns - 1) * kColumnGap) / columns;
  frame.unit_width = (frame.column_width - kNumberWidth) / geometry.units;
  frame.legend_y = kHeader + kRuler + static_cast<double>(frame.rows) * (kRowHeight + kRowGap) + 18;
  frame.legend_per_line = static_cast<std::size_t>((kWidth - 2 * kMargin) / kLegendItem);
  frame.legend_lines = (legend_items + frame.legend_per_line - 1) / frame.legend_per_line;
  frame.height = frame.legend_y + static_cast<double>(frame.legend_lines) * kLegendHeight + kMargin - 8;
  return frame;
}

// One column of layouts with its own ruler. Layouts are numbered from 1 through all columns.
std::string column_svg(const Geometry& geometry, std::span<const Layout> layouts, std::size_t column,
                       const Frame& frame) {
  const double x = kMargin + static_cast<double>(column) * (frame.column_width + kColumnGap);
  const double bar_x = x + kNumberWidth;
  std::string svg;
  // A ruler with the numbers of the memory units, by which people name the start of a slice.
  for (int unit = 0; unit < geometry.units; ++unit) {
    const double middle = bar_x + (unit + 0.5) * frame.unit_width - kTileGap / 2;
    svg += text_at({middle, kHeader + kRuler - 8}, "small", "middle", fmt::format("{}", unit));
  }
  const std::size_t end = std::min(layouts.size(), (column + 1) * frame.rows);
  for (std::size_t i = column * frame.rows; i < end; ++i) {
    const auto row = static_cast<double>(i - column * frame.rows);
    const double y = kHeader + kRuler + row * (kRowHeight + kRowGap);
    svg += text_at({bar_x - 9, y + kRowHeight / 2 + 4}, "small", "end", fmt::format("{}", i + 1));
    for (const auto& tile : tiles_of(geometry, layouts[i]))
      svg += tile_svg(geometry, tile, {bar_x, y}, frame.unit_width);
  }
  return svg;
}

// Entries fill lines from left to right; the first is aligned with the tiles and not with the numbers.
Point legend_place(const Frame& frame, std::size_t item) {
  return {kMargin + kNumberWidth + static_cast<double>(item % frame.legend_per_line) * kLegendItem,
          frame.legend_y + 16 + static_cast<double>(item / frame.legend_per_line) * kLegendHeight};
}

std::string legend_item(Point at, const std::string& swatch, const std::string& name, const std::string& figures) {
  return fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"14\" height=\"28\" rx=\"4\" {}/>\n", at.x, at.y, swatch) +
         text_at({at.x + 23, at.y + 11}, "legend", "start", name) +
         text_at({at.x + 23, at.y + 26}, "small", "start", figures);
}

std::string legend_svg(const Geometry& geometry, const std::vector<const MigProfile*>& profiles, bool unused,
                       const Frame& frame) {
  std::string svg = fmt::format("<line x1=\"{:.0f}\" y1=\"{:.1f}\" x2=\"{:.0f}\" y2=\"{:.1f}\" class=\"line\"/>\n",
                                kMargin, frame.legend_y, kWidth - kMargin, frame.legend_y);
  std::size_t item = 0;
  for (const auto* profile : profiles) {
    const std::string swatch = fmt::format("fill=\"{}\"", colour_of(geometry, *profile).hex);
    svg += legend_item(legend_place(frame, item++), swatch, profile->name, legend_figures(*profile));
  }
  if (unused) svg += legend_item(legend_place(frame, item), "class=\"unused\"", "unused", "in no slice");
  return svg;
}

}  // namespace

// The title is also the accessible name of the picture (aria-label), for readers that cannot see it.
std::string mosaic_svg(const Geometry& geometry, std::span<const Layout> layouts, const SvgText& text) {
  const auto profiles = shown_profiles(geometry, layouts);
  const bool unused = leaves_units_unused(geometry, layouts);
  const Frame frame = frame_for(geometry, layouts.size(), profiles.size() + (unused ? 1 : 0));
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "role=\"img\" aria-label=\"{2}\">\n<title>{2}</title>\n{3}",
      kWidth, frame.height, plot::escape(text.title + ": " + text.subtitle), kLayoutSvgStyle);
  svg += fmt::format("<rect x=\"0.5\" y=\"0.5\" width=\"{:.0f}\" height=\"{:.0f}\" rx=\"14\" class=\"panel\"/>\n",
                     kWidth - 1, frame.height - 1);
  svg +=
      text_at({kMargin, 52}, "title", "start", text.title) + text_at({kMargin, 77}, "subtitle", "start", text.subtitle);
  for (std::size_t column = 0; column < frame.columns; ++column) svg += column_svg(geometry, layouts, column, frame);
  return svg + legend_svg(geometry, profiles, unused, frame) + "</svg>\n";
}

}  // namespace tangram::report
