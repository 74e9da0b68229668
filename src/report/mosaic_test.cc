#include "report/mosaic.h"

#include <gtest/gtest.h>

#include <set>

#include "base/text.h"
#include "report/mosaic_svg.h"
#include "report/text_width.h"
#include "report/tile.h"

namespace tangram::report {
namespace {

Geometry base_of(const char* type) { return restrict_to(*find_geometry(type), ProfileSet::base); }

MosaicRow row(const Geometry& geometry, const char* layout) {
  const auto parsed = parse_layout(geometry, layout);
  EXPECT_TRUE(parsed.problems.empty());
  return {parsed.layout, "", ""};
}

// Four units of four columns: 40 columns hold a line, (40 - 1) / 4 = 9 columns a unit. A line between rows joins the
// upright lines of both.
TEST(Mosaic, JoinsTheLinesOfNeighbouringRows) {
  const Geometry geometry = base_of("a30");
  const std::vector<MosaicRow> rows{row(geometry, "2g@0"), row(geometry, "1g@0 + 1g@1 + 2g@2")};
  EXPECT_EQ(draw_mosaic(geometry, rows, {.width = 40}),
            "    0        1        2        3\n"
            "┌─────────────────┬─────────────────┐\n"
            "│     2g.12gb     │░░░░░░░░░░░░░░░░░│\n"
            "├────────┬────────┼─────────────────┤\n"
            "│ 1g.6gb │ 1g.6gb │     2g.12gb     │\n"
            "└────────┴────────┴─────────────────┘\n");
}

TEST(Mosaic, IsNeverWiderThanTheTerminal) {
  for (const auto& geometry : known_geometries()) {
    auto layouts = maximal_layouts(geometry);
    ASSERT_TRUE(layouts);
    std::vector<MosaicRow> rows;
    for (const auto& layout : *layouts) rows.push_back({layout, "1234", "7/7"});
    for (const int width : {80, 60, 200}) {
      const std::string text =
          draw_mosaic(geometry, rows, {.width = width}, {.left_title = "unit", .right_title = "slices"});
      EXPECT_FALSE(text.empty());
      for (const auto line : text::split(text, '\n')) EXPECT_LE(display_width(line), width) << geometry.type;
    }
  }
}

// 1024 cores have 4096 units: no terminal shows them, and the caller draws nothing.
TEST(Mosaic, GivesUpWhereAUnitHasNoColumn) {
  const Geometry host = cpu_geometry({.cores = 1024});
  const MosaicRow empty{};
  EXPECT_EQ(draw_mosaic(host, {&empty, 1}, {.width = 80}), "");
}

TEST(Mosaic, FillsSlicesWithTheColourOfTheirProfile) {
  const Geometry geometry = base_of("a30");
  const MosaicRow one = row(geometry, "4g@0");
  const std::string painted = draw_mosaic(geometry, {&one, 1}, {.colour = true});
  EXPECT_NE(painted.find("\x1b[38;5;16;48;5;215m"), std::string::npos);
  EXPECT_EQ(draw_mosaic(geometry, {&one, 1}, {}).find('\x1b'), std::string::npos);
}

TEST(Tiles, ShowLargeSlicesFirst) {
  const Geometry geometry = base_of("a100-80gb");
  auto layouts = *maximal_layouts(geometry);
  sort_for_display(geometry, layouts);
  EXPECT_EQ(to_string(geometry, layouts.front()), "7g.80gb@0");
  EXPECT_EQ(to_string(geometry, layouts[1]), "4g.40gb@0 + 3g.40gb@4");
  EXPECT_EQ(layouts.back().slices.size(), 7U);
}

MigProfile named(const char* name) {
  MigProfile profile;
  profile.name = name;
  return profile;
}

TEST(Tiles, ShortenNamesToWhatTellsThemApart) {
  EXPECT_EQ(short_name(named("1g.24gb+me.all")), "1g+me.all");
  EXPECT_EQ(short_name(named("1g.24gb-me")), "1g-me");
  EXPECT_EQ(short_name(named("1.5c")), "1.5c");
}

std::size_t count_of(const std::string& text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++count;
  return count;
}

// The 19 maximal layouts of an A100 hold 80 slices; 12 of them end with 1g@6 and leave unit 7 unused. The legend
// adds a swatch for each of five profiles and one for unused units, and there is one panel.
TEST(Picture, HasOneTileForEachSliceAndEachGap) {
  const Geometry geometry = base_of("a100-80gb");
  const auto layouts = *maximal_layouts(geometry);
  std::size_t slices = 0;
  for (const auto& layout : layouts) slices += layout.slices.size();
  const std::string svg = mosaic_svg(geometry, layouts, {.title = "a < b & c", .subtitle = "x"});
  EXPECT_EQ(count_of(svg, "<rect "), slices + 12 + 6 + 1);
  EXPECT_EQ(count_of(svg, "class=\"unused\""), 12U + 1U);
  EXPECT_NE(svg.find("a &lt; b &amp; c"), std::string::npos);
  EXPECT_EQ(svg.find("http", svg.find("www.w3.org")), std::string::npos);  // Nothing is fetched from elsewhere.
}

// 64 units of a column 420 wide leave some six pixels for each, too few for a name.
TEST(Picture, TellsThePointerWhatHasNoRoomForAName) {
  const Geometry host = cpu_geometry({.cores = 16, .memory_gib = 1});
  const Layout layouts[] = {parse_layout(host, "0.25c@0 + 15.75c@1").layout};
  const std::string svg = mosaic_svg(host, layouts, {.title = "t", .subtitle = "s"});
  EXPECT_NE(svg.find("><title>0.25c@0</title></rect>"), std::string::npos);
  EXPECT_EQ(svg.find("15.75c@1"), std::string::npos);  // This one has its name on it.
}

// On an RTX PRO 6000 the profiles of one size differ only in what they take along.
TEST(Tiles, TellFamiliesApartByColour) {
  const Geometry& rtx = *find_geometry("rtx-pro-6000");
  std::set<std::string> colours;
  for (const char* name : {"1g.24gb", "1g.24gb+me", "1g.24gb+gfx", "1g.24gb+me.all", "1g.24gb-me"}) {
    colours.insert(colour_of(rtx, rtx.profiles[*find_profile(rtx, name)]).hex);
  }
  EXPECT_EQ(colours.size(), 5U);
}

}  // namespace
}  // namespace tangram::report
