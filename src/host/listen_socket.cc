// Sockets that listen. Both kinds return a descriptor that does not block and that child processes do not inherit.

#include "host/listen_socket.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

namespace tangram::host {
namespace {

// Connections that wait for accept(). The kernel cuts this to net.core.somaxconn.
constexpr int kBacklog = 1024;

struct ListenAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
};

// Numbers only: a name would need a resolver, which blocks and may give several addresses.
std::optional<ListenAddress> parse_listen_address(const std::string& text, std::uint16_t port) {
  ListenAddress address;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  if (inet_pton(AF_INET, text.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    address.length = sizeof(sockaddr_in);
    return address;
  }
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (inet_pton(AF_INET6, text.c_str(), &v6->sin6_addr) != 1) return std::nullopt;
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(port);
  address.length = sizeof(sockaddr_in6);
  return address;
}

void set_listen_option(int socket, int level, int option, int value) {
  setsockopt(socket, level, option, &value, sizeof value);
}

// A socket file outlives its server. Only a connection attempt can tell a live server from a file that one left behind.
bool somebody_listens_at(const sockaddr_un& address) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool answered = fd >= 0 && connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  if (fd >= 0) close(fd);
  return answered;
}

}  // namespace

Result<int> listen_at(const std::string& address, std::uint16_t port, bool shared) {
  const auto parsed = parse_listen_address(address, port);
  if (!parsed) return Error{ErrorCode::invalid, fmt::format("\"{}\" is not an IP address", address)};
  const int fd = socket(parsed->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return Error{ErrorCode::unavailable, fmt::format("cannot open a socket: {}", std::strerror(errno))};
  // Without it, a restarted server cannot bind while connections of the old one are in TIME_WAIT.
  set_listen_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  // The kernel spreads connections over all sockets of the port, so threads do not contend for one queue.
  if (shared) set_listen_option(fd, SOL_SOCKET, SO_REUSEPORT, 1);
  const bool bound = bind(fd, reinterpret_cast<const sockaddr*>(&parsed->storage), parsed->length) == 0;
  if (!bound || ::listen(fd, kBacklog) != 0) {
    const int error = errno;
    close(fd);
    return Error{error == EACCES ? ErrorCode::denied : ErrorCode::unavailable,
                 fmt::format("cannot listen at {} port {}: {}", address, port, std::strerror(error))};
  }
  return fd;
}

std::uint16_t port_of(int socket) {
  ListenAddress address;
  address.length = sizeof address.storage;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0) return 0;
  // sockaddr_in and sockaddr_in6 have the port at the same offset.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_port);
}

Result<int> listen_at_path(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // An empty path would bind an unnamed socket, and the path needs room for its terminating zero.
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return Error{ErrorCode::invalid,
                 fmt::format("{}: expected a socket path of 1 to {} characters", path, sizeof address.sun_path - 1)};
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  struct stat found {};
  // lstat: a symbolic link is refused rather than followed, so it cannot make the server delete a socket elsewhere.
  if (lstat(path.c_str(), &found) == 0) {
    if (!S_ISSOCK(found.st_mode)) return Error{ErrorCode::invalid, path + ": exists and is not a socket"};
    if (somebody_listens_at(address))
      return Error{ErrorCode::unavailable, path + ": another server listens on this socket"};
    unlink(path.c_str());
  }
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  // bind() creates the file with the permissions that the mask leaves. A chmod() afterwards would leave a moment in
  // which other users could connect.
  const mode_t before = umask(0177);
  const bool bound = fd >= 0 && bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  const int bind_error = errno;
  umask(before);
  if (bound && ::listen(fd, kBacklog) == 0) return fd;
  const int error = bound ? errno : bind_error;
  if (bound) unlink(path.c_str());
  if (fd >= 0) close(fd);
  return Error{error == EACCES ? ErrorCode::denied : ErrorCode::unavailable,
               fmt::format("cannot listen at {}: {}", path, std::strerror(error))};
}

}  // namespace tangram::host
