// Reading and replacing whole files, with errors that name the path and the reason.
//
// A reader of a file that is being written sees the old content or the new one, never a part. The checks before long
// work find a wrong path at its start instead of losing the result at its end.

#include "host/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "host/atomic_file.h"
#include "host/descriptor.h"

namespace tangram::host {
namespace {

namespace fs = std::filesystem;

ErrorCode code_of(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR: return ErrorCode::not_found;
    case EACCES:
    case EPERM:
    case EROFS: return ErrorCode::denied;
    default: return ErrorCode::unavailable;
  }
}

// "PATH: WHAT: reason". The text for a missing file is fixed; the others are those of the C library.
Error system_error(const std::string& path, std::string_view what, int error) {
  const std::string reason = error == ENOENT ? "no such file or directory" : std::strerror(error);
  return {code_of(error), fmt::format("{}: {}: {}", path, what, reason)};
}

Error too_large(const std::string& path, std::uint64_t size_max) {
  return {ErrorCode::invalid, fmt::format("{}: larger than the limit of {} MiB", path, size_max >> 20)};
}

// Checks the limit while reading as well as before: a pipe has no size, and a file may grow meanwhile.
Result<std::string> read_all(int descriptor, const std::string& path, std::uint64_t size_max) {
  std::string content;
  char chunk[1 << 16];
  for (;;) {
    const ssize_t count = ::read(descriptor, chunk, sizeof chunk);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error(path, "cannot read", errno);
    if (count == 0) return content;
    content.append(chunk, static_cast<std::size_t>(count));
    if (content.size() > size_max) return too_large(path, size_max);
  }
}

// For devices and pipes. Without O_CREAT and O_TRUNC: the target exists, and a rename would replace the device by a
// file.
Result<Nothing> write_directly(const std::string& path, std::string_view content) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.open()) return system_error(path, "cannot write", errno);
  if (const int error = write_all(file.get(), content)) return system_error(path, "cannot write", error);
  return Nothing{};
}

// The mode that a new file gets from open(2). POSIX can read the mask only by setting it, so for a moment the whole
// process has an empty mask.
mode_t new_file_mode() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return static_cast<mode_t>(0666 & ~mask);
}

// Gives a new file the mode and the owner of the one that it replaces. Zero, or the errno of what failed.
int set_mode(int descriptor, const std::optional<struct stat>& before) {
  if (::fchmod(descriptor, before ? before->st_mode & 07777 : new_file_mode()) != 0) return errno;
  // Only root may give files away; for others the new file is their own, as with any editor.
  if (before && ::fchown(descriptor, before->st_uid, before->st_gid) != 0 && errno != EPERM) return errno;
  return 0;
}

// The order is the guarantee: content, mode, fsync, rename, fsync of the directory. A rename before the fsync could
// leave an empty file under the final name after a power failure.
Result<Nothing> replace(const fs::path& target, std::string_view content, const std::optional<struct stat>& before) {
  AtomicFile file(target.string());
  int error = file.error();
  if (error == 0) error = file.append(content);
  if (error == 0) error = set_mode(file.descriptor(), before);
  if (error == 0) error = file.sync();
  if (error == 0) error = file.take_name();
  if (error != 0) return system_error(target.string(), "cannot write", error);
  error = file.sync_directory();
  if (error != 0) return system_error(file.directory(), "cannot sync", error);
  return Nothing{};
}

// Other programs take "-" for standard output. A file of that name is rarely wanted, so the message says what to write.
Error dash() {
  return {ErrorCode::invalid, "-: expected the name of a file to write; for standard output, give /dev/stdout"};
}

// True for names of descriptors that this process inherited: standard input, or the pipe of a shell's `<(...)`.
bool is_open_already(const std::string& path) {
  return path == "/dev/stdin" || path.starts_with("/dev/fd/") || path.starts_with("/proc/self/fd/");
}

std::string_view kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a pipe, which can be read only once";
  return S_ISSOCK(mode) ? "a socket" : "a device";
}

