// The beginning and the end that all HTML reports share. A page contains its styles and loads nothing, so it can be
// sent by mail or opened years later.

#include "report/page.h"

#include <fmt/format.h>

#include "report/colours.h"
#include "report/page_style.h"
#include "report/plot.h"

namespace tangram::report::page {

std::string opening(const Head& head) {
  std::string out =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n";
  if (!head.program.empty()) {
    out += fmt::format("<meta name=\"generator\" content=\"{}\">\n", plot::escape(head.program));
  }
  return out + fmt::format("<title>{} - Tangram</title>\n<style>{}{}{}</style>\n</head>\n<body>\n<main>\n",
                           plot::escape(head.title), kPageColours, kPageStyle, head.style);
}

std::string closing() { return "</main>\n</body>\n</html>\n"; }

// Those of services everywhere; a thirteenth series repeats the first.
std::string series_colour(std::size_t i) { return fmt::format("s{}", i % kServiceColours.size()); }

}  // namespace tangram::report::page
