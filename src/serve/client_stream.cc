// One interface for plain and encrypted sockets, with the results and errno of recv() and send(), so that the code of a
// connection does not depend on TLS.

#include "serve/client_stream.h"

#include <sys/socket.h>
#include <unistd.h>

namespace tangram::serve {

ssize_t ClientStream::receive(char* buffer, std::size_t room) {
  if (tls_ == nullptr) return recv(socket_, buffer, room, 0);
  const host::TlsStream::Moved result = tls_->read(buffer, room);
  // During a handshake or a key update TLS may have to send before it can receive.
  receive_wants_write_ = result.status == host::TlsStream::Status::want_write;
  receive_failed_ = result.status == host::TlsStream::Status::failed;
  return host::bytes_moved(result);
}

ssize_t ClientStream::send(std::string_view bytes) {
  // MSG_NOSIGNAL: a client that has gone must give EPIPE and not kill the process.
  if (tls_ == nullptr) return ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  return host::bytes_moved(tls_->write(bytes.data(), bytes.size()));
}

ssize_t ClientStream::receive_plain(char* buffer, std::size_t room) {
  return recv(socket_, buffer, room, MSG_DONTWAIT);
}

void ClientStream::send_plain(std::string_view bytes) {
  ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

// The TLS goodbye (close_notify) goes first: without it the client could not tell the end from a truncation.
void ClientStream::end_sending() {
  sending_ended_ = true;
  if (tls_) tls_->say_goodbye();
  shutdown(socket_, SHUT_WR);
}

// May be called again.
void ClientStream::close() {
  if (socket_ < 0) return;
  if (tls_ && !sending_ended_) tls_->say_goodbye();
  ::close(socket_);
  socket_ = -1;
}

}  // namespace tangram::serve
