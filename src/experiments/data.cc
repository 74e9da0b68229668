// Published files in their own formats. Each is converted by an importer and then read by the usual parser, so that the
// checks of our formats apply to published data, too.

#include "experiments/data.h"

#include <fmt/format.h>

#include <algorithm>

#include "formats/csv.h"
#include "formats/import.h"
#include "formats/measurements_file.h"

namespace tangram::experiments {

Result<Measurements> measurements_of(const std::string& format, const File& file) {
  if (!file) return file.error();
  TANGRAM_TRY(const auto imported, formats::import_text(format, {*file}));
  return formats::parse_measurements({file->name, imported});
}

Result<std::vector<std::string>> distinct_values(const formats::Source& source, std::string_view column) {
  formats::Problems problems(source.name);
  formats::CsvReader reader(source.text, problems);
  std::vector<formats::CsvField> row;
  if (!reader.next(row)) return Error{ErrorCode::invalid, source.name + ": the file is empty"};
  // The first row is the header. Columns are found by name, so their order does not matter.
  const auto at = std::ranges::find(row, column, &formats::CsvField::text);
  if (at == row.end()) {
    return Error{ErrorCode::invalid, fmt::format("{}:1:1: column {} is missing", source.name, column)};
  }
  const auto index = static_cast<std::size_t>(at - row.begin());
  std::vector<std::string> values;
  while (reader.next(row)) {
    if (index >= row.size()) continue;  // A short row is an error of the importer, which names its line.
    std::string value(row[index].text);
    if (std::ranges::find(values, value) == values.end()) values.push_back(std::move(value));
  }
  return values;
}

}  // namespace tangram::experiments
