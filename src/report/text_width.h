// How many columns text takes in a terminal.
#pragma once

#include <string>
#include <string_view>

namespace tangram::report {

// The columns that UTF-8 `text` covers: combining marks take none, East Asian wide letters and emoji two. Bytes that
// are not UTF-8 take one each.
int display_width(std::string_view text);

// The longest beginning of `text` that fits into `columns`, with an ellipsis where something was left out.
std::string cut_to_width(std::string_view text, int columns);

// `text` followed by as many spaces as bring it to `columns`, or preceded by them.
std::string pad_right(std::string_view text, int columns);
std::string pad_left(std::string_view text, int columns);

// `text` broken at spaces into lines of at most `columns`; every line after the first begins with `indent` spaces.
std::string wrap(std::string_view text, int columns, int indent);

}  // namespace tangram::report
