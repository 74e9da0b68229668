// Asks the machine what the terminal can show.
#pragma once

#include "report/style.h"

namespace tangram::cli {

using report::paint;
using report::paint_tile;
using report::Style;
using report::Terminal;

// Asks the file descriptor, then $COLUMNS. Colour is on for a terminal unless $NO_COLOR is set to anything or $TERM is
// "dumb".
Terminal inspect_terminal(int file_descriptor);

}  // namespace tangram::cli
