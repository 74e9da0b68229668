// Reads a file of rows in pieces and keeps its length and FNV-1a digest, which identify the input of a job.
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
    // The splitter keeps its state, so a read can be repeated at any point.
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_failure(path_, "cannot be read", errno);
    const std::string_view bytes(piece_.data(), static_cast<std::size_t>(got));
    // The digest covers all bytes. A changed blank line moves the line numbers in error messages, so it counts as well.
    for (const char c : bytes) digest_ = (digest_ ^ static_cast<unsigned char>(c)) * kFnvPrime;
    bytes_ += bytes.size();
    ended_ = got == 0;
    ended_ ? splitter_.end() : splitter_.feed(bytes);
  }
}

// Reads the whole file once, so a quote that is never closed is found before the first request is sent.
Result<InputFacts> scan_input(const std::string& path, RowFormat format) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return file_failure(path, "cannot be read", errno);
  // A job reads its input at least twice, for the digest and for the rows; a pipe can be read only once.
  if (!S_ISREG(facts.st_mode)) return Error{ErrorCode::invalid, fmt::format("{}: is not a regular file", path)};
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
                 fmt::format("{}: the file is empty; the first line of a CSV file must name its columns", path)};
  }
  found.bytes = file.bytes();
  found.digest = file.digest();
  return found;
}

}  // namespace tangram::client
