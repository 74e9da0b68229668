// Text helpers that do not depend on the locale: only ASCII letters have case, and the decimal point is a point.

#include "base/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace tangram::text {

// A view into `text`: nothing is copied.
std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n\f\v";
  const auto first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// n separators give n + 1 parts, also empty ones: "a,,b" has three and "" has one.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// tolower() depends on the locale and would change bytes of UTF-8 characters in some of them.
std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string result;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) result += separator;
    result += parts[i];
  }
  return result;
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  // from_chars accepts a minus but no plus. Removing the plus of "+-5" would turn it into a number.
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> parse_number(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

// Damerau-Levenshtein in its restricted form (a swapped pair is not edited again), in three rows instead of a table:
// the row being filled, the last one, and the one before it, which only swaps need. The cost is |a| * |b|.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({change, last[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates) {
  constexpr std::size_t kLongest = 100;  // Longer words are not typing slips; comparing them costs their square.
  if (word.size() > kLongest) return std::nullopt;
  const std::string typed = lower(word);
  std::optional<std::string> best;
  // One slip in three letters may be a typing error; with more, a suggestion would mislead. The first of equal
  // candidates wins, so the suggestion depends on the order of the list only.
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const auto& candidate : candidates) {
    const std::size_t distance = edit_distance(typed, lower(candidate));
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  // The beginning of a longer word is no slip, but as clear: h100 for h100-80gb.
  constexpr std::size_t kBeginning = 3;
  if (!best && typed.size() >= kBeginning) {
    const auto longer = std::ranges::find_if(candidates, [&](const auto& c) { return lower(c).starts_with(typed); });
    if (longer != candidates.end()) best = *longer;
  }
  return best;
}

std::string shortest(double value) {
  // to_chars without a precision needs at most 24 characters for a double.
  char buffer[32];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value);
  return error == std::errc{} ? std::string(buffer, end) : std::string("nan");
}

}  // namespace tangram::text
