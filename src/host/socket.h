// Addresses of sockets, and the options that every connection of ours sets.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"

namespace tangram::host {

// Where a server listens: an address in numbers (IPv4 or IPv6) and a port, or the path of a Unix socket.
struct Endpoint {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;
  std::string socket_path = {};  // Not empty: used instead of address and port.

  // "127.0.0.1:8002", "[::1]:8002", or the path. This is also what the Host field of a request holds.
  std::string text() const;
  bool operator==(const Endpoint&) const = default;
};

// What connect(2) and bind(2) take.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  int family() const { return storage.ss_family; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// Nothing if the address is not in numbers, or the path is longer than a Unix socket may have (107 bytes).
std::optional<SocketAddress> socket_address(const Endpoint& endpoint);
// True for an IPv4 or IPv6 address in numbers, without brackets and without a port.
bool is_numeric_address(const std::string& text);

// Sends small messages at once instead of waiting for more to join them. Unix sockets always do.
void send_without_delay(int socket);
// Calls that wait for this socket return EAGAIN after `limit`. Both directions.
void limit_waiting(int socket, Duration limit);

}  // namespace tangram::host