// True if both names mean the same file, whether it exists or not. False for devices and pipes, which may be written
// twice: `--a /dev/stdout --b /dev/stdout` is fine.
bool same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  if (fs::exists(a, error) && !fs::is_regular_file(a, error)) return false;
  // Hard and symbolic links have different paths, so existing files are compared by device and inode.
  if (fs::equivalent(a, b, error)) return true;
  const fs::path left = fs::weakly_canonical(fs::absolute(a, error), error);
  const fs::path right = fs::weakly_canonical(fs::absolute(b, error), error);
  return !left.empty() && left == right;
}

}  // namespace

Result<Nothing> check_writable(const std::string& path) {
  if (path == "-") return dash();
  struct stat status {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (!exists && errno != ENOENT) return system_error(path, "cannot write", errno);
  if (exists && S_ISDIR(status.st_mode)) {
    return Error{ErrorCode::denied, path + ": is a directory; expected a file to write"};
  }
  if (exists && !S_ISREG(status.st_mode)) {
    if (::access(path.c_str(), W_OK) != 0) return system_error(path, "cannot write", errno);
    return Nothing{};
  }
  std::error_code error;
  // The target of a symbolic link, because the temporary file must be created in the directory where the rename
  // happens.
  const fs::path target = exists ? fs::canonical(path, error) : fs::path(path);
  if (error) return system_error(path, "cannot write", error.value());
  // Tried out rather than computed: permissions, quotas and read-only mounts all show up here. The destructor removes
  // it.
  const AtomicFile temporary(target.string());
  if (temporary.error() != 0) return system_error(path, "cannot write", temporary.error());
  return Nothing{};
}

Result<Nothing> check_outputs(const std::vector<OutputFile>& outputs, const std::vector<std::string>& inputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto& [option, path] = outputs[i];
    if (path.empty()) continue;
    for (std::size_t k = 0; k < i; ++k) {
      if (outputs[k].path.empty() || !same_file(path, outputs[k].path)) continue;
      return Error{ErrorCode::invalid, fmt::format("{} and {} both name {}: one would overwrite the other",
                                                   outputs[k].option, option, path)};
    }
    for (const auto& input : inputs) {
      if (!same_file(path, input)) continue;
      return Error{ErrorCode::invalid, fmt::format("{}: {} is an input and would be overwritten", option, path)};
    }
    TANGRAM_RETURN_IF_ERROR(check_writable(path));
  }
  return Nothing{};
}

Result<std::string> read_file(const std::string& path, std::uint64_t size_max) {
  if (path == "-") return read_all(STDIN_FILENO, "standard input", size_max);
  // Opening a named pipe blocks until a writer opens it, and a mistaken path would hang the program. An inherited pipe
  // is open already, and there the reads must block until data comes.
  const int patience = is_open_already(path) ? 0 : O_NONBLOCK;
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | patience));
  if (!file.open()) return system_error(path, "cannot read", errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return system_error(path, "cannot read", errno);
  if (!S_ISREG(status.st_mode) && (S_ISDIR(status.st_mode) || !is_open_already(path))) {
    return Error{ErrorCode::not_found, fmt::format("{}: is {}; expected a file", path, kind_of(status.st_mode))};
  }
  if (S_ISREG(status.st_mode) && static_cast<std::uint64_t>(status.st_size) > size_max)
    return too_large(path, size_max);
  return read_all(file.get(), path, size_max);
}

Result<Nothing> write_file_atomically(const std::string& path, std::string_view content) {
  if (path.empty()) return Error{ErrorCode::invalid, "expected the name of a file to write, read an empty string"};
  if (path == "-") return dash();
  struct stat status {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (!exists && errno != ENOENT) return system_error(path, "cannot write", errno);
  // A dangling symbolic link also counts as missing and is replaced by a file.
  if (!exists) return replace(path, content, std::nullopt);
  if (S_ISDIR(status.st_mode)) return Error{ErrorCode::denied, path + ": is a directory; expected a file to write"};
  if (!S_ISREG(status.st_mode)) return write_directly(path, content);
  std::error_code error;
  const fs::path target = fs::canonical(path, error);
  if (error) return system_error(path, "cannot write", error.value());
  return replace(target, content, status);
}

}  // namespace tangram::host
