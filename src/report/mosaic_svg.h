// Layouts drawn as a picture.
#pragma once

#include <span>
#include <string>

#include "core/layout.h"

namespace tangram::report {

struct SvgText {
  std::string title;
  std::string subtitle;
};

// A complete SVG document: two columns of rows, one for each layout, aligned to the units of the device, with a legend
// of the profiles. It brings its own background, light or dark as the reader prefers, and uses only fonts that
// every system has.
std::string mosaic_svg(const Geometry& geometry, std::span<const Layout> layouts, const SvgText& text);

}  // namespace tangram::report
