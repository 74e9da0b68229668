// The file is rewritten as a whole after each point, by writing another file and renaming it. A file usually has at
// most some thousand rows, so this costs little beside a run, and a crash leaves either the old file or the new one.

#include "measure/result_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "formats/measurements_file.h"
#include "host/files.h"

namespace tangram::measure {

Result<ResultFile> ResultFile::open(const std::string& path, const learn::Target& target, const std::string& source) {
  if (path == "-") {
    return Error{ErrorCode::invalid,
                 "-o: expected a regular file, because it is written again after every measurement"};
  }
  std::error_code error;
  // Writing over the source would change the answers of the engine during the campaign.
  if (std::filesystem::equivalent(path, source, error)) {
    return Error{ErrorCode::invalid, fmt::format("-o: {} is the file that the engine reads its times from", path)};
  }
  ResultFile file;
  file.path_ = path;
  // An empty file is what `mktemp` leaves: as good as none.
  if (std::filesystem::is_regular_file(path, error) && std::filesystem::file_size(path, error) > 0) {
    TANGRAM_TRY(auto text, host::read_file(path));
    TANGRAM_TRY(auto rows, formats::parse_measurements({path, std::move(text)}));
    file.rows_ = std::move(rows);
  }
  file.of_target_ = learn::select(file.rows_, target).size();
  TANGRAM_RETURN_IF_ERROR(host::write_file_atomically(path, formats::write_measurements(file.rows_)));
  return file;
}

Result<Nothing> ResultFile::write(const Measurements& measured) const {
  Measurements all = rows_;
  // The rows of the target that were in the file come first in `measured` and are already in `rows_`.
  const auto known = std::min(of_target_, measured.size());
  all.insert(all.end(), measured.begin() + static_cast<std::ptrdiff_t>(known), measured.end());
  return host::write_file_atomically(path_, formats::write_measurements(all));
}

}  // namespace tangram::measure
