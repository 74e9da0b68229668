// What the terminal can show, from the file descriptor and the environment.

#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

#include "base/text.h"

namespace tangram::cli {
namespace {

// Below 20 columns no table is readable, so such a width is taken for an error of the terminal. Above 1000, wide tables
// would only be padded.
constexpr int kWidthMin = 20;
constexpr int kWidthMax = 1000;

int usable_width(long columns) {
  if (columns < kWidthMin) return report::kWidthDefault;
  return columns > kWidthMax ? kWidthMax : static_cast<int>(columns);
}

// The terminal knows its width best; $COLUMNS is for terminals that do not say, such as a serial line.
int width_of(int file_descriptor) {
  winsize size{};
  if (ioctl(file_descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return usable_width(size.ws_col);
  if (const char* columns = std::getenv("COLUMNS")) return usable_width(text::parse_integer(columns).value_or(0));
  return report::kWidthDefault;
}

// The convention of no-color.org: any value but an empty one turns colour off.
bool colour_wanted() {
  const char* no_color = std::getenv("NO_COLOR");
  if (no_color != nullptr && *no_color != '\0') return false;
  const char* term = std::getenv("TERM");
  return term != nullptr && std::string_view(term) != "dumb";
}

}  // namespace

Terminal inspect_terminal(int file_descriptor) {
  Terminal terminal;
  terminal.interactive = isatty(file_descriptor) == 1;
  terminal.colour = terminal.interactive && colour_wanted();
  // Output to a file has the default width, so that it is the same whatever the window.
  if (terminal.interactive) terminal.width = width_of(file_descriptor);
  return terminal;
}

}  // namespace tangram::cli
