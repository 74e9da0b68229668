// Invariant: the event loop knows the socket exactly while it is open. After each call of the owner the wire may be
// gone, which `destroyed_` tells.
#include "node/wire.h"

#include <array>

#include "base/check.h"

namespace tangram::node {
namespace {

constexpr std::size_t kReadBytes = 64 << 10;
// Sent bytes are removed from the front of the output once they are as many as this.
constexpr std::size_t kOutputKept = 256 << 10;

}  // namespace

Wire::Wire(host::EventLoop& loop, WireParts parts, std::size_t in_max, WireOwner& owner)
    : loop_(loop), parts_(std::move(parts)), in_max_(in_max), owner_(owner), in_(std::move(parts_.in)) {
  established_ = parts_.tls->established();
  // A new connection must become writable first; one that is established waits for bytes.
  blocked_ = !established_;
  watched_ = established_ ? host::Interest::read : host::Interest::both;
  loop_.add(parts_.socket.get(), watched_, this);
}

void Wire::close() {
  if (destroyed_ != nullptr) *destroyed_ = true;
  destroyed_ = nullptr;
  if (!parts_.socket.open()) return;
  loop_.remove(parts_.socket.get(), this);
  parts_.tls->say_goodbye();
  parts_.tls.reset();
  parts_.socket.reset();
}

WireParts Wire::release() {
  TANGRAM_CHECK(established_ && unsent() == 0, "a connection is given away between two messages");
  loop_.remove(parts_.socket.get(), this);
  if (destroyed_ != nullptr) *destroyed_ = true;
  destroyed_ = nullptr;
  WireParts given = std::move(parts_);
  given.in = std::move(in_);
  return given;
}

void Wire::send(std::string_view bytes) {
  if (!open()) return;
  out_ += bytes;
  // A connection that waits for its socket is heard of by the loop; its end is, too.
  if (!established_ || blocked_) return;
  write_some();
  watch();
}

bool Wire::write_some() {
  blocked_ = false;
  while (sent_ < out_.size()) {
    const auto moved = parts_.tls->write(out_.data() + sent_, out_.size() - sent_);
    switch (moved.status) {
      case host::TlsStream::Status::done: sent_ += moved.bytes; break;
      case host::TlsStream::Status::want_write: blocked_ = true; [[fallthrough]];
      case host::TlsStream::Status::want_read:
        if (sent_ >= kOutputKept) {
          out_.erase(0, sent_);
          sent_ = 0;
        }
        return true;
      default:
        why_ = parts_.tls->why().empty() ? "the connection was closed" : parts_.tls->why();
        return false;
    }
  }
  out_.clear();
  // An idle connection keeps no memory of its largest batch.
  if (out_.capacity() > kOutputKept) out_.shrink_to_fit();
  sent_ = 0;
  return true;
}

bool Wire::read_some() {
  thread_local std::array<char, kReadBytes> buffer;
  while (true) {
    const auto moved = parts_.tls->read(buffer.data(), buffer.size());
    switch (moved.status) {
      case host::TlsStream::Status::done: in_.append(buffer.data(), moved.bytes); break;
      case host::TlsStream::Status::want_write: blocked_ = true; return true;
      case host::TlsStream::Status::want_read: return true;
      case host::TlsStream::Status::closed: why_ = "the other side closed the connection"; return false;
      case host::TlsStream::Status::failed: why_ = parts_.tls->why(); return false;
    }
    // A peer that sends faster than we read must not keep the loop.
    if (in_.size() > in_max_ || moved.bytes < buffer.size() / 2) return true;
  }
}

void Wire::watch() {
  if (!open()) return;
  const host::Interest wanted = blocked_ ? host::Interest::both : host::Interest::read;
  if (wanted == watched_) return;
  watched_ = wanted;
  loop_.change(parts_.socket.get(), wanted, this);
}

void Wire::end() {
  const std::string why = why_.empty() ? std::string("the connection was closed") : why_;
  close();
  owner_.on_closed(*this, why);
}

void Wire::on_ready(bool readable, bool writable, bool broken) {
  bool destroyed = false;
  if (!established_) {
    const auto moved = parts_.tls->shake_hands();
    blocked_ = moved.status == host::TlsStream::Status::want_write;
    if (moved.status == host::TlsStream::Status::want_read || blocked_) {
      if (!broken) return watch();
      why_ = "it cannot be reached";
      return end();
    }
    if (moved.status != host::TlsStream::Status::done) {
      why_ = parts_.tls->why().empty() ? "the connection was closed" : parts_.tls->why();
      return end();
    }
    established_ = true;
    destroyed_ = &destroyed;
    const bool known = owner_.on_open(*this, parts_.tls->peer_fingerprint());
    if (destroyed) return;
    destroyed_ = nullptr;
    if (!known) {
      why_ = "the other side has another certificate than the one that was expected";
      return end();
    }
    readable = writable = true;  // What was waiting for the handshake goes, and what came with it is read.
  }
  if ((writable || readable) && !write_some()) return end();
  bool alive = true;
  if (readable || broken) {
    const std::size_t before = in_.size();
    alive = read_some();
    if (in_.size() > before) {
      destroyed_ = &destroyed;
      owner_.on_bytes(*this);
      if (destroyed) return;
      destroyed_ = nullptr;
    }
  }
  if (!open()) return;
  if (alive && in_.size() > in_max_) {
    why_ = "it sent a message that is longer than its limit";
    alive = false;
  }
  if (!alive) return end();
  watch();
}

}  // namespace tangram::node
