// Socket addresses from text, and two socket options. No name is ever resolved: a resolver may block for seconds.

#include "host/socket.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/time.h>
#include <sys/un.h>

#include <cstring>

namespace tangram::host {
namespace {

// Nullopt if the path is too long for a Unix socket.
std::optional<SocketAddress> local_address(const std::string& path) {
  SocketAddress found;
  auto* local = reinterpret_cast<sockaddr_un*>(&found.storage);
  // The path needs a terminating zero, so a path that fills the field exactly is too long.
  if (path.size() >= sizeof local->sun_path) return std::nullopt;
  local->sun_family = AF_UNIX;
  std::memcpy(local->sun_path, path.data(), path.size());
  found.length = sizeof *local;
  return found;
}

}  // namespace

std::string Endpoint::text() const {
  if (!socket_path.empty()) return socket_path;
  // Brackets separate the colons of an IPv6 address from that of the port (RFC 3986 section 3.2.2).
  const bool v6 = address.find(':') != std::string::npos && address.front() != '[';
  return fmt::format("{}{}{}:{}", v6 ? "[" : "", address, v6 ? "]" : "", port);
}

std::optional<SocketAddress> socket_address(const Endpoint& endpoint) {
  if (!endpoint.socket_path.empty()) return local_address(endpoint.socket_path);
  SocketAddress found;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&found.storage);
  if (inet_pton(AF_INET, endpoint.address.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(endpoint.port);
    found.length = sizeof *v4;
    return found;
  }
  // glibc's inet_pton() writes nothing when it fails, so the storage is still zero here.
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&found.storage);
  if (inet_pton(AF_INET6, endpoint.address.c_str(), &v6->sin6_addr) != 1) return std::nullopt;
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(endpoint.port);
  found.length = sizeof *v6;
  return found;
}

bool is_numeric_address(const std::string& text) { return socket_address({.address = text}).has_value(); }

void send_without_delay(int socket) {
  // Nagle's algorithm together with delayed acknowledgements adds up to 40 ms to a small response.
  const int yes = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

void limit_waiting(int socket, Duration limit) {
  // A limit under a microsecond becomes zero here, which the kernel takes for no limit at all.
  timeval time{};
  time.tv_sec = limit.count() / 1'000'000'000;
  time.tv_usec = limit.count() % 1'000'000'000 / 1000;
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
}

}  // namespace tangram::host
