// Readers for the formats in which others have published measurements and traces.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/source.h"

namespace tangram::formats {

struct ImportFormat {
  std::string name;     // What `tangram import` calls it.
  std::string summary;  // One sentence for the help.
  std::string output;   // The file it becomes: "measurements", "trace", "rate curve", "services", ...
};

// In the order of the help.
std::span<const ImportFormat> import_formats();

// The text of one file of ours, made of all `files` together. Headers are checked, and every row that is wrong is
// reported with its place; nothing is skipped silently unless the format says so. A folder's files are given one
// by one, named with enough of their path to tell them apart.
Result<std::string> import_text(std::string_view format, const std::vector<Source>& files);

}  // namespace tangram::formats
