#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

#include "base/text.h"

namespace tangram::cli {
namespace {

constexpr int kWidthMin = 20;
constexpr int kWidthMax = 1000;

int usable_width(long columns) {
  if (columns < kWidthMin) return report::kWidthDefault;
  return columns > kWidthMax ? kWidthMax : static_cast<int>(columns);
}

int width_of(int file_descriptor) {
  winsize size{};
  if (ioctl(file_descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return usable_width(size.ws_col);
  if (const char* columns = std::getenv("COLUMNS")) return usable_width(text::parse_integer(columns).value_or(0));
  return report::kWidthDefault;
}

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
  if (terminal.interactive) terminal.width = width_of(file_descriptor);
  return terminal;
}

}  // namespace tangram::cli
