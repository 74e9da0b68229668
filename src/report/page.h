// The head that the HTML reports have in common: colours for light and dark, type, tables. A page is one file that
// needs no other.
#pragma once

#include <string>
#include <string_view>

namespace tangram::report::page {

struct Head {
  std::string_view title;
  std::string_view program;  // "tangram 0.1.0", what wrote the page; may be empty.
  std::string_view style;    // Rules of this page, after those that all pages have.
};
// Everything up to and with `<main>`.
std::string opening(const Head& head);
// From `</main>` to the end.
std::string closing();
// The variable of the i-th series: "s0" to "s11", and again.
std::string series_colour(std::size_t i);

}  // namespace tangram::report::page
