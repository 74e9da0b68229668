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
// The body of a request that was denied is discarded up to this size, so that the connection can be used again. For a
// larger one the connection is closed instead.
constexpr std::uint64_t kRefusedBodyMax = 64 << 10;
// How long a client may keep sending an unwanted body before its connection is closed.
constexpr Duration kLingerMax = std::chrono::seconds(2);
// How long a drain waits for the rest of a request that has stopped coming.
constexpr Duration kStallMax = std::chrono::seconds(1);
// Of an answer besides its body.
constexpr std::size_t kReplyRoom = 1 << 10;
// What the input keeps for the next request, as part of the fixed bytes of a connection.
constexpr std::size_t kKeptBytes = 4 << 10;

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

// Until its caller is known, a request counts for the strangers; where callers are not authenticated, for its peer.
MemoryPlaces places_of(HttpContext& context, const ListenOptions& options, ConnectionMemory& connection) {
  MemoryBudget& memory = context.gateway.memory;
  if (options.port == Port::admin) return {&connection.account, nullptr, &memory.admin()};
  const bool asks = context.gateway.access.on() && !options.trusted;
  return {&connection.account, asks ? &memory.strangers() : &connection.peer->memory, &memory.data()};
}

}  // namespace

HttpConnection::HttpConnection(HttpContext& context, int socket, const ListenOptions& options, const PeerKey& key,
                               std::shared_ptr<Peer> peer, Charge fixed)
    : context_(context),
      stream_(socket, options.tls == nullptr ? nullptr : host::TlsStream::accept(options.tls->get(), socket)),
      peer_key_(key),
      fixed_(std::move(fixed)),
      memory_(std::make_shared<ConnectionMemory>(options.port == Port::admin ? context.gateway.memory.admin().limit()
                                                                             : context.gateway.memory.connection_max(),
                                                 std::move(peer))),
      places_(places_of(context, options, *memory_)),
      exchange_(context, options, places_, memory_),
      answers_(places_),
      in_charge_(places_),
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
  return answers_.owed() >= context_.limits.pipeline_max || answers_.unsent_bytes() > kUnsentMax;
}

// Registers only what can make progress: epoll is level-triggered, so an unwanted readiness would spin the loop.
void HttpConnection::watch() {
  const bool want_read = lingering_ || (!closing_ && !peer_done_ && !blocked() && !waits_);
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
  if (closing_ || peer_done_ || blocked() || waits_) return watch();
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
    window_began_ = context_.now;
    window_bytes_ = 0;
  }
  window_bytes_ += static_cast<std::uint64_t>(got);
  const std::string_view bytes(buffer.data(), static_cast<std::size_t>(got));
  if (in_at_ == in_.size()) {
    // Parsed where they are: only what is left, such as half a head, is copied.
    input_ = bytes;
    parse();
    keep_rest();
  } else if (in_charge_.resize(in_.size() + bytes.size() <= kKeptBytes ? 0 : in_.size() + bytes.size())) {
    in_.append(bytes);
    parse_kept();
  } else {
    refuse({503, "the server holds too many bytes for its callers"});
  }
  mark_dirty();
}

void HttpConnection::keep_rest() {
  in_at_ = 0;
  if (!stream_.is_open() || closing_ || input_.empty()) {
    in_.clear();
    in_charge_.release();
  } else if (in_charge_.resize(input_.size() <= kKeptBytes ? 0 : input_.size())) {
    in_.assign(input_);
  } else {
    in_.clear();
    input_ = {};
    return refuse({503, "the server holds too many bytes for its callers"});
  }
  input_ = {};
  if (in_.empty() && in_.capacity() > kKeptBytes) in_ = {};
}

void HttpConnection::parse_kept() {
  input_ = std::string_view(in_).substr(in_at_);
  parse();
  in_at_ = in_.size() - input_.size();
  input_ = {};
  // Erasing costs a copy of what is left, so it is done only when nothing is left or much was consumed.
  if (in_at_ == in_.size() || closing_) {
    in_.clear();
    in_at_ = 0;
    if (in_.capacity() > kKeptBytes) in_ = {};
    in_charge_.release();
  } else if (in_at_ > kReadBytes) {
    in_.erase(0, in_at_);
    in_at_ = 0;
  }
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
}

bool HttpConnection::parse_head() {
  if (input_.empty()) return false;
  host::HttpHead head;
  const host::HttpHeadResult result = host::parse_http_head(input_, context_.limits.head_max, head);
  if (result.kind == host::HttpHeadResult::Kind::need_more) return false;
  if (result.kind == host::HttpHeadResult::Kind::refused) {
    refuse(result.refusal);
    return false;
  }
  // The head holds views into the input, so it is used before the bytes are consumed.
  begin(head);
  input_.remove_prefix(std::min(result.consumed, input_.size()));
  return !closing_;
}

