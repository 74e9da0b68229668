// Invariants: tls_ is null or talks over socket_, and is destroyed before it; a closed stream has neither.
#include "client/stream.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "host/resolve.h"

namespace tangram::client {
namespace {

// Where to connect to, in the order in which to try.
Result<std::vector<host::Endpoint>> endpoints_of(const host::Endpoint& endpoint, StreamWaiting waiting) {
  std::vector<host::Endpoint> endpoints{endpoint};
  if (!endpoint.socket_path.empty() || waiting == StreamWaiting::never) return endpoints;
  auto addresses = host::addresses_of(endpoint.address);
  if (!addresses) return Error{ErrorCode::invalid, addresses.error().message};
  endpoints.clear();
  for (auto& address : *addresses) endpoints.push_back({.address = std::move(address), .port = endpoint.port});
  return endpoints;
}

}  // namespace

Result<Nothing> Stream::open(const StreamTarget& target, StreamWaiting waiting, Duration limit) {
  close();
  why_.clear();
  waits_ = waiting == StreamWaiting::always;
  TANGRAM_TRY(const auto endpoints, endpoints_of(target.endpoint, waiting));
  // A machine may have an address of each kind, of which the server listens at one.
  Result<Nothing> connected = Nothing{};
  for (const auto& endpoint : endpoints) {
    connected = connect_to(endpoint, waiting, limit);
    if (connected) break;
  }
  TANGRAM_RETURN_IF_ERROR(connected);
  if (target.tls == nullptr) return Nothing{};
  // The certificate must match the server's name, or its address if no name was given.
  tls_ = host::TlsStream::connect(target.tls, socket_.get(),
                                  target.server_name.empty() ? target.endpoint.address : target.server_name);
  tls_->set_waiting(waits_);
  return Nothing{};
}

Result<Nothing> Stream::connect_to(const host::Endpoint& endpoint, StreamWaiting waiting, Duration limit) {
  const auto address = host::socket_address(endpoint);
  if (!address) return Error{ErrorCode::invalid, "expected an IP address, such as 127.0.0.1, or the path of a socket"};
  const int flags = SOCK_STREAM | SOCK_CLOEXEC | (waiting == StreamWaiting::never ? SOCK_NONBLOCK : 0);
  socket_.reset(::socket(address->family(), flags, 0));
  if (!socket_.open()) return Error{ErrorCode::unavailable, std::strerror(errno)};
  if (limit > Duration::zero()) host::limit_waiting(socket_.get(), limit);
  host::send_without_delay(socket_.get());
  // In a stream that never waits, the connection is made in the background; the socket becomes writable when it is up.
  const bool connected = ::connect(socket_.get(), address->get(), address->length) == 0;
  const bool under_way = waiting == StreamWaiting::never && errno == EINPROGRESS;
  if (connected || under_way) return Nothing{};
  const Error error{ErrorCode::unavailable, std::strerror(errno)};
  close();
  return error;
}

Result<Nothing> Stream::shake_hands(Duration limit) {
  if (tls_ == nullptr) return Nothing{};
  // The limit stays on the socket, which is harmless: calls that do not wait ignore it.
  host::limit_waiting(socket_.get(), limit);
  tls_->set_waiting(true);
  const host::TlsStream::Moved moved = tls_->shake_hands();
  tls_->set_waiting(waits_);
  if (moved.status == host::TlsStream::Status::done) return Nothing{};
  const bool closed = moved.status == host::TlsStream::Status::closed;
  why_ = !tls_->why().empty() ? tls_->why() : closed ? "the connection was closed" : "timed out";
  return Error{ErrorCode::unavailable, why_};
}

void Stream::close() {
  // close_notify is sent without waiting: a peer that is gone must not delay the close.
  if (tls_ != nullptr) {
    tls_->set_waiting(false);
    tls_->say_goodbye();
  }
  // In this order: the TLS stream uses the socket's descriptor until it is destroyed.
  tls_.reset();
  socket_.reset();
  tls_wants_write_ = false;
}

Stream::Moved Stream::outcome(const host::TlsStream::Moved& moved) {
  tls_wants_write_ = moved.status == host::TlsStream::Status::want_write;
  switch (moved.status) {
    case host::TlsStream::Status::done: return {Status::moved, moved.bytes};
    case host::TlsStream::Status::closed: return {Status::closed, 0};
    case host::TlsStream::Status::failed: why_ = tls_->why(); return {Status::failed, 0};
    case host::TlsStream::Status::want_read:
    case host::TlsStream::Status::want_write: break;
  }
  // A waiting stream blocks in the kernel, so an unfinished call means that its limit has passed.
  if (!waits_) return {Status::blocked, 0};
  why_ = "timed out";
  return {Status::failed, 0};
}

// A result of send(2) or recv(2), with errno.
Stream::Moved Stream::outcome(ssize_t moved) {
  if (moved > 0) return {Status::moved, static_cast<std::size_t>(moved)};
  if (moved == 0) return {Status::closed, 0};
  if (!waits_ && (errno == EAGAIN || errno == EWOULDBLOCK)) return {Status::blocked, 0};
  why_ = std::strerror(errno);
  return {Status::failed, 0};
}

// Retries on EINTR: a socket call with a time limit is interrupted even by signals without a handler, such as SIGCHLD.
Stream::Moved Stream::send_some(std::string_view bytes) {
  if (tls_ != nullptr) return outcome(tls_->write(bytes.data(), bytes.size()));
  ssize_t sent = 0;
  do {
    sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | (waits_ ? 0 : MSG_DONTWAIT));
  } while (sent < 0 && errno == EINTR);
  return outcome(sent);
}

Stream::Moved Stream::receive_some(char* buffer, std::size_t room) {
  if (tls_ != nullptr) return outcome(tls_->read(buffer, room));
  ssize_t got = 0;
  do {
    got = ::recv(socket_.get(), buffer, room, waits_ ? 0 : MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  return outcome(got);
}

}  // namespace tangram::client
