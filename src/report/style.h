// What the place that text goes to can show, and text painted for it.
#pragma once

#include <string>
#include <string_view>

namespace tangram::report {

inline constexpr int kWidthDefault = 80;  // Columns where the width is not known.

struct Terminal {
  bool interactive = false;  // A person watches: progress bars and shortened columns make sense.
  bool colour = false;
  int width = kWidthDefault;
};

enum class Style { plain, bold, dim, good, bad, accent };

// `text` in that style; unchanged without colour.
std::string paint(const Terminal& terminal, Style style, std::string_view text);

// `text` on a background of the 256-colour palette, in whichever of black and white can be read on it.
std::string paint_tile(const Terminal& terminal, int background, bool dark_text, std::string_view text);

}  // namespace tangram::report
