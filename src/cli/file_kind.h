// Which of our files a text is, by looking at it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tangram::cli {

enum class FileKind {
  fleet,
  services,
  measurements,
  trace,
  curve,
  histogram,
  jobs,
  training,
  recuts,
  plan,
  scenario,
  model,
  access
};

// In the order of the help.
const std::vector<std::string>& file_kind_names();
std::optional<FileKind> parse_file_kind(std::string_view name);
std::string_view to_string(FileKind kind);

// Plans and fitted models (JSON), and fleets, services, scenarios and access files (YAML) are recognised by their
// top-level keys, all other kinds by their header row. A file with neither is judged by its name; nullopt if that does
// not help.
std::optional<FileKind> detect_file_kind(std::string_view path, std::string_view content);

}  // namespace tangram::cli