// The caller is known before a byte of the body is kept, and the length that the body announces is not charged: its
// bytes are, as they come.
void HttpConnection::begin(const host::HttpHead& head) {
  has_asked_ = true;
  exchange_.begin(head);
  // While draining, every answer says that the connection closes, so clients move on without losing a request.
  form_ = {.keep_alive = head.keep_alive && !context_.draining,
           .http_1_1 = head.http_1_1,
           .head_only = head.method == host::HttpMethod::head,
           .accepted = exchange_.accepted_coding(head),
           .fields = exchange_.cors_fields()};
  window_began_ = context_.now;
  window_bytes_ = 0;
  body_came_ = 0;
  reading_ = head.chunked ? Reading::chunks : Reading::body;
  body_length_ = head.content_length;
  if (head.chunked) chunks_ = host::ChunkedReader();
  if (!head.chunked && head.content_length > context_.limits.body_max) return refuse({413, "body too large"});
  exchange_.identify(head, stream_.tls());
  // A body that is not kept must not make the server read for long.
  const auto& refusal = exchange_.refusal();
  const bool has_body = head.chunked || head.content_length > 0;
  const bool long_body = head.chunked ? exchange_.asks_who() : head.content_length > kRefusedBodyMax;
  // Whoever asks before it sends the body gets the answer now, and may not send it at all.
  if (refusal && (long_body || (head.expects_continue && has_body))) {
    return refuse_and_close(*refusal);
  }
  if (!head.chunked && head.content_length > body_max()) return refuse({413, "body too large"});
  if (const auto wrong = exchange_.open_body(head)) return refuse(*wrong);
  // Sent only if no answer is owed: an interim response must not overtake the answers to earlier requests.
  if (head.expects_continue && answers_.owed() == 0 && has_body) {
    answers_.append("HTTP/1.1 100 Continue\r\n\r\n");
  }
}

std::uint64_t HttpConnection::body_max() const {
  if (exchange_.refusal() || !exchange_.takes_body()) return kRefusedBodyMax;
  return exchange_.body_max();
}

bool HttpConnection::parse_body() {
  const std::uint64_t missing = body_length_ - body_came_;
  // While content is still being unpacked, no more is taken.
  const auto take = waits_ ? 0 : static_cast<std::size_t>(std::min<std::uint64_t>(missing, input_.size()));
  const std::string_view content = input_.substr(0, take);
  input_.remove_prefix(take);
  body_came_ += take;
  if (!take_content(content, body_length_)) return false;
  if (body_came_ < body_length_) return false;
  return end_content();
}

// One chunk reader for all bodies that announce no length. What it takes is passed on at once, and the rest of the
// input stays where it is while the exchange unpacks.
bool HttpConnection::parse_chunks() {
  thread_local std::string content;
  if (waits_ || chunks_.state() == host::ChunkedReader::State::reading) {
    content.clear();
    if (!waits_) {
      // A packed body may be as long as an unpacked one, which is bounded where it is unpacked.
      input_.remove_prefix(chunks_.feed(input_.substr(0, kReadBytes), content, body_max()));
    }
    // A chunk that cannot be parsed leaves no way to find the next request, so refuse() also closes.
    if (chunks_.state() == host::ChunkedReader::State::refused) {
      exchange_.refusal() ? refuse_and_close(*exchange_.refusal()) : refuse(chunks_.refusal());
      return false;
    }
    if (!take_content(content, 0)) return false;
  }
  if (chunks_.state() == host::ChunkedReader::State::reading) return !input_.empty();
  return end_content();
}

bool HttpConnection::take_content(std::string_view bytes, std::uint64_t length) {
  waits_ = false;
  if (const auto wrong = exchange_.take_body(bytes, length)) {
    refuse(*wrong);
    return false;
  }
  if (!exchange_.unpacks_more()) return true;
  waits_ = true;
  go_on_later();
  return false;
}

bool HttpConnection::end_content() {
  if (const auto wrong = exchange_.end_body()) {
    refuse(*wrong);
    return false;
  }
  dispatch();
  return true;
}

void HttpConnection::go_on_later() {
  if (!std::exchange(later_, true)) context_.later.push_back(this);
}

void HttpConnection::dispatch() {
  reading_ = Reading::head;
  window_began_ = context_.now;
  window_bytes_ = input_.size();
  if (!form_.keep_alive) closing_ = true;
  // The place in the queue is taken before the answer exists, which keeps the order of the requests.
  HttpPending& pending = answers_.add({.form = form_, .read = read_at_});
  auto outcome = exchange_.dispatch(this);
  if (const Reply* now = std::get_if<Reply>(&outcome)) return reply(pending, *now);
  pending.asker = std::get<HttpAsker*>(outcome);
}

// ---- Answers ----

