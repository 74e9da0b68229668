// Small helpers on text that parsers and messages share.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tangram::text {

std::string_view trim(std::string_view text);
std::vector<std::string_view> split(std::string_view text, char separator);
std::string lower(std::string_view text);
std::string join(std::span<const std::string> parts, std::string_view separator);

// The whole of `text` as a number, or nothing: no spaces, no rest, no overflow, no "inf" or "nan". The decimal point is
// a point whatever the locale.
std::optional<std::int64_t> parse_integer(std::string_view text);
std::optional<double> parse_number(std::string_view text);

// How many single-letter changes, insertions, removals and swaps of neighbours lead from `a` to `b`.
std::size_t edit_distance(std::string_view a, std::string_view b);
// The candidate that a mistyped `word` most probably meant, if one is near enough to suggest.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates);

// The shortest decimal text that reads back as the same double, e.g. 0.1, 1e+22, 3.
std::string shortest(double value);

}  // namespace tangram::text
