// Writes JSON values as YAML in block style.
//
// JSON is a subset of YAML, so every scalar that is in doubt is written as JSON; only strings that both versions of
// YAML read as the same string are written without quotes. Example: {"mode": "on"} becomes `mode: "on"`, because YAML
// 1.1 reads a bare `on` as true.

#include "report/yaml.h"

#include <algorithm>

#include "base/text.h"

namespace tangram::report {
namespace {

bool is_plain_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("_./@+-").find(c) != std::string_view::npos;
}

// True if YAML 1.1 and 1.2 both read `text` as the same string. It begins with a letter, so it is no number or date,
// and has only characters without a meaning in YAML.
bool may_stand_bare(const std::string& text) {
  static constexpr std::string_view kReserved[] = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"};
  if (text.empty() || text == "." || std::ranges::find(kReserved, text::lower(text)) != std::end(kReserved))
    return false;
  const bool letter_first = (text[0] >= 'a' && text[0] <= 'z') || (text[0] >= 'A' && text[0] <= 'Z');
  return letter_first && std::ranges::all_of(text, is_plain_letter);
}

// Invalid UTF-8 is replaced and not thrown: a name from outside must not end a report.
std::string dump(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string scalar(const Json& value) {
  if (value.is_string() && may_stand_bare(value.get_ref<const std::string&>())) return value.get<std::string>();
  return dump(value);
}

std::string key_text(const std::string& key) { return may_stand_bare(key) ? key : dump(Json(key)); }

// Empty lists and objects have no block form and are written as [] and {}.
bool is_block(const Json& value) { return value.is_structured() && !value.empty(); }

// Lists of numbers stay on one line, because placements are read as a row: [0, 4].
bool is_row(const Json& value) {
  return value.is_array() && std::ranges::all_of(value, [](const Json& item) { return item.is_number(); });
}

void emit(const Json& value, std::size_t indent, std::string& out);

void emit_after_key(const Json& value, std::size_t indent, std::string& out) {
  if (is_block(value) && !is_row(value)) {
    out += '\n';
    emit(value, indent, out);
  } else {
    out += ' ' + scalar(value) + '\n';
  }
}

void emit_object(const Json& value, std::size_t indent, std::string& out) {
  for (const auto& [key, item] : value.items()) {
    out += std::string(indent, ' ') + key_text(key) + ':';
    emit_after_key(item, indent + 2, out);
  }
}

void emit_array(const Json& value, std::size_t indent, std::string& out) {
  for (const auto& item : value) {
    out += std::string(indent, ' ') + "- ";
    if (!is_block(item) || is_row(item)) {
      out += scalar(item) + '\n';
      continue;
    }
    // The first line of a nested block follows its dash, so its indentation is removed.
    std::string nested;
    emit(item, indent + 2, nested);
    out += nested.substr(indent + 2);
  }
}

void emit(const Json& value, std::size_t indent, std::string& out) {
  if (!is_block(value)) {
    out += std::string(indent, ' ') + scalar(value) + '\n';
  } else if (value.is_object()) {
    emit_object(value, indent, out);
  } else {
    emit_array(value, indent, out);
  }
}

}  // namespace

std::string to_yaml(const Json& value) {
  std::string out;
  emit(value, 0, out);
  return out;
}

}  // namespace tangram::report
