// One TLS connection between a gateway and a node, on an event loop: bytes out, bytes in, and its end.
//
// Both sides are recognised by the fingerprints of their certificates, which the owner compares in on_open() before
// anything else. Nothing here waits.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "host/descriptor.h"
#include "host/event_loop.h"
#include "host/tls.h"

namespace tangram::node {

class Wire;

// What a wire tells its owner, on the thread of the event loop. The owner may destroy the wire in each of them.
class WireOwner {
 public:
  virtual ~WireOwner() = default;
  // The handshake is over, and the other side has shown this certificate. False: it is not who it should be.
  virtual bool on_open(Wire& wire, const std::string& fingerprint) = 0;
  // More bytes are in wire.in(); the owner takes what it understands.
  virtual void on_bytes(Wire& wire) = 0;
  // The connection has ended and is closed. Not called after close().
  virtual void on_closed(Wire& wire, const std::string& why) = 0;
};

// A connection that changes its owner and its loop.
struct WireParts {
  host::Descriptor socket;
  std::unique_ptr<host::TlsStream> tls;
  std::string in;  // Came and was not taken.
};

class Wire final : private host::Readiness {
 public:
  // `in_max`: more bytes than these that the owner leaves in in() end the connection.
  Wire(host::EventLoop& loop, WireParts parts, std::size_t in_max, WireOwner& owner);
  ~Wire() override { close(); }
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  // Sends what the socket takes now and the rest later. Does not call the owner.
  void send(std::string_view bytes);
  // The bytes that have come, oldest first.
  std::string& in() { return in_; }
  void set_in_max(std::size_t bytes) { in_max_ = bytes; }
  // Bytes that the socket has not taken yet.
  std::size_t unsent() const { return out_.size() - sent_; }
  bool open() const { return parts_.socket.open(); }
  bool established() const { return established_; }
  // Ends the connection without telling the owner.
  void close();
  // Gives the connection away. Requires an established one without unsent bytes; the wire is closed afterwards.
  WireParts release();

 private:
  void on_ready(bool readable, bool writable, bool broken) override;
  // Both return false if the connection has ended; why_ says why.
  bool write_some();
  bool read_some();
  // Watches for what the connection waits for.
  void watch();
  // Tells the owner of the end. The wire may be destroyed afterwards.
  void end();

  host::EventLoop& loop_;
  WireParts parts_;
  std::size_t in_max_;
  WireOwner& owner_;
  std::string in_;
  std::string out_;
  std::size_t sent_ = 0;  // Bytes of out_.
  bool established_ = false;
  bool blocked_ = false;  // The socket must become writable before more can happen.
  host::Interest watched_ = host::Interest::read;
  std::string why_;
  bool* destroyed_ = nullptr;  // Set while the owner is called.
};

}  // namespace tangram::node
