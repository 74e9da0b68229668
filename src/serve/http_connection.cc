#include "serve/http_connection.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

namespace tangram::serve {
namespace {

constexpr std::size_t kReadBytes = 64 << 10;
// Beyond this much that the client has not taken, its further requests wait.
constexpr std::size_t kUnsentMax = 1 << 20;
// A request that is not allowed is read up to here, so that its connection can go on; beyond, it is closed.
constexpr std::uint64_t kRefusedBodyMax = 64 << 10;
// How long a client may go on sending what nobody wants before its connection is closed.
constexpr Duration kLingerMax = std::chrono::seconds(2);

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

// What of a head is refused before anyone is asked who they are.
std::optional<host::HttpRefusal> over_limits(const host::HttpHead& head, const HttpContext& context) {
  if (!head.chunked && head.content_length > context.limits.body_max) return host::HttpRefusal{413, "body too large"};
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

void HttpConnection::on_ready(bool readable, bool writable, bool broken) {
  if (broken) return close_now();
  const bool read_on = readable || (writable && stream_.receive_wants_write());
  if (writable) flush();
  if (read_on && stream_.is_open()) read_some();
}

void HttpConnection::mark_dirty() {
  if (!std::exchange(dirty_, true)) context_.dirty.push_back(this);
}

bool HttpConnection::blocked() const {
  return answers_.owed() >= context_.limits.pipeline_max || answers_.unsent().size() > kUnsentMax;
}

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
    // The client sends no more, but may wait for its answers.
    peer_done_ = true;
    if (answers_.owed() == 0 && answers_.unsent().empty()) return close_now();
    closing_ = true;
    return watch();
  }
  context_.gateway.traffic.bytes_received.fetch_add(static_cast<std::uint64_t>(got), std::memory_order_relaxed);
  read_at_ = context_.clock.now();
  context_.writer.keep_date(read_at_);
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
  // What came is read first: closing over unread bytes would throw the answer away, too.
  while (stream_.receive_plain(buffer, room) > 0) continue;
  std::string out;
  context_.writer.keep_date(context_.clock.now());
  context_.writer.write(out, {.keep_alive = false},
                        Reply{400, kJsonType, error_body("this port speaks HTTPS, not plain HTTP")});
  stream_.send_plain(out);
}

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
  begin(head);
  in_at_ += result.consumed;
  return !closing_;
}

void HttpConnection::begin(const host::HttpHead& head) {
  exchange_.begin(head);
  form_ = {head.keep_alive && !context_.draining, head.http_1_1, head.method == host::HttpMethod::head};
  message_began_ = context_.now;
  message_bytes_ = 0;
  reading_ = head.chunked ? Reading::chunks : Reading::body;
  if (const auto refusal = over_limits(head, context_)) return refuse(*refusal);
  exchange_.identify(head, stream_.tls());
  const auto& refusal = exchange_.refusal();
  if (refusal && exchange_.asks_who() && (head.chunked || head.content_length > kRefusedBodyMax)) {
    return refuse_and_close(*refusal);
  }
  exchange_.open_body(head.chunked ? 0 : head.content_length);
  body_length_ = head.content_length;
  if (head.chunked) chunks_ = host::ChunkedReader();
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
  mark_dirty();
}

void HttpConnection::answered(const HttpCall& call) {
  HttpPending& pending = answers_.find(&call.asker);
  pending.asker = nullptr;
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
  reading_ == Reading::head ? exchange_.malformed(refusal) : exchange_.cut_off(refusal);
  refuse_and_close({refusal.status, kJsonType, error_body(refusal.reason)});
}

void HttpConnection::refuse_and_close(const Reply& answer) {
  closing_ = more_comes_ = true;
  reading_ = Reading::nothing;
  // It has not come to its end, so there is no time to count from.
  reply(answers_.add({.form = {.keep_alive = false}, .added = AddedTime::nowhere}), answer);
}

// ---- Writing ----

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
  if (!stream_.is_open() || closing_ || in_at_ == in_.size() || blocked()) return;
  const std::size_t before = in_at_;
  parse();
  if (in_at_ != before || closing_) mark_dirty();
}

// ---- The end ----

// Closing over bytes that nobody read would make the client's system throw the answer away. So the client is told that
// nothing more comes, and what it still sends is read until it has understood.
void HttpConnection::linger() {
  lingering_ = true;
  quiet_since_ = context_.clock.now();
  stream_.end_sending();
  watch();
}

void HttpConnection::read_unwanted(char* buffer, std::size_t room) {
  const ssize_t got = stream_.receive_plain(buffer, room);
  if (got == 0 || (got < 0 && !would_block())) close_now();
}

bool HttpConnection::out_of_time(TimePoint now) const {
  const HttpLimits& limits = context_.limits;
  if (lingering_) return now - quiet_since_ > kLingerMax;
  if (stream_.shaking_hands()) return now - quiet_since_ > limits.grace;
  if (!answers_.unsent().empty()) return now - unsent_since_ > limits.unread;
  if (answers_.owed() > 0) return false;
  if (!in_message()) return now - quiet_since_ > limits.idle;
  // A body may take longer the more of it has come; a head may not.
  const double allowed = to_seconds(limits.grace) + static_cast<double>(message_bytes_) / limits.rate_min;
  return to_seconds(now - message_began_) > (reading_ == Reading::head ? to_seconds(limits.grace) : allowed);
}

void HttpConnection::time_out() {
  if (lingering_) return close_now();
  if (stream_.shaking_hands()) {
    context_.gateway.traffic.handshakes_failed.fetch_add(1, std::memory_order_relaxed);
  }
  if (!answers_.unsent().empty() || !in_message()) return close_now();
  context_.gateway.traffic.timeouts.fetch_add(1, std::memory_order_relaxed);
  refuse({408, "the request took too long to come"});
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
  answers_.abandon();
}

void HttpConnection::close_now() {
  if (!stream_.is_open()) return;
  shut();
  context_.on_closed(this);
}

}  // namespace tangram::serve
