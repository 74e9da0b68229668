// Detects which kind of file a text is.
//
// Detection must also work for files with errors, because `tangram validate` exists to explain them. So nothing is
// parsed: the JSON scan only looks for keys of the outermost object, the YAML scan for words at the start of a line,
// and CSV files are recognised by their header. Only a file without any of these marks is judged by its name.

#include "cli/file_kind.h"

#include <algorithm>
#include <functional>
#include <set>
#include <span>

#include "base/text.h"

namespace tangram::cli {
namespace {

// The first lines that are neither blank nor comments. 256 of them reach every top-level key of a typical document
// without scanning a trace of a million rows.
std::vector<std::string_view> first_lines(std::string_view content) {
  constexpr std::size_t kEnough = 256;
  std::vector<std::string_view> lines;
  while (!content.empty() && lines.size() < kEnough) {
    const std::size_t end = std::min(content.find('\n'), content.size());
    const std::string_view line = content.substr(0, end);
    if (!text::trim(line).empty() && !text::trim(line).starts_with('#')) lines.push_back(line);
    content.remove_prefix(std::min(end + 1, content.size()));
  }
  return lines;
}

// Each test uses columns that no other kind has. A curve has no header: its first line is a number.
std::optional<FileKind> kind_of_header(std::string_view line) {
  std::vector<std::string> columns;
  for (const auto column : text::split(line, ',')) columns.emplace_back(text::trim(column));
  const auto has = [&](const char* name) { return std::ranges::find(columns, name) != columns.end(); };
  if (has("mig_profile") || has("latency_ms")) return FileKind::measurements;
  if (has("at_s")) return FileKind::trace;
  if (has("submit_s")) return FileKind::jobs;
  if (has("application") && has("step_s")) return FileKind::training;
  if (has("slices") && has("action")) return FileKind::recuts;
  if (has("size") && has("weight")) return FileKind::histogram;
  if (columns.size() == 1 && text::parse_number(columns[0])) return FileKind::curve;
  return std::nullopt;
}

struct KeyOfKind {
  std::string_view key;
  FileKind kind;
};
// The order matters: the first key of the table that a document has decides. A scenario has `services` as well, but
// only a scenario has `latency`, so it comes first. The same key means a fleet in YAML and a plan in JSON.
constexpr KeyOfKind kKeysOfYaml[] = {{"latency", FileKind::scenario},
                                     {"devices", FileKind::fleet},
                                     {"services", FileKind::services},
                                     {"tenants", FileKind::access}};
constexpr KeyOfKind kKeysOfJson[] = {{"models", FileKind::model}, {"devices", FileKind::plan}};

// The text before the first colon of each line. An indented key keeps its blanks and so matches no top-level key.
std::set<std::string, std::less<>> yaml_keys(const std::vector<std::string_view>& lines) {
  std::set<std::string, std::less<>> keys;
  for (const auto line : lines) {
    const std::size_t colon = line.find(':');
    if (colon != std::string_view::npos) keys.emplace(line.substr(0, colon));
  }
  return keys;
}

// The keys of the outermost object of a JSON document: strings at depth one that a colon follows. The document may be
// invalid further on. One pass, linear in the text.
std::set<std::string, std::less<>> json_keys(std::string_view text) {
  std::set<std::string, std::less<>> keys;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (c != '"') continue;
    const std::size_t begin = i + 1;
    // Skip the character after a backslash, so that an escaped quote does not end the string.
    for (++i; i < text.size() && text[i] != '"'; ++i) i += text[i] == '\\' ? 1 : 0;
    const std::size_t next = text.find_first_not_of(" \t\r\n", std::min(i + 1, text.size()));
    const bool key = depth == 1 && next != std::string_view::npos && text[next] == ':';
    if (key) keys.emplace(text.substr(begin, i - begin));
  }
  return keys;
}

std::optional<FileKind> kind_of_keys(const std::set<std::string, std::less<>>& keys, std::span<const KeyOfKind> known) {
  for (const auto& [key, kind] : known) {
    if (keys.contains(key)) return kind;
  }
  return std::nullopt;
}

// Judges by the file name alone, without its folders: "plans/my-fleet.yaml" is a fleet.
std::optional<FileKind> kind_of_path(std::string_view path) {
  const std::string name = text::lower(path.substr(path.rfind('/') + 1));
  for (const auto& kind : file_kind_names()) {
    if (name.find(kind) != std::string::npos) return parse_file_kind(kind);
  }
  return std::nullopt;
}

}  // namespace

const std::vector<std::string>& file_kind_names() {
  // In the order of FileKind: both conversions below use the index.
  static const std::vector<std::string> names{"fleet",     "services", "measurements", "trace",  "curve",
                                              "histogram", "jobs",     "training",     "recuts", "plan",
                                              "scenario",  "model",    "access"};
  return names;
}

std::optional<FileKind> parse_file_kind(std::string_view name) {
  const auto& names = file_kind_names();
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<FileKind>(found - names.begin());
}

std::string_view to_string(FileKind kind) { return file_kind_names()[static_cast<std::size_t>(kind)]; }

std::optional<FileKind> detect_file_kind(std::string_view path, std::string_view content) {
  if (content.starts_with("\xEF\xBB\xBF")) content.remove_prefix(3);  // The UTF-8 byte order mark.
  if (text::trim(content).starts_with('{')) {
    const auto kind = kind_of_keys(json_keys(content), kKeysOfJson);
    return kind ? kind : kind_of_path(path);
  }
  const auto lines = first_lines(content);
  if (const auto kind = kind_of_keys(yaml_keys(lines), kKeysOfYaml)) return kind;
  if (!lines.empty()) {
    if (const auto kind = kind_of_header(lines.front())) return kind;
  }
  return kind_of_path(path);
}

}  // namespace tangram::cli
