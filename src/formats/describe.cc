// The parts of describe.h that are no templates: scalars from text and back, and the checks that end a map.
//
// Each read_* function returns the problem as the end of a sentence that begins with the key ("must be at least 1, not
// 0"), or an empty text. A value with a problem never reaches the struct, which then keeps its default.

#include "formats/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace tangram::formats {
namespace detail {
namespace {

// The limit that `value` breaks, in words, or an empty text. `text` is the value as the file has it: the message quotes
// what the user wrote, not a rounded double.
std::string check_limits(double value, const Limits& limits, std::string_view text) {
  if (value < limits.min) return fmt::format("must be at least {}, not {}", write_number(limits.min), text);
  if (value > limits.max) return fmt::format("must be at most {}, not {}", write_number(limits.max), text);
  if (value <= limits.above) return fmt::format("must be greater than {}, not {}", write_number(limits.above), text);
  if (value >= limits.below) return fmt::format("must be less than {}, not {}", write_number(limits.below), text);
  return {};
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

bool is_name(std::string_view text) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  if (text.empty() || kLetters.find(text[0]) == std::string_view::npos) return false;
  return std::ranges::all_of(
      text, [&](char c) { return kLetters.find(c) != std::string_view::npos || c == '.' || c == '_' || c == '-'; });
}

// The power of ten between the unit of a key and the nanosecond. A key without a unit is a bug in a description.
int digits_of_unit(std::string_view key) {
  if (key.ends_with("_ns")) return 0;
  if (key.ends_with("_us")) return 3;
  if (key.ends_with("_ms")) return 6;
  TANGRAM_CHECK(key.ends_with("_s"), "the key of a time ends in its unit");
  return 9;
}

// `text` times ten to the power `digits`, rounded to the nearest, from its decimal digits: 1700000000.123456789 s keeps
// every nanosecond, which the 53 bits of a double cannot. Nullopt if it has an exponent, is no number or does not fit.
std::optional<std::int64_t> scaled_digits(std::string_view text, int digits) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const std::size_t point = std::min(text.find('.'), text.size());
  const std::string_view fraction = point < text.size() ? text.substr(point + 1) : std::string_view{};
  std::string all(text.substr(0, point));
  all += fraction.substr(0, static_cast<std::size_t>(digits));
  all.append(static_cast<std::size_t>(digits) - std::min(fraction.size(), static_cast<std::size_t>(digits)), '0');
  const bool digits_only = all.find_first_not_of("0123456789") == std::string::npos &&
                           fraction.find_first_not_of("0123456789") == std::string_view::npos;
  if (!digits_only || point + fraction.size() == 0) return std::nullopt;
  auto value = text::parse_integer(all);
  if (!value) return std::nullopt;
  const bool up =
      fraction.size() > static_cast<std::size_t>(digits) && fraction[static_cast<std::size_t>(digits)] >= '5';
  if (up && *value < INT64_MAX) ++*value;
  return negative ? -*value : *value;
}

}  // namespace

std::string excerpt(std::string_view text) {
  constexpr std::size_t kShown = 40;
  std::size_t length = std::min(kShown, text.size());
  // Moves back to the beginning of a UTF-8 character, so that messages stay valid UTF-8.
  while (length < text.size() && length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0U) == 0x80U) --length;
  std::string shown(text.substr(0, length));
  // A message is one line, whatever the file holds; control characters could also confuse a terminal.
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  }
  return "\"" + shown + (text.size() > kShown ? "...\"" : "\"");
}

std::string read_boolean(std::string_view text, bool& value) {
  if (text != "true" && text != "false") return fmt::format("must be true or false, not {}", excerpt(text));
  value = text == "true";
  return {};
}

std::string read_integer(std::string_view text, const Limits& limits, std::int64_t& value) {
  const auto read = text::parse_integer(text);
  if (!read) return fmt::format("must be a whole number, not {}", excerpt(text));
  // The comparison in doubles is exact up to 2^53. Larger bounds are those of the type, which parse_integer has
  // checked.
  value = *read;
  return check_limits(static_cast<double>(*read), limits, text);
}

std::string read_number(std::string_view text, const Limits& limits, double& value) {
  const auto read = text::parse_number(text);
  if (!read) return fmt::format("must be a number, not {}", excerpt(text));
  std::string problem = check_limits(*read, limits, text);
  if (problem.empty()) value = *read + 0.0;  // -0 becomes 0: they would be written differently.
  return problem;
}

std::string read_text(std::string_view text, const Limits& limits, std::string& value) {
  if (text.empty()) return "must not be empty";
  if (std::ranges::any_of(text, is_control)) return "must not contain control characters";
  if (limits.text == TextRule::name && !is_name(text)) {
    return fmt::format("must consist of letters, digits, '.', '_' and '-' and begin with a letter or digit; read {}",
                       excerpt(text));
  }
  if (limits.names != nullptr) {
    const auto known = limits.names();
    if (std::ranges::find(known, text) == known.end()) return unknown_word(text, known);
  }
  value = text;
  return {};
}

std::string read_time(std::string_view text, std::string_view key, const Limits& limits, std::int64_t& nanoseconds) {
  constexpr double kNanosecondsMax = 9.2e18;  // 292 years.
  const auto number = text::parse_number(text);
  if (!number) return fmt::format("must be a number, not {}", excerpt(text));
  if (std::string problem = check_limits(*number, limits, text); !problem.empty()) return problem;
  const int digits = digits_of_unit(key);
  // The double only checks the range and serves numbers with an exponent; everything else is scaled digit by digit.
  const double scaled = *number * (digits == 9 ? 1e9 : digits == 6 ? 1e6 : digits == 3 ? 1e3 : 1.0);
  if (std::abs(scaled) > kNanosecondsMax) return fmt::format("must be less than 292 years, not {}", text);
  nanoseconds = scaled_digits(text, digits).value_or(std::llround(scaled));
  return {};
}

