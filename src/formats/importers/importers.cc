// Functions that several importers share: headers, prefixes of names, and errors with the same wording.

#include "formats/importers/importers.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace tangram::formats::importers {

void FileProblems::take(const Problems& problems) {
  if (problems.empty()) return;
  if (!message_.empty()) message_ += '\n';
  message_ += problems.error().message;
}

// Problems are ignored here, because the reader of the rows reports them again with the right context.
std::set<std::string, std::less<>> header_of(const Source& file) {
  Problems ignored(file.name);
  CsvReader reader(file.text, ignored);
  std::vector<CsvField> header;
  std::set<std::string, std::less<>> columns;
  if (!reader.next(header)) return columns;
  for (const auto& field : header) columns.emplace(text::trim(field.text));
  return columns;
}

// One file with the column is enough: the others are then reported by the reader of that kind.
bool have_column(const Files& files, std::string_view name) {
  return std::ranges::any_of(files, [&](const Source& file) { return header_of(file).contains(name); });
}

Error unknown_selection(std::string_view format, std::string_view selection, const std::set<std::string>& known) {
  const std::vector<std::string> names(known.begin(), known.end());
  const std::string list = text::join(names, ", ");
  // Without a selection there are several to choose from; with one, it does not exist.
  if (selection.empty()) {
    return {ErrorCode::invalid,
            fmt::format("the file has several; give one of these names as {}:NAME: {}", format, list)};
  }
  return {ErrorCode::invalid, fmt::format("{}:{} does not exist; expected one of {}", format, selection, list)};
}

Error no_rows(const Files& files) { return {ErrorCode::invalid, fmt::format("{}: {}", files.front().name, kNoRows)}; }

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

Result<std::map<std::string, std::string>> prefixes_of(const Files& files, std::string_view separator) {
  std::map<std::string, std::string> prefixes;
  std::map<std::string, std::string> owners;
  for (const auto& file : files) {
    const std::string stem = stem_of(file.name);
    // Prefixes are stems, so a/x.csv and b/x.csv could not be told apart.
    const auto [owner, fresh] = owners.emplace(stem, file.name);
    if (!fresh) {
      return Error{
          ErrorCode::invalid,
          fmt::format("{}: {} has the same file name, so their rows could not be told apart; import one of them",
                      file.name, owner->second)};
    }
    // A single file needs no prefix, so its names stay as they were published.
    prefixes[file.name] = files.size() > 1 ? stem + std::string(separator) : "";
  }
  return prefixes;
}

}  // namespace tangram::formats::importers
