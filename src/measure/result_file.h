// The measurements file that a campaign extends.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"
#include "core/measurement.h"
#include "learn/candidate.h"

namespace tangram::measure {

// Rows that were in the file stay first, whichever model they are about; new rows follow. Each write replaces the whole
// file, so that an interrupted campaign loses at most the point at hand.
class ResultFile {
 public:
  // Reads the rows of `path`, if it exists, and writes them back at once: a file that cannot be written is noticed
  // before the first run, which may take hours. Errors: that, a file that holds something else, "-", or `source`, which
  // the engine answers from.
  static Result<ResultFile> open(const std::string& path, const learn::Target& target, const std::string& source);

  // The rows that were found.
  const Measurements& rows() const { return rows_; }
  // `measured`: all of the target so far, beginning with those that were found.
  Result<Nothing> write(const Measurements& measured) const;

 private:
  std::string path_;
  Measurements rows_;
  std::size_t of_target_ = 0;  // How many of rows_ are about the target.
};

}  // namespace tangram::measure
