// Whole files in, whole files out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tangram::host {

inline constexpr std::uint64_t kFileSizeMax = std::uint64_t{1} << 30;  // One GiB: a week of a busy trace.

// The content of `path`, or of standard input for "-". The error names the path and says whether it is missing, a
// directory, a pipe or a device, not readable or larger than `size_max`. Pipes that this process was given open,
// /dev/stdin and /dev/fd/N, are read.
Result<std::string> read_file(const std::string& path, std::uint64_t size_max = kFileSizeMax);

// Puts `content` at `path`, whole or not at all: it goes to a temporary file in the same directory, reaches the disk,
// and then takes the name. An existing file keeps its permissions, a symbolic link keeps pointing where it points, a
// directory is refused, and a device or pipe is written directly, because it must not be replaced.
Result<Nothing> write_file_atomically(const std::string& path, std::string_view content);

// Whether write_file_atomically could write `path` now. Leaves no file and changes none.
Result<Nothing> check_writable(const std::string& path);

// A file that was asked for, and the option that named it.
struct OutputFile {
  std::string option;
  std::string path;  // Empty: not asked for.
};

// For the beginning of long work: every file that was asked for can be written, no two are the same, and none is one of
// `inputs`, which are read.
Result<Nothing> check_outputs(const std::vector<OutputFile>& outputs, const std::vector<std::string>& inputs);

}  // namespace tangram::host
