// The output of an offline job: answers in the order of the input, and a second file for rows without one.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "client/offline_store.h"
#include "host/atomic_file.h"

namespace tangram::client {

// A file that takes its name when it is whole and on the disk. Until then it is "PATH.JOB.partial": a run after a kill
// overwrites what the killed one left behind.
class WholeFile {
 public:
  WholeFile(const std::string& path, const std::string& job) : file_(path, path + '.' + job + ".partial") {}

  // Buffers up to 256 KiB. Errors: the file cannot be made or written.
  Result<Nothing> append(std::string_view text);
  // Requires all content appended.
  Result<Nothing> finish();

 private:
  Result<Nothing> flush();

  host::AtomicFile file_;
  std::string buffer_;
};

// "out.jsonl.failed.jsonl": one line for each row without an answer.
std::string failed_path(const std::string& output);

// Writes what stands in the store of `job`. The same store gives the same bytes, so a kill in the middle is mended by
// doing it again. Errors: a row has no result, or a file cannot be written.
Result<Nothing> write_output(const OfflineStore& store, const OfflineJob& job);

}  // namespace tangram::client
