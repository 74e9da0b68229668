// Sockets that listen: at an address, or at a path of the file system.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace tangram::host {

// A socket that listens at `address` (numbers, v4 or v6). Port 0 takes a free one. `shared` lets several threads listen
// at one port, each with its own queue. The descriptor does not block and is the caller's.
Result<int> listen_at(const std::string& address, std::uint16_t port, bool shared);
// The port that a socket of listen_at() has.
std::uint16_t port_of(int socket);
// A Unix socket at `path`, which only this user may open. A socket file that a dead server left is replaced; one at
// which a server still answers is an error.
Result<int> listen_at_path(const std::string& path);

}  // namespace tangram::host
