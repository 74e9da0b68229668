// Layouts drawn with box characters.
//
// Each row is one layout; columns are aligned to the memory units of the device, so that equal starts are in one column
// in all rows. Between two rows one line serves as the lower border of one and the upper border of the other, so its
// joints depend on the edges of both: for example "┴" where only the row above has an edge.

#include "report/mosaic.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "report/text_width.h"
#include "report/tile.h"

namespace tangram::report {
namespace {

constexpr int kUnitWidthMax = 16;
constexpr int kWidthWanted = 66;  // Wider rows are harder to compare, not easier.

std::string repeat(std::string_view text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

// Which unit boundaries have a vertical line. Both ends always have one.
using Edges = std::vector<bool>;

Edges edges_of(const Geometry& geometry, const Layout& layout) {
  Edges edges(static_cast<std::size_t>(geometry.units) + 1, false);
  edges.back() = true;
  for (const auto& tile : tiles_of(geometry, layout)) edges[static_cast<std::size_t>(tile.start)] = true;
  return edges;
}

// The character where lines meet. `up` and `down` say whether a vertical line continues above and below.
const char* joint(bool first, bool last, bool up, bool down) {
  if (first) return up && down ? "├" : up ? "└" : "┌";
  if (last) return up && down ? "┤" : up ? "┘" : "┐";
  return up && down ? "┼" : up ? "┴" : down ? "┬" : "─";
}

// A null pointer means that there is no row on that side: the line is the top or the bottom of the picture.
std::string level_line(const Edges* above, const Edges* below, int unit_width) {
  const std::size_t count = above != nullptr ? above->size() : below->size();
  std::string line;
  for (std::size_t i = 0; i < count; ++i) {
    const bool up = above != nullptr && (*above)[i];
    const bool down = below != nullptr && (*below)[i];
    line += joint(i == 0, i + 1 == count, up, down);
    if (i + 1 < count) line += repeat("─", unit_width - 1);
  }
  return line;
}

// The full name, then the short one, then a cut one: "1g.10gb+me", "1g+me", "1g…".
std::string label_for(const MigProfile& profile, int width) {
  if (display_width(profile.name) <= width) return profile.name;
  const std::string brief = short_name(profile);
  return display_width(brief) <= width ? brief : cut_to_width(brief, width);
}

std::string centred(const std::string& text, int width) {
  const int left = (width - display_width(text)) / 2;
  return pad_right(std::string(static_cast<std::size_t>(std::max(0, left)), ' ') + text, width);
}

std::string tile_text(const Geometry& geometry, const Tile& tile, int unit_width, const Terminal& terminal) {
  const int width = tile.units * unit_width - 1;
  if (tile.profile == nullptr) return paint(terminal, Style::dim, repeat("░", width));
  const TileColour& colour = colour_of(geometry, *tile.profile);
  return paint_tile(terminal, colour.ansi, colour.dark_text, centred(label_for(*tile.profile, width), width));
}

std::string row_text(const Geometry& geometry, const Layout& layout, int unit_width, const Terminal& terminal) {
  std::string text;
  for (const auto& tile : tiles_of(geometry, layout)) text += "│" + tile_text(geometry, tile, unit_width, terminal);
  return text + "│";
}

// The numbers of the units, each above the middle of its unit; only every few if they would touch.
std::string ruler(const Geometry& geometry, int unit_width) {
  const int digits = display_width(fmt::format("{}", geometry.units - 1));
  const int step = (digits + unit_width) / unit_width;
  std::string text;
  for (int unit = 0; unit < geometry.units; unit += step) {
    const int column = 1 + unit * unit_width + (unit_width - 2) / 2;
    text = pad_right(text, column) + fmt::format("{}", unit);
  }
  return text;
}

}  // namespace

std::string draw_mosaic(const Geometry& geometry, std::span<const MosaicRow> rows, const Terminal& terminal,
                        const MosaicOptions& options) {
  int left_width = display_width(options.left_title);
  int right_width = display_width(options.right_title);
  for (const auto& row : rows) {
    left_width = std::max(left_width, display_width(row.left));
    right_width = std::max(right_width, display_width(row.right));
  }
  // The text on both sides comes first; the mosaic gets the rest of the terminal.
  const int sides = options.indent + (left_width > 0 ? left_width + 1 : 0) + (right_width > 0 ? right_width + 2 : 0);
  const int room = std::min(terminal.width - sides, kWidthWanted) - 1;
  const int unit_width = std::min(kUnitWidthMax, room / std::max(1, geometry.units));
  // A device with more units than columns cannot be drawn to scale, so nothing is drawn.
  if (unit_width < 1 || rows.empty()) return "";

  const std::string indent(static_cast<std::size_t>(options.indent), ' ');
  const auto begin = [&](const std::string& text) {
    return indent + (left_width > 0 ? pad_left(text, left_width) + " " : "");
  };
  std::string result;
  if (options.ruler) {
    const std::string numbers = pad_right(ruler(geometry, unit_width), geometry.units * unit_width + 1);
    const std::string title = options.right_title.empty() ? "" : "  " + options.right_title;
    std::string line = begin(options.left_title) + numbers + title;
    line.erase(line.find_last_not_of(' ') + 1);
    result += paint(terminal, Style::dim, line) + "\n";
  }
  // The edges of the row above, from which the joints of the line between two rows follow.
  Edges above;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Edges own = edges_of(geometry, rows[i].layout);
    if (i == 0 || options.boxed) result += begin("") + level_line(i == 0 ? nullptr : &above, &own, unit_width) + "\n";
    result += begin(rows[i].left) + row_text(geometry, rows[i].layout, unit_width, terminal);
    result += rows[i].right.empty() ? "\n" : "  " + rows[i].right + "\n";
    above = own;
  }
  return result + begin("") + level_line(&above, nullptr, unit_width) + "\n";
}

}  // namespace tangram::report
