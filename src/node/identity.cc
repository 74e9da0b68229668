#include "node/identity.h"

#include <fmt/format.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "host/files.h"
#include "recut/checkpoint.h"

namespace tangram::node {
namespace {

constexpr std::uint64_t kIdentityMax = 64 << 10;

Result<Identity> read_identity(const std::string& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) == 0 && (found.st_mode & 077) != 0) {
    return Error{ErrorCode::denied,
                 fmt::format("{}: others may read this private key: chmod 600 {}, or delete it if they have", path, path)};
  }
  TANGRAM_TRY(const auto text, host::read_file(path, kIdentityMax));
  // One file holds both, so that they cannot be of two identities.
  Identity identity{{text, text, "", path, path}, host::certificate_fingerprint(text)};
  TANGRAM_RETURN_IF_ERROR(host::TlsContext::for_pinned(host::TlsSide::server, identity.material));
  return identity;
}

}  // namespace

Identity make_identity(const std::string& name) {
  Identity identity;
  identity.material = host::make_certificate(name);
  identity.fingerprint = host::certificate_fingerprint(identity.material.certificate);
  return identity;
}

Result<Identity> open_identity(const std::string& path, const std::string& name) {
  if (access(path.c_str(), F_OK) == 0) return read_identity(path);
  const Identity made = make_identity(name);
  // A new file of write_file_atomically is readable by all; this one exists with its rights before it has a key.
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0 && errno == EEXIST) return read_identity(path);  // Another process was faster.
  if (file < 0) return Error{ErrorCode::denied, fmt::format("{}: {}", path, std::strerror(errno))};
  const int failed = host::write_all(file, made.material.certificate + made.material.key);
  fsync(file);
  close(file);
  if (failed != 0) {
    unlink(path.c_str());
    return Error{ErrorCode::unavailable, fmt::format("{}: {}", path, std::strerror(failed))};
  }
  return made;
}

std::string nodes_folder(const std::string& wanted) {
  return wanted.empty() ? recut::state_directory("") + "/nodes" : wanted;
}

Result<Nothing> make_private_folder(const std::string& folder) {
  std::error_code problem;
  std::filesystem::create_directories(std::filesystem::path(folder).parent_path(), problem);
  if (mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST) {
    struct stat found {};
    if (stat(folder.c_str(), &found) == 0 && S_ISDIR(found.st_mode)) return Nothing{};
    return Error{ErrorCode::invalid, folder + ": this is not a folder"};
  }
  return Error{ErrorCode::denied, fmt::format("{}: {}", folder, std::strerror(errno))};
}

}  // namespace tangram::node