std::string write_time(std::int64_t nanoseconds, std::string_view key) {
  const int digits = digits_of_unit(key);
  // Negated as an unsigned number, because the smallest int64 has no positive counterpart.
  std::string text = std::to_string(nanoseconds < 0 ? 0U - static_cast<std::uint64_t>(nanoseconds)
                                                    : static_cast<std::uint64_t>(nanoseconds));
  const auto places = static_cast<std::size_t>(digits);
  if (text.size() <= places) text.insert(0, places + 1 - text.size(), '0');
  text.insert(text.size() - places, ".");
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return nanoseconds < 0 ? "-" + text : text;
}

std::string write_number(double value) {
  // Whole numbers below 10^15 are written with plain digits: 1000000 is easier to read than 1e+06.
  constexpr double kPlainMax = 1e15;
  if (value == std::floor(value) && std::abs(value) < kPlainMax) return fmt::format("{:.0f}", value + 0.0);
  return text::shortest(value);
}

bool looks_typed(std::string_view text) {
  return text == "true" || text == "false" || text == "null" || text == "~" || text::parse_number(text).has_value();
}

std::string unknown_word(std::string_view word, const std::vector<std::string>& known) {
  auto near = text::nearest(word, known);
  // A word that was cut short, as a100 for a100-40gb, has a large edit distance but the same beginning.
  const auto longer = std::ranges::find_if(known, [&](const auto& name) { return name.starts_with(word); });
  if (!near && word.size() >= 2 && longer != known.end()) near = *longer;
  return fmt::format("is unknown: {}{}; known: {}", excerpt(word),
                     near ? fmt::format(", did you mean {}?", *near) : std::string(), text::join(known, ", "));
}

Limits within_type(Limits limits, double lowest, double highest) {
  limits.min = std::max(limits.min, lowest);
  limits.max = std::min(limits.max, highest);
  return limits;
}

bool all_right(RuleKeys keys, const std::vector<std::string_view>& wrong) {
  return std::ranges::none_of(keys, [&](std::string_view key) { return std::ranges::find(wrong, key) != wrong.end(); });
}

}  // namespace detail

// A field that is missing or wrong holds its default, and a rule over a default would report a second, misleading
// problem.
void Reader::rule(bool holds, RuleKeys keys, std::string_view message) {
  if (holds || !detail::all_right(keys, wrong_)) return;
  for (const auto& entry : node_.entries) {
    if (entry.key == *keys.begin()) return problems_.add(entry.value.at, std::string(message));
  }
  problems_.add(node_.at, std::string(message));
}

// Remembers the key as known, which is how finish_record() finds the unknown ones. Reports a required key that is
// missing.
const Entry* Reader::expect(std::string_view key, bool required) {
  known_.emplace_back(key);
  for (const auto& entry : node_.entries) {
    if (entry.key == key) return &entry;
  }
  if (required) problems_.add(node_.at, fmt::format("{} is missing", key));
  return nullptr;
}

// An alternative of a choice. All that are present are kept, so that finish_choice() can report more than one.
const Entry* Reader::choose(std::string_view key) {
  const Entry* entry = expect(key, false);
  if (entry == nullptr) return nullptr;
  chosen_.push_back(entry);
  return entry;
}

bool Reader::is_map(const char* expected) {
  if (node_.kind == Node::Kind::map) return true;
  problems_.add(node_.at, fmt::format("{} must be a map of keys and values", expected));
  return false;
}

void Reader::report_unknown_keys(std::string_view what) {
  for (const auto& entry : node_.entries) {
    if (std::ranges::find(known_, entry.key) != known_.end()) continue;
    problems_.add(entry.at, fmt::format("{} {}", what, detail::unknown_word(entry.key, known_)));
  }
}

void Reader::finish_record() { report_unknown_keys("key"); }

void Reader::finish_choice() {
  if (bare_) return;
  if (node_.kind != Node::Kind::map) {
    return problems_.add(node_.at, fmt::format("must be a map with one of: {}", text::join(known_, ", ")));
  }
  report_unknown_keys("key");
  if (chosen_.size() > 1) {
    // chosen_ has the order of the description. The message names the keys in the order of the file, at the second one.
    std::ranges::sort(chosen_, {}, &Entry::at);
    return problems_.add(chosen_[1]->at, fmt::format("{} and {} cannot be combined", chosen_[0]->key, chosen_[1]->key));
  }
  // If there are entries, each is unknown and has been reported with its own suggestion.
  if (chosen_.empty() && node_.entries.empty()) {
    problems_.add(node_.at, fmt::format("needs one of: {}", text::join(known_, ", ")));
  }
}

const std::string* Reader::scalar_of(const Node& node, std::string_view key, bool text) {
  if (node.kind == Node::Kind::null) {
    report(node.at, key, "has no value");
  } else if (node.kind != Node::Kind::scalar) {
    report(node.at, key, "must be a single value");
    // YAML reads 1.10, true and null as typed values. Taking them for text silently would hide a mistake, so quotes are
    // asked for: `version: "1.10"`.
  } else if (text && !node.quoted && detail::looks_typed(node.text)) {
    report(node.at, key, fmt::format("must be a string; if {} is meant as one, write it in quotes", node.text));
  } else if (!text && node.quoted) {
    report(node.at, key, fmt::format("must not be in quotes: {}", detail::excerpt(node.text)));
  } else {
    return &node.text;
  }
  return nullptr;
}

void Reader::report(Position at, std::string_view key, const std::string& text) {
  problems_.add(at, key.empty() ? text : fmt::format("{} {}", key, text));
}

}  // namespace tangram::formats
