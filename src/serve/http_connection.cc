// Framing, flow control and time limits of one HTTP/1.1 connection.
//
// Input is kept in in_, of which in_at_ bytes are consumed; erasing only now and then keeps pipelined requests from
// moving the buffer once each. An answer is not sent when it is written: the connection is marked dirty, and the server
// calls proceed() later in the same turn. So answers that are ready at the same time leave in one system call.

#include "serve/http_connection.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

namespace tangram::serve {
namespace {

// At least one TLS record (16 KiB), as ClientStream::receive() requires.
constexpr std::size_t kReadBytes = 64 << 10;
// With more unsent output than this, further requests of the client are not read. Otherwise a client that pipelines
// requests and never reads would make the server buffer all answers.
constexpr std::size_t kUnsentMax = 1 << 20;
// The body of a request that was denied is read and discarded up to this size, so that the connection can be used
// again. For a larger one the connection is closed instead.
constexpr std::uint64_t kRefusedBodyMax = 64 << 10;
// How long a client may keep sending an unwanted body before its connection is closed.
constexpr Duration kLingerMax = std::chrono::seconds(2);

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

// Refusals that follow from the head alone, before the caller is authenticated.
std::optional<host::HttpRefusal> over_limits(const host::HttpHead& head, const HttpContext& context) {
  if (!head.chunked && head.content_length > context.limits.body_max) return host::HttpRefusal{413, "body too large"};
  // A client must not be able to reserve memory that is not there. Chunked bodies announce nothing and are counted as
  // they arrive.
  if (context.calls.body_bytes + head.content_length > context.limits.bodies_max) {
    return host::HttpRefusal{503, "too many bytes are in flight"};
  }
  const auto encoding = head.find("content-encoding");
  if (!encoding || host::equals_ignoring_case(*encoding, "identity")) return std::nullopt;
  return host::HttpRefusal{415, "content encodings are not supported"};
}

}  // namespace

HttpConnection::HttpConnection(HttpContext& context, int socket, const ListenOptions& options)
    : context_(context),
      stream_(socket, options.tls == nullptr ? nullptr : host::TlsStream::accept(options.tls->get(), socket)),
      exchange_(context, options),
      quiet_since_(context.now) {
  context_.loop.add(socket, host::Interest::read, this);
}

// TLS can need to write before it can read, so readiness to write can be what a read waits for.
void HttpConnection::on_ready(bool readable, bool writable, bool broken) {
  if (broken) return close_now();
  const bool read_on = readable || (writable && stream_.receive_wants_write());
  if (writable) flush();
  if (read_on && stream_.is_open()) read_some();
}

// Queues the connection at most once per turn.
void HttpConnection::mark_dirty() {
  if (!std::exchange(dirty_, true)) context_.dirty.push_back(this);
}

bool HttpConnection::blocked() const {
  return answers_.owed() >= context_.limits.pipeline_max || answers_.unsent().size() > kUnsentMax;
}

// Registers only what can make progress: epoll is level-triggered, so an unwanted readiness would spin the loop.
void HttpConnection::watch() {
  const bool want_read = lingering_ || (!closing_ && !peer_done_ && !blocked());
  const bool want_write = !answers_.unsent().empty() || stream_.receive_wants_write();
  const auto wanted = static_cast<host::Interest>((want_read ? 1 : 0) | (want_write ? 2 : 0));
  if (wanted == interest_ || !stream_.is_open()) return;
  interest_ = wanted;
  context_.loop.change(stream_.socket(), wanted, this);
}

// ---- Reading ----

void HttpConnection::read_some() {
  // One buffer per thread: a connection that waits costs no read buffer.
  thread_local std::array<char, kReadBytes> buffer;
  if (lingering_) return read_unwanted(buffer.data(), buffer.size());
  if (closing_ || peer_done_ || blocked()) return watch();
  const bool shaking_hands = stream_.shaking_hands();
  const ssize_t got = stream_.receive(buffer.data(), buffer.size());
  if (got < 0) {
    if (would_block()) return watch();
    if (shaking_hands && stream_.receive_failed()) fail_handshake(buffer.data(), buffer.size());
    return close_now();
  }
  if (got == 0) {
    // The client has finished sending but can still read: answer everything that it is owed before closing.
    peer_done_ = true;
    if (answers_.owed() == 0 && answers_.unsent().empty()) return close_now();
    closing_ = true;
    // Or it has closed the connection, which looks the same from here. An interim answer tells: to a closed connection
    // it comes back as a reset, and the requests that nobody waits for any more are abandoned.
    if (answers_.waits_for_first() && answers_.unsent().empty()) {
      answers_.append("HTTP/1.1 100 Continue\r\n\r\n");
      mark_dirty();
    }
    return watch();
  }
  context_.gateway.traffic.bytes_received.fetch_add(static_cast<std::uint64_t>(got), std::memory_order_relaxed);
  // Read after the data is there: the time that the gateway adds to a request counts from its last byte.
  read_at_ = context_.clock.now();
  context_.writer.keep_date(read_at_);
  // The first bytes of a new request start its time limit.
  if (reading_ == Reading::head && in_.empty()) {
    message_began_ = context_.now;
    message_bytes_ = 0;
  }
  message_bytes_ += static_cast<std::uint64_t>(got);
  in_.append(buffer.data(), static_cast<std::size_t>(got));
  parse();
  mark_dirty();
}

void HttpConnection::fail_handshake(char* buffer, std::size_t room) {
  context_.gateway.traffic.handshakes_failed.fetch_add(1, std::memory_order_relaxed);
  if (!stream_.tls()->spoke_plain_http()) return;
  // Read what has arrived first: closing a socket with unread bytes resets the connection, and the client would lose
  // the answer.
  while (stream_.receive_plain(buffer, room) > 0) continue;
  std::string out;
  context_.writer.keep_date(context_.clock.now());
  context_.writer.write(out, {.keep_alive = false},
                        Reply{400, kJsonType, error_body("this port uses HTTPS, not plain HTTP")});
  stream_.send_plain(out);
}

// Stops at a full pipeline or output buffer; proceed() resumes when answers have been sent.
void HttpConnection::parse() {
  bool progress = true;
  while (progress && !closing_ && stream_.is_open() && !blocked()) {
    switch (reading_) {
      case Reading::head: progress = parse_head(); break;
      case Reading::body: progress = parse_body(); break;
      case Reading::chunks: progress = parse_chunks(); break;
      case Reading::nothing: progress = false; break;
    }
  }
  // Erasing costs a copy of what is left, so it is done only when nothing is left or much was consumed.
  if (in_at_ == in_.size()) {
    in_.clear();
    in_at_ = 0;
  } else if (in_at_ > kReadBytes) {
    in_.erase(0, in_at_);
    in_at_ = 0;
  }
}

bool HttpConnection::parse_head() {
  if (in_at_ == in_.size()) return false;
  host::HttpHead head;
  const host::HttpHeadResult result =
      host::parse_http_head(std::string_view(in_).substr(in_at_), context_.limits.head_max, head);
  if (result.kind == host::HttpHeadResult::Kind::need_more) return false;
  if (result.kind == host::HttpHeadResult::Kind::refused) {
    refuse(result.refusal);
    return false;
  }
  // The head holds views into in_, so it is used before the bytes are consumed.
  begin(head);
  in_at_ += result.consumed;
  return !closing_;
}

void HttpConnection::begin(const host::HttpHead& head) {
  exchange_.begin(head);
  // While draining, every answer says that the connection closes, so clients move on without losing a request.
  form_ = {head.keep_alive && !context_.draining, head.http_1_1, head.method == host::HttpMethod::head};
  message_began_ = context_.now;
  message_bytes_ = 0;
  reading_ = head.chunked ? Reading::chunks : Reading::body;
  if (const auto refusal = over_limits(head, context_)) return refuse(*refusal);
  exchange_.identify(head, stream_.tls());
  const auto& refusal = exchange_.refusal();
  // Where callers are authenticated, a refused one must not make the server read a long body for nothing.
  if (refusal && exchange_.asks_who() && (head.chunked || head.content_length > kRefusedBodyMax)) {
    return refuse_and_close(*refusal);
  }
  exchange_.open_body(head.chunked ? 0 : head.content_length);
  body_length_ = head.content_length;
  if (head.chunked) chunks_ = host::ChunkedReader();
  // Sent only if no answer is owed: an interim response must not overtake the answers to earlier requests.
  if (head.expects_continue && answers_.owed() == 0 && (head.chunked || head.content_length > 0)) {
    answers_.append("HTTP/1.1 100 Continue\r\n\r\n");
  }
}

bool HttpConnection::parse_body() {
  std::string& body = exchange_.body();
  const std::uint64_t missing = body_length_ - body.size();
  const std::size_t take = static_cast<std::size_t>(std::min<std::uint64_t>(missing, in_.size() - in_at_));
  body.append(in_, in_at_, take);
  in_at_ += take;
  if (take < missing) return false;
  dispatch();
  return true;
}

bool HttpConnection::parse_chunks() {
  in_at_ += chunks_.feed(std::string_view(in_).substr(in_at_), exchange_.body(), context_.limits.body_max);
  exchange_.count_body();
  // A chunk that cannot be parsed leaves no way to find the next request, so refuse() also closes.
  if (chunks_.state() == host::ChunkedReader::State::refused) {
    refuse(chunks_.refusal());
    return false;
  }
  if (chunks_.state() == host::ChunkedReader::State::reading) return false;
  dispatch();
  return true;
}

void HttpConnection::dispatch() {
  reading_ = Reading::head;
  message_began_ = context_.now;
  message_bytes_ = 0;
  if (!form_.keep_alive) closing_ = true;
  // The place in the queue is taken before the answer exists, which keeps the order of the requests.
  HttpPending& pending = answers_.add({.form = form_, .read = read_at_});
  auto outcome = exchange_.dispatch(this);
  if (const Reply* now = std::get_if<Reply>(&outcome)) return reply(pending, *now);
  pending.asker = std::get<HttpAsker*>(outcome);
}

// ---- Answers ----

void HttpConnection::reply(HttpPending& pending, const Reply& reply) {
  context_.writer.write(answers_.output_of(pending), pending.form, reply);
  finish(pending);
}

void HttpConnection::finish(HttpPending& pending) {
  if (answers_.finish(pending)) quiet_since_ = context_.now;
  // Sent by proceed(), together with the other answers of this turn.
  mark_dirty();
}

void HttpConnection::answered(const HttpCall& call) {
  HttpPending& pending = answers_.find(&call.asker);
  pending.asker = nullptr;
  // A background request waits on purpose; its waiting would hide what the gateway itself adds.
  pending.added = call.background > 0 ? AddedTime::nowhere : AddedTime::infer;
  pending.compute = call.compute;
  context_.writer.write(answers_.output_of(pending), pending.form, call);
  finish(pending);
}

void HttpConnection::answered(const HttpControl& call) {
  HttpPending& pending = answers_.find(&call.asker);
  pending.asker = nullptr;
  context_.writer.write(answers_.output_of(pending), pending.form, http_status(call.status), call.type, "",
                        call.answer);
  finish(pending);
}

void HttpConnection::refuse(const host::HttpRefusal& refusal) {
  // Before the head is complete, nothing is known about the request; afterwards it can be counted for its model.
  reading_ == Reading::head ? exchange_.malformed(refusal) : exchange_.cut_off(refusal);
  refuse_and_close({refusal.status, kJsonType, error_body(refusal.reason)});
}

void HttpConnection::refuse_and_close(const Reply& answer) {
  closing_ = more_comes_ = true;
  reading_ = Reading::nothing;
  // The request did not end, so there is no last byte to measure from.
  reply(answers_.add({.form = {.keep_alive = false}, .added = AddedTime::nowhere}), answer);
}

// ---- Writing ----

// Sends as much as the socket takes. Afterwards the connection can be closed, so callers check is_open().
void HttpConnection::flush() {
  if (!stream_.is_open()) return;
  while (!answers_.unsent().empty()) {
    const ssize_t sent = stream_.send(answers_.unsent());
    if (sent < 0) {
      if (!would_block()) return close_now();
      break;
    }
    auto& traffic = context_.gateway.traffic;
    answers_.sent(static_cast<std::size_t>(sent), context_.clock, traffic);
    // Any progress restarts the limit: a slow reader is tolerated, one that has stopped is not.
    unsent_since_ = context_.now;
    traffic.bytes_sent.fetch_add(static_cast<std::uint64_t>(sent), std::memory_order_relaxed);
  }
  if (answers_.unsent().empty()) {
    unsent_since_ = context_.now;
    if (closing_ && answers_.owed() == 0 && !lingering_) return more_comes_ ? linger() : close_now();
  }
  watch();
}

void HttpConnection::proceed() {
  dirty_ = false;
  flush();
  // Continues only if there is unread input that the pipeline limit or the output had held back.
  if (!stream_.is_open() || closing_ || in_at_ == in_.size() || blocked()) return;
  const std::size_t before = in_at_;
  parse();
  if (in_at_ != before || closing_) mark_dirty();
}

// ---- The end ----

// Closing a socket with unread bytes sends a reset, and the client's system then discards the answer that it has
// already received. So only the sending side is closed, and input is read and discarded until the client closes.
void HttpConnection::linger() {
  lingering_ = true;
  // kLingerMax counts from here.
  quiet_since_ = context_.clock.now();
  stream_.end_sending();
  watch();
}

// Below TLS: nothing has to be decrypted to be thrown away.
void HttpConnection::read_unwanted(char* buffer, std::size_t room) {
  const ssize_t got = stream_.receive_plain(buffer, room);
  if (got == 0 || (got < 0 && !would_block())) close_now();
}

// Checked in the order of what the connection waits for: the first one that matches sets the limit. No limit applies
// while an answer is owed, because then the client waits for the server.
bool HttpConnection::out_of_time(TimePoint now) const {
  const HttpLimits& limits = context_.limits;
  if (lingering_) return now - quiet_since_ > kLingerMax;
  if (stream_.shaking_hands()) return now - quiet_since_ > limits.grace;
  if (!answers_.unsent().empty()) return now - unsent_since_ > limits.unread;
  if (answers_.owed() > 0) return false;
  if (!in_message()) return now - quiet_since_ > limits.idle;
  // A body may take longer the more of it has arrived, at rate_min bytes per second; a head may not. This bounds
  // clients that send a byte now and then to keep a connection busy.
  const double allowed = to_seconds(limits.grace) + static_cast<double>(message_bytes_) / limits.rate_min;
  return to_seconds(now - message_began_) > (reading_ == Reading::head ? to_seconds(limits.grace) : allowed);
}

void HttpConnection::time_out() {
  if (lingering_) return close_now();
  if (stream_.shaking_hands()) {
    context_.gateway.traffic.handshakes_failed.fetch_add(1, std::memory_order_relaxed);
  }
  // There is no request to answer, or the client does not read its answers: close without another one.
  if (!answers_.unsent().empty() || !in_message()) return close_now();
  context_.gateway.traffic.timeouts.fetch_add(1, std::memory_order_relaxed);
  refuse({408, "the request was not complete in time"});
  flush();
}

void HttpConnection::stop_when_idle() {
  if (answers_.owed() == 0 && answers_.unsent().empty() && !in_message()) close_now();
}

void HttpConnection::shut() {
  if (!stream_.is_open()) return;
  context_.loop.remove(stream_.socket(), this);
  stream_.close();
  exchange_.drop_body();
  answers_.abandon([this](Call* call) { context_.calls.abandon(call); });
}

// The server keeps the object until the end of the turn, since callers of this function are still on the stack.
void HttpConnection::close_now() {
  if (!stream_.is_open()) return;
  shut();
  context_.on_closed(this);
}

}  // namespace tangram::serve
