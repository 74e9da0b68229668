#include "formats/importers/importers.h"

#include <fmt/format.h>

#include "base/text.h"

namespace tangram::formats::importers {

void FileProblems::take(const Problems& problems) {
  if (problems.empty()) return;
  if (!message_.empty()) message_ += '\n';
  message_ += problems.error().message;
}

bool has_column(const Source& file, std::string_view name) {
  Problems ignored(file.name);
  CsvReader reader(file.text, ignored);
  std::vector<CsvField> header;
  if (!reader.next(header)) return false;
  for (const auto& field : header) {
    if (text::trim(field.text) == name) return true;
  }
  return false;
}

Error unknown_selection(std::string_view selection, const std::set<std::string>& known) {
  const std::vector<std::string> names(known.begin(), known.end());
  const std::string list = text::join(names, ", ");
  if (selection.empty()) {
    return {ErrorCode::invalid, fmt::format("the file holds several; choose one behind a colon: {}", list)};
  }
  return {ErrorCode::invalid, fmt::format("{} is not in the file, which holds: {}", detail::excerpt(selection), list)};
}

Error no_rows(const Files& files) {
  return {ErrorCode::invalid, fmt::format("{}: no rows to import", files.front().name)};
}

std::string stem_of(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);  // npos + 1 is 0.
  return std::string(name.substr(0, name.rfind('.')));
}

std::string folder_of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return {};
  const std::string_view folder = path.substr(0, slash);
  return std::string(folder.substr(folder.rfind('/') + 1));
}

}  // namespace tangram::formats::importers