// Even a short answer needs room, and a client that leaves so many unread that there is none loses its connection.
void HttpConnection::reply(HttpPending& pending, const Reply& reply) {
  const std::size_t packed = pending.form.accepted == host::ContentCoding::identity ? 0 : host::kPackBytes;
  const std::size_t room = reply.body.size() + reply.headers.size() + packed + kReplyRoom;
  if (!answers_.make_room(room, nullptr)) {
    static constexpr std::string_view kNoRoom = "the server holds too many bytes for its callers";
    if (reply.body.size() <= kReplyRoom) return close_now();
    return this->reply(pending, {503, kJsonType, error_body(kNoRoom), "Retry-After: 1\r\n"});
  }
  context_.writer.write(answers_.output_of(pending), pending.form, reply);
  finish(pending);
}

void HttpConnection::finish(HttpPending& pending) {
  if (answers_.finish(pending)) quiet_since_ = context_.now;
  // Sent by proceed(), together with the other answers of this turn.
  mark_dirty();
}

MemoryAccount* HttpConnection::group_of(const HttpCall& call) const {
  return call.memory.places().group == nullptr ? places_.group : call.memory.places().group;
}

void HttpConnection::answered(const HttpCall& call) {
  HttpPending& pending = answers_.find(&call.asker);
  pending.asker = nullptr;
  // A background request waits on purpose; its waiting would hide what the gateway itself adds.
  pending.added = call.background > 0 ? AddedTime::nowhere : AddedTime::infer;
  pending.compute = call.compute;
  if (!answers_.make_room(HttpAnswerWriter::room_for(pending.form, call), group_of(call))) {
    return reply(pending,
                 {503, kJsonType, error_body("the server holds too many bytes for its callers to send this answer"),
                  "Retry-After: 1\r\n"});
  }
  context_.writer.write(answers_.output_of(pending), pending.form, call);
  finish(pending);
}

void HttpConnection::answered(const HttpControl& call) {
  HttpPending& pending = answers_.find(&call.asker);
  pending.asker = nullptr;
  reply(pending, {http_status(call.status), call.type, call.answer});
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
  if (!stream_.is_open() || closing_ || blocked()) return;
  if (!waits_ && in_at_ == in_.size()) return;
  if (later_) return;
  const std::size_t before = in_.size() - in_at_;
  parse_kept();
  if (in_.size() - in_at_ != before || closing_) mark_dirty();
}

void HttpConnection::proceed_later() {
  later_ = false;
  proceed();
  watch();
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
  // A client that waits for an answer may still owe the rest of its next request.
  if (in_message() && !closing_ && !blocked() && !waits_) return too_slow(now);
  if (answers_.owed() > 0) return false;
  return now - quiet_since_ > limits.idle;
}

// A head must be complete within the grace. A body must bring rate_min bytes a second over each window of that length,
// whatever it has brought before: one that was sent fast and then paused holds its memory no longer than a slow one.
bool HttpConnection::too_slow(TimePoint now) const {
  const HttpLimits& limits = context_.limits;
  if (now - window_began_ <= limits.grace) return false;
  if (reading_ == Reading::head) return true;
  return static_cast<double>(window_bytes_) < limits.rate_min * to_seconds(now - window_began_);
}

void HttpConnection::renew_window(TimePoint now) {
  if (reading_ == Reading::head && !blocked()) return;
  if (now - window_began_ <= context_.limits.grace && !blocked() && !waits_) return;
  window_began_ = now;
  window_bytes_ = 0;
}

std::optional<TimePoint> HttpConnection::quiet_since() const {
  if (!stream_.is_open() || lingering_ || closing_ || waits_) return std::nullopt;
  if (answers_.owed() > 0 || !answers_.unsent().empty()) return std::nullopt;
  if (in_message()) return reading_ == Reading::head ? std::optional(window_began_) : std::nullopt;
  return quiet_since_;
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

// The rest of a request that has stopped coming may never come, and must not hold a drain up for as long as one may
// take.
void HttpConnection::stop_when_idle(TimePoint now) {
  if (answers_.owed() > 0 || !answers_.unsent().empty() || waits_) return;
  if (!in_message()) return close_now();
  if (now - std::max(read_at_, quiet_since_) > kStallMax) time_out();
}

void HttpConnection::shut() {
  if (!stream_.is_open()) return;
  context_.loop.remove(stream_.socket(), this);
  stream_.close();
  exchange_.drop_body();
  answers_.abandon([this](Call* call) { context_.calls.abandon(call); });
  context_.shared.peers.leave(peer_key_);
}

// The server keeps the object until the end of the turn, since callers of this function are still on the stack.
void HttpConnection::close_now() {
  if (!stream_.is_open()) return;
  shut();
  context_.on_closed(this);
}

}  // namespace tangram::serve
