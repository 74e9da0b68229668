// One keep-alive connection with at most one request under way, driven by readiness events.
//
// Invariant: busy_ is true from begin() until an event other than `none` or abandon(); pipelining is never used.
#include "client/http_connection.h"

#include <array>

#include "base/check.h"

namespace tangram::client {
namespace {

constexpr std::size_t kReadBytes = 64 << 10;

}  // namespace

void HttpConnection::begin(std::string request) {
  TANGRAM_CHECK(!busy_, "one request at a time");
  out_ = std::move(request);
  begin_again();
}

void HttpConnection::begin_again() {
  busy_ = true;
  sent_ = 0;
  answer_.begin();
}

HttpConnection::Event HttpConnection::finish(Event event) {
  busy_ = false;
  return event;
}

HttpConnection::Event HttpConnection::write() {
  // A server that rejects a long request may answer and close before it has read all of it. The send then fails while
  // an answer is in the socket. It counts as lost: the caller retries or gives up.
  while (output_left()) {
    const Stream::Moved moved = stream_.send_some(std::string_view(out_).substr(sent_));
    if (moved.status == Stream::Status::blocked) return Event::none;
    if (moved.status != Stream::Status::moved) return finish(Event::lost);
    sent_ += moved.bytes;
  }
  return Event::none;
}

HttpConnection::Event HttpConnection::read() {
  // Shared by all connections of a thread: the bytes are copied into the answer before the next read.
  thread_local std::array<char, kReadBytes> buffer;
  while (true) {
    const Stream::Moved moved = stream_.receive_some(buffer.data(), buffer.size());
    if (moved.status == Stream::Status::blocked) return Event::none;
    if (!busy_) return Event::ended;  // Bytes without a request make the connection unusable.
    if (moved.status == Stream::Status::failed) return finish(Event::lost);
    // The end of the connection completes an answer that has neither a length nor chunks.
    const bool ended = moved.status == Stream::Status::closed;
    const auto state = ended ? answer_.end() : answer_.feed({buffer.data(), moved.bytes});
    if (state == HttpAnswerReader::State::complete) return finish(Event::answered);
    if (state != HttpAnswerReader::State::reading) return finish(Event::garbled);
    if (ended) return finish(Event::lost);
  }
}

HttpConnection::Event HttpConnection::on_ready(bool readable, bool writable) {
  // Write first: during a TLS handshake or renegotiation, readable bytes may be what the write is waiting for.
  if (stream_.may_send(readable, writable)) {
    if (const Event event = write(); event != Event::none) return event;
  }
  return readable ? read() : Event::none;
}

}  // namespace tangram::client
