#include "client/offline_input.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>

#include "client/detail/file_failure.h"

namespace tangram::client {
namespace {

constexpr std::size_t kPieceBytes = 256 << 10;
constexpr std::uint64_t kFnvPrime = 0x100000001b3ULL;

}  // namespace

RowFile::RowFile(std::string path, RowFormat format)
    : path_(std::move(path)),
      file_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)),
      splitter_(format),
      piece_(kPieceBytes, '\0') {}

Result<std::optional<Row>> RowFile::next() {
  while (true) {
    if (auto row = splitter_.next()) return row;
    if (!splitter_.problem().empty()) {
      return Error{ErrorCode::invalid, fmt::format("{}: {}", path_, splitter_.problem())};
    }
    if (ended_) return std::optional<Row>();
    const ssize_t got = ::read(file_.get(), piece_.data(), piece_.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_failure(path_, "cannot be read", errno);
    const std::string_view bytes(piece_.data(), static_cast<std::size_t>(got));
    // All bytes, so that a change in a blank line counts as well: line numbers in errors would be wrong.
    for (const char c : bytes) digest_ = (digest_ ^ static_cast<unsigned char>(c)) * kFnvPrime;
    bytes_ += bytes.size();
    ended_ = got == 0;
    ended_ ? splitter_.end() : splitter_.feed(bytes);
  }
}

Result<InputFacts> scan_input(const std::string& path, RowFormat format) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return file_failure(path, "cannot be read", errno);
  // A pipe could be read only once, and a job reads its input twice.
  if (!S_ISREG(facts.st_mode)) return Error{ErrorCode::invalid, fmt::format("{}: not a file", path)};
  RowFile file(path, format);
  InputFacts found;
  bool anything = false;
  while (true) {
    TANGRAM_TRY(const auto row, file.next());
    if (!row) break;
    found.rows = row->number;
    anything = true;
  }
  if (format == RowFormat::csv && !anything) {
    return Error{ErrorCode::invalid,
                 fmt::format("{}: it is empty; the first line of a CSV file names its columns", path)};
  }
  found.bytes = file.bytes();
  found.digest = file.digest();
  return found;
}

}  // namespace tangram::client
