// A server's side of a connection, for tests: it listens, accepts and says what the test wants.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "host/descriptor.h"
#include "host/socket.h"

namespace tangram::client::test {

// The end of a connection that a listener has accepted.
class Peer {
 public:
  explicit Peer(int socket) : socket_(socket) {}

  int descriptor() const { return socket_.get(); }
  void say(std::string_view text) const { EXPECT_EQ(host::write_all(socket_.get(), text), 0); }
  // Waits for `count` bytes at most as long as a test may take.
  std::string hear(std::size_t count) const {
    std::string heard;
    std::array<char, 4096> buffer;
    while (heard.size() < count) {
      const ssize_t got = ::recv(socket_.get(), buffer.data(), std::min(buffer.size(), count - heard.size()), 0);
      if (got <= 0) return heard;
      heard.append(buffer.data(), static_cast<std::size_t>(got));
    }
    return heard;
  }
  // How many bytes there are to hear now; they are gone then.
  std::size_t hear_available() const {
    std::array<char, 64 << 10> buffer;
    std::size_t heard = 0;
    for (ssize_t got = 1; got > 0; heard += static_cast<std::size_t>(std::max<ssize_t>(got, 0))) {
      got = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    }
    return heard;
  }
  void hang_up() { socket_.reset(); }

 private:
  host::Descriptor socket_;
};

// Listens at a free port, or at a path. A machine without IPv6 has no ::1: open() is false then.
class Listener {
 public:
  explicit Listener(host::Endpoint endpoint = {}) : endpoint_(std::move(endpoint)) {
    auto address = *host::socket_address(endpoint_);
    socket_.reset(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    const bool bound = ::bind(socket_.get(), address.get(), address.length) == 0 && ::listen(socket_.get(), 8) == 0;
    if (!bound) socket_.reset();
    if (!bound || address.family() == AF_UNIX) return;
    ::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address.storage), &address.length);
    // Both families have the port at the same place.
    endpoint_.port = ntohs(reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_port);
  }

  bool open() const { return socket_.open(); }
  int descriptor() const { return socket_.get(); }
  const host::Endpoint& endpoint() const { return endpoint_; }
  Peer accept() const { return Peer(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC)); }

 private:
  host::Endpoint endpoint_;
  host::Descriptor socket_;
};

// Waits until the descriptor is ready for `events` (POLLIN, POLLOUT).
inline void wait_for(int descriptor, short events) {
  pollfd watched{descriptor, events, 0};
  constexpr int kFarTooLongMs = 30'000;
  EXPECT_EQ(::poll(&watched, 1, kFarTooLongMs), 1);
}

}  // namespace tangram::client::test
