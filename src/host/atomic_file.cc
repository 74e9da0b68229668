// A temporary file beside its target. It is in the same directory because rename(2) is atomic only within a file
// system.

#include "host/atomic_file.h"

#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace tangram::host {
namespace {

// "plan.json" has no parent path, and its directory is the current one.
std::string directory_of(const std::string& path) {
  const auto parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

std::string name_in_directory(const std::string& path) { return std::filesystem::path(path).filename().string(); }

}  // namespace

AtomicFile::AtomicFile(std::string target)
    : target_(std::move(target)),
      directory_(directory_of(target_)),
      temporary_(directory_ + "/." + name_in_directory(target_) + ".XXXXXX"),
      file_(::mkostemp(temporary_.data(), O_CLOEXEC)),
      error_(file_.open() ? 0 : errno),
      there_(file_.open()) {}

AtomicFile::AtomicFile(std::string target, std::string temporary)
    : target_(std::move(target)),
      directory_(directory_of(target_)),
      temporary_(std::move(temporary)),
      file_(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)),
      error_(file_.open() ? 0 : errno),
      there_(file_.open()) {}

AtomicFile::~AtomicFile() {
  // After take_name() the temporary name no longer exists, and another process may already use it.
  if (there_) ::unlink(temporary_.c_str());
}

int AtomicFile::append(std::string_view content) const { return write_all(file_.get(), content); }

int AtomicFile::sync() const { return ::fsync(file_.get()) == 0 ? 0 : errno; }

int AtomicFile::take_name() {
  // A failed close() may be the report of a failed write, so the name is not taken then and the destructor cleans up.
  if (file_.close() != 0 || ::rename(temporary_.c_str(), target_.c_str()) != 0) return errno;
  there_ = false;
  return 0;
}

int AtomicFile::sync_directory() const {
  const Descriptor handle(::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!handle.open()) return errno;
  // Some file systems cannot sync a directory and say EINVAL. The rename has still happened, so that is no error.
  return ::fsync(handle.get()) == 0 || errno == EINVAL ? 0 : errno;
}

}  // namespace tangram::host
