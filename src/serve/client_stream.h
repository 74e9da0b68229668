// The socket of one client, plain or encrypted.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string_view>

#include "host/tls.h"

namespace tangram::serve {

// Returns what recv() and send() return, errno included, whether the socket is encrypted or not. Never blocks.
class ClientStream {
 public:
  // Takes over the socket. `tls` null: plain.
  ClientStream(int socket, std::unique_ptr<host::TlsStream> tls) : socket_(socket), tls_(std::move(tls)) {}
  ~ClientStream() { close(); }
  ClientStream(const ClientStream&) = delete;
  ClientStream& operator=(const ClientStream&) = delete;

  // Completes the TLS handshake first, if needed. `room` is at least one record (16 KiB).
  ssize_t receive(char* buffer, std::size_t room);
  ssize_t send(std::string_view bytes);
  // Below TLS: for bytes that are discarded, and for a client that does not speak TLS.
  ssize_t receive_plain(char* buffer, std::size_t room);
  void send_plain(std::string_view bytes);

  bool is_open() const { return socket_ >= 0; }
  int socket() const { return socket_; }
  const host::TlsStream* tls() const { return tls_.get(); }
  // receive() can continue only when the socket is writable.
  bool receive_wants_write() const { return receive_wants_write_; }
  bool shaking_hands() const { return tls_ != nullptr && !tls_->established(); }
  // The last receive() has failed for good. Only of encrypted streams; others say so by errno.
  bool receive_failed() const { return receive_failed_; }

  // Closes the sending side. The client may keep sending.
  void end_sending();
  // Ends TLS properly, unless end_sending() has, and closes the socket.
  void close();

 private:
  int socket_;  // -1: closed.
  std::unique_ptr<host::TlsStream> tls_;
  bool receive_wants_write_ = false;
  bool receive_failed_ = false;
  bool sending_ended_ = false;
};

}  // namespace tangram::serve
