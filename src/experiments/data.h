// The public data sets, from the text of their files to values.
//
// A file that could not be read is passed on as the error of reading it. The experiment reports the first problem in
// the order in which it uses its files, and some experiments do without a file that is missing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/measurement.h"
#include "formats/source.h"

namespace tangram::experiments {

using File = Result<formats::Source>;

// The CSV files below a folder, ascending by name.
struct Folder {
  std::string path;
  Result<std::vector<formats::Source>> files;
};

// `format` is a name of formats::import_text, for example "parvagpu".
Result<Measurements> measurements_of(const std::string& format, const File& file);

// The distinct values of a column, in the order of the file. The file has to have the column.
Result<std::vector<std::string>> distinct_values(const formats::Source& source, std::string_view column);

}  // namespace tangram::experiments
