// A connection to a server: TCP over IPv4 or IPv6 or a Unix socket, plain or with TLS.
//
// Every client of this room and the remote engine talk through this class. It moves bytes and knows nothing of HTTP.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "host/descriptor.h"
#include "host/socket.h"
#include "host/tls.h"

namespace tangram::client {

// Which server, and how it is recognised.
struct StreamTarget {
  host::Endpoint endpoint;
  std::shared_ptr<const host::TlsContext> tls = nullptr;  // Null: plain.
  std::string server_name = {};                           // Whose certificate it must be; empty: the address.
};

// Which calls may block the thread.
enum class StreamWaiting : std::uint8_t {
  never,       // None: open() returns while the connection is still being made.
  connecting,  // open() alone.
  always,      // All, each for at most the limit given to open().
};

class Stream {
 public:
  enum class Status : std::uint8_t {
    moved,    // `bytes` of them, at least one.
    blocked,  // Nothing now. Try again when the socket is ready for what wants_write() says.
    closed,   // The server sends no more.
    failed,   // The connection is useless; why() says the reason.
  };
  struct Moved {
    Status status = Status::moved;
    std::size_t bytes = 0;
  };

  Stream() = default;
  ~Stream() { close(); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Connects, after closing what was open before. `limit` bounds each waiting call; zero waits as long as the kernel
  // does. A name stands for all addresses that the resolver gives, which are tried in turn; in a stream that never
  // waits, the address must be in numbers. The error says only the reason ("Connection refused"), with
  // ErrorCode::invalid for an address that is none: callers put the server's name in front.
  Result<Nothing> open(const StreamTarget& target, StreamWaiting waiting, Duration limit = {});
  // Waits at most `limit` for the TLS handshake; immediate for a plain stream. Without this call the first
  // send_some() or receive_some() begins the handshake. Requires an open stream that may wait while connecting.
  Result<Nothing> shake_hands(Duration limit);
  // Says goodbye to a TLS peer if that needs no waiting, and closes the socket.
  void close();

  bool is_open() const { return socket_.open(); }
  bool encrypted() const { return tls_ != nullptr; }
  // For epoll and poll; negative while the stream is closed.
  int descriptor() const { return socket_.get(); }

  // Both retry after a signal. A stream that waits always reports `failed` instead of `blocked` when its limit passed.
  Moved send_some(std::string_view bytes);
  Moved receive_some(char* buffer, std::size_t room);

  // Whether the socket must become writable before more can happen. A plain stream waits for that while the caller
  // has output left; TLS decides itself and may have to read before it can write.
  bool wants_write(bool output_left) const { return encrypted() ? tls_wants_write_ : output_left; }
  // After readiness of the socket: whether send_some() is worth a call.
  bool may_send(bool readable, bool writable) const { return writable || (encrypted() && readable); }

  // Why the last call failed: what the kernel or TLS says.
  const std::string& why() const { return why_; }

 private:
  // Begins the connection to an address in numbers, or a Unix socket. Ensures a closed socket after an error.
  Result<Nothing> connect_to(const host::Endpoint& endpoint, StreamWaiting waiting, Duration limit);
  Moved outcome(const host::TlsStream::Moved& moved);
  Moved outcome(ssize_t moved);

  host::Descriptor socket_;
  std::unique_ptr<host::TlsStream> tls_;
  bool waits_ = false;  // As StreamWaiting::always.
  bool tls_wants_write_ = false;
  std::string why_;
};

}  // namespace tangram::client
