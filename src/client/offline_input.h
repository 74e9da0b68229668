// The input of an offline job: a file of rows, read one after the other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "client/offline_rows.h"
#include "host/descriptor.h"

namespace tangram::client {

// Reads a file in pieces of 256 KiB, so it may be larger than memory, and remembers what it has read by a digest.
class RowFile {
 public:
  // A file that cannot be opened is reported by the first next().
  RowFile(std::string path, RowFormat format);

  // The next row, or nothing at the end of the file. In CSV the first row is the header, with number 0. Errors: the
  // file cannot be read, or one of its lines makes the rest unreadable.
  Result<std::optional<Row>> next();

  // Of what was read so far. The digest (FNV-1a, 64 bits) tells a changed file from the same one, not friend from foe.
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t digest() const { return digest_; }

 private:
  std::string path_;
  host::Descriptor file_;
  RowSplitter splitter_;
  std::string piece_;
  std::uint64_t bytes_ = 0;
  std::uint64_t digest_ = 0xcbf29ce484222325ULL;
  bool ended_ = false;
};

// What a first pass over an input finds.
struct InputFacts {
  std::uint64_t rows = 0;
  std::uint64_t bytes = 0;
  std::uint64_t digest = 0;
};
// Error: the file cannot be read, its line makes the rest unreadable, or it is CSV without a header.
Result<InputFacts> scan_input(const std::string& path, RowFormat format);

}  // namespace tangram::client
