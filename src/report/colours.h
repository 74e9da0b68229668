// Every colour of a report: in the terminal, in pictures of layouts and plans, and on HTML pages. The rules of pages
// that are not colours (sizes, margins) are in page_style.h.
#pragma once

#include <array>
#include <string_view>

#include "report/style.h"

namespace tangram::report {

// ---- Terminal ----

// The number of the ANSI escape sequence, such as "32" for green; empty for plain text.
std::string_view ansi_code(Style style);

// ---- MIG profiles, in the terminal and in pictures ----

struct TileColour {
  int ansi;         // In the 256-colour palette.
  bool dark_text;   // Black on it can be read better than white.
  const char* hex;  // The same for pictures.
  const char* hex_text;
};
inline constexpr std::array kTileColours{
    TileColour{73, true, "#62BDB0", "#0E2F2B"},    // 1g
    TileColour{68, false, "#4C86C6", "#FFFFFF"},   // 2g
    TileColour{98, false, "#8067C4", "#FFFFFF"},   // 3g
    TileColour{215, true, "#F2A65A", "#3B2108"},   // 4g
    TileColour{168, false, "#D9607B", "#FFFFFF"},  // 7g
    TileColour{149, true, "#ACCB66", "#273408"},   // double memory
    TileColour{221, true, "#F0CF5B", "#3A2E05"},   // media
    TileColour{146, true, "#A9B4C4", "#1F2833"},   // special: without media engines
    TileColour{180, true, "#CFA98A", "#33200F"},   // special: for graphics
    TileColour{108, true, "#86B08C", "#14301A"},   // special: with all media engines
};

// ---- Services in the picture of a plan ----

// By the order of the services; a plan with more than twelve repeats them. Pages have the same as s0 to s11.
inline constexpr std::array kServiceColours{"#2f6fb3", "#d9822b", "#3b8f5c", "#8a5bb5", "#c2474b", "#4aa3a2",
                                            "#a7842b", "#5b6bc0", "#b5578f", "#6d8f2f", "#7a6455", "#3f7f93"};
inline constexpr const char* kFreeSliceColour = "#9aa5b1";

// ---- Style sheets ----

// The CSS variables of HTML pages, light and dark. Pictures on pages name them without the dashes: "good", "s0". The
// series s0 to s11 are services, policies or plans, in their order.
extern const std::string_view kPageColours;
// Two more variables, for pages that compare our runs with those of others.
extern const std::string_view kComparisonColours;
// Complete <style> elements of the two SVG documents, light and dark.
extern const std::string_view kLayoutSvgStyle;
extern const std::string_view kPlanSvgStyle;

}  // namespace tangram::report
