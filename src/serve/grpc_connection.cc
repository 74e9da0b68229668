// HTTP/2 by nghttp2, on a socket of our own event loop.
//
// nghttp2 reads and writes frames, keeps the state of streams and the windows of flow control, and knows how header
// fields are packed. What it leaves open is decided here:
//
//   a block of header fields     at most head_max bytes packed, over all CONTINUATION frames, or the connection ends
//   frames that ask for nothing  a token bucket: PING, SETTINGS, PRIORITY, RST_STREAM, WINDOW_UPDATE, empty DATA
//   output                       frames are made only while little of them waits for the socket
//   a client that does not read  must take some bytes of its answers in each window of time, or the connection ends
//
// Bytes of messages are given to their stream at once, which keeps and charges them; the window of the stream is given
// back as the stream uses them. nghttp2 must not be destroyed inside its own callbacks: they set doomed_, and the
// connection closes when they have returned.

#ifdef TANGRAM_WITH_GRPC

#include "serve/grpc_connection.h"

#include <fmt/format.h>
#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <utility>

namespace tangram::serve {
namespace {

// At least one TLS record, as ClientStream::receive() requires.
constexpr std::size_t kGrpcReadBytes = 64 << 10;
// Frames that wait for the socket; further ones are made when these have left.
constexpr std::size_t kOutMax = 64 << 10;
// How much a client may send ahead: of one call and of all together.
constexpr std::int32_t kStreamWindow = 1 << 20;
constexpr std::int32_t kConnectionWindow = 4 << 20;
// How long a client that was told to go may still open calls, if it does not say that it has heard: a round trip is
// enough. Clients of the gRPC library without a call may not look at their socket for seconds.
constexpr Duration kGoodbye = std::chrono::milliseconds(250);

bool again_later() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

// The library does not copy these: they live as long as the program, or until the frame is made where it copies.
nghttp2_nv fixed_field(std::string_view name, std::string_view value) {
  const auto bytes = [](std::string_view text) {
    return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
  };
  return {bytes(name), bytes(value), name.size(), value.size(),
          NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

nghttp2_nv made_field(std::string_view name, std::string_view value) {
  nghttp2_nv field = fixed_field(name, value);
  field.flags = NGHTTP2_NV_FLAG_NO_COPY_NAME;
  return field;
}

constexpr std::array<std::string_view, 17> kCodeTexts{"0", "1",  "2",  "3",  "4",  "5",  "6",  "7", "8",
                                                      "9", "10", "11", "12", "13", "14", "15", "16"};

// The fields of a status, which keep the texts that they point into.
struct StatusFields {
  explicit StatusFields(const GrpcStatus& status) {
    fields[count++] = fixed_field("grpc-status", kCodeTexts[static_cast<std::size_t>(status.code)]);
    if (!status.message.empty()) {
      message = percent_encoded(status.message);
      fields[count++] = made_field("grpc-message", message);
    }
    // gRPC clients with a retry policy obey this trailing field by themselves (gRFC A6).
    if (status.retry_after > Duration::zero()) {
      retry = fmt::format("{:.0f}", std::ceil(to_milliseconds(status.retry_after)));
      fields[count++] = made_field("grpc-retry-pushback-ms", retry);
    }
  }
  std::array<nghttp2_nv, 3> fields{};
  std::size_t count = 0;
  std::string message;
  std::string retry;
};

const nghttp2_option* session_options() {
  static const nghttp2_option* const kOptions = [] {
    nghttp2_option* option = nullptr;
    nghttp2_option_new(&option);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_no_closed_streams(option, 1);
    // Acknowledgements that wait for a client that does not read.
    nghttp2_option_set_max_outbound_ack(option, 100);
    // Ours is the limit: it counts other frames, too.
    nghttp2_option_set_stream_reset_rate_limit(option, 1'000'000, 1'000'000);
    return option;
  }();
  return kOptions;
}

}  // namespace

// The callbacks of nghttp2: from C to the connection. A return value of 0 is success.
struct GrpcFrames {
  static GrpcConnection& of(void* user) { return *static_cast<GrpcConnection*>(user); }
  static GrpcStream* stream(nghttp2_session* session, std::int32_t id) {
    return static_cast<GrpcStream*>(nghttp2_session_get_stream_user_data(session, id));
  }

  static int on_begin_frame(nghttp2_session* session, const nghttp2_frame_hd* head, void* user) {
    GrpcConnection& connection = of(user);
    bool idle = false;
    switch (head->type) {
      case NGHTTP2_HEADERS:
        connection.head_bytes_ = 0;
        connection.head_began_ = connection.context_.now;
        [[fallthrough]];
      case NGHTTP2_CONTINUATION:
        connection.head_bytes_ += head->length + 1;
        if (connection.head_bytes_ > connection.context_.limits.head_max + 1) return end(session, connection);
        // A client can do no more with an empty one than make work.
        idle = head->type == NGHTTP2_CONTINUATION && head->length == 0;
        break;
      case NGHTTP2_DATA: idle = head->length == 0 && (head->flags & NGHTTP2_FLAG_END_STREAM) == 0; break;
      default: idle = true; break;
    }
    return idle && !connection.allow_frame() ? end(session, connection) : 0;
  }

  // Ends the connection with the code that asks the client to calm down.
  static int end(nghttp2_session* session, GrpcConnection& connection) {
    connection.context_.shared.gateway.traffic.requests_malformed.fetch_add(1, std::memory_order_relaxed);
    nghttp2_submit_goaway(session, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(session),
                          NGHTTP2_ENHANCE_YOUR_CALM, nullptr, 0);
    connection.doomed_ = true;
    return NGHTTP2_ERR_CALLBACK_FAILURE;
  }

  static int on_begin_headers(nghttp2_session* session, const nghttp2_frame* frame, void* user) {
    GrpcConnection& connection = of(user);
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
    Charge charge(connection.places());
    if (!charge.resize(GrpcStream::kBytes)) {
      // The client may try again: nothing of the call was looked at.
      nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_REFUSED_STREAM);
      return 0;
    }
    auto made = std::make_unique<GrpcStream>(connection.context_, connection, frame->hd.stream_id, std::move(charge));
    made->index = connection.streams_.size();
    nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, made.get());
    connection.streams_.push_back(std::move(made));
    return 0;
  }

  static int on_header(nghttp2_session* session, const nghttp2_frame* frame, const std::uint8_t* name,
                       std::size_t name_size, const std::uint8_t* value, std::size_t value_size, std::uint8_t, void*) {
    // Trailing fields of a client mean nothing here.
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
    GrpcStream* const found = stream(session, frame->hd.stream_id);
    if (found != nullptr) {
      found->on_field({reinterpret_cast<const char*>(name), name_size},
                      {reinterpret_cast<const char*>(value), value_size});
    }
    return 0;
  }

  static int on_data_chunk(nghttp2_session* session, std::uint8_t, std::int32_t id, const std::uint8_t* data,
                           std::size_t size, void*) {
    nghttp2_session_consume_connection(session, size);
    GrpcStream* const found = stream(session, id);
    if (found == nullptr) return 0;
    const std::size_t used = found->on_data({reinterpret_cast<const char*>(data), size});
    nghttp2_session_consume_stream(session, id, used);
    return 0;
  }

  static int on_frame(nghttp2_session* session, const nghttp2_frame* frame, void* user) {
    GrpcConnection& connection = of(user);
    switch (frame->hd.type) {
      case NGHTTP2_SETTINGS: connection.said_hello_ = true; return 0;
      case NGHTTP2_PING:
        // The answer to the PING of drain(): every call that was on its way has come.
        if ((frame->hd.flags & NGHTTP2_FLAG_ACK) != 0 && connection.draining_) name_last_call(session, connection);
        return 0;
      case NGHTTP2_HEADERS: connection.head_bytes_ = 0; [[fallthrough]];
      case NGHTTP2_DATA: break;
      default: return 0;
    }
    GrpcStream* const found = stream(session, frame->hd.stream_id);
    if (found == nullptr) return 0;
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST) found->on_head();
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) found->on_end();
    return 0;
  }

  static int on_invalid_frame(nghttp2_session* session, const nghttp2_frame* frame, int, void* user) {
    GrpcConnection& connection = of(user);
    if (frame->hd.type == NGHTTP2_HEADERS) connection.head_bytes_ = 0;
    return connection.allow_frame() ? 0 : end(session, connection);
  }

  static void name_last_call(nghttp2_session* session, GrpcConnection& connection) {
    if (std::exchange(connection.goodbye_, true)) return;
    nghttp2_submit_goaway(session, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(session),
                          NGHTTP2_NO_ERROR, nullptr, 0);
  }

  static int on_stream_close(nghttp2_session* session, std::int32_t id, std::uint32_t, void* user) {
    GrpcConnection& connection = of(user);
    GrpcStream* const found = stream(session, id);
    if (found == nullptr) return 0;
    auto& streams = connection.streams_;
    const std::size_t at = found->index;
    std::swap(streams[at], streams.back());
    streams[at]->index = at;
    streams.pop_back();
    if (streams.empty()) connection.quiet_since_ = connection.context_.now;
    return 0;
  }

  // A call is over when its status is sent, whether or not the client has sent everything.
  static int on_frame_sent(nghttp2_session* session, const nghttp2_frame* frame, void*) {
    const bool ends = frame->hd.type == NGHTTP2_HEADERS && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (!ends) return 0;
    GrpcStream* const found = stream(session, frame->hd.stream_id);
    if (found != nullptr && !found->client_done()) {
      nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_NO_ERROR);
    }
    return 0;
  }

  static ssize_t send(nghttp2_session*, const std::uint8_t* data, std::size_t size, int, void* user) {
    GrpcConnection& connection = of(user);
    if (connection.out_.size() - connection.out_at_ >= kOutMax) return NGHTTP2_ERR_WOULDBLOCK;
    connection.out_.append(reinterpret_cast<const char*>(data), size);
    return static_cast<ssize_t>(size);
  }

  // Of a frame of DATA: its head, and the payload from where the stream has it.
  static int send_data(nghttp2_session*, nghttp2_frame*, const std::uint8_t* head, std::size_t size,
                       nghttp2_data_source* source, void* user) {
    constexpr std::size_t kFrameHeadBytes = 9;
    GrpcConnection& connection = of(user);
    if (connection.out_.size() - connection.out_at_ >= kOutMax) return NGHTTP2_ERR_WOULDBLOCK;
    auto& stream = *static_cast<GrpcStream*>(source->ptr);
    connection.out_.append(reinterpret_cast<const char*>(head), kFrameHeadBytes);
    connection.out_ += stream.unsent().substr(0, size);
    connection.sent_in_window_ += size;
    // The window that the client gives for this is no idle frame.
    connection.frames_left_ += 2;
    stream.sent(size);
    return 0;
  }

  // How much of the next DATA frame there is. The status follows as trailing fields.
  static ssize_t read_data(nghttp2_session* session, std::int32_t id, std::uint8_t*, std::size_t room,
                           std::uint32_t* flags, nghttp2_data_source* source, void*) {
    auto& stream = *static_cast<GrpcStream*>(source->ptr);
    const std::size_t size = std::min(room, stream.unsent().size());
    if (size == 0 && !stream.finished()) return NGHTTP2_ERR_DEFERRED;
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (stream.finished() && size == stream.unsent().size()) {
      *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
      StatusFields status(stream.status());
      nghttp2_submit_trailer(session, id, status.fields.data(), status.count);
    }
    return static_cast<ssize_t>(size);
  }

  static const nghttp2_session_callbacks* callbacks() {
    static const nghttp2_session_callbacks* const kCallbacks = [] {
      nghttp2_session_callbacks* made = nullptr;
      nghttp2_session_callbacks_new(&made);
      nghttp2_session_callbacks_set_on_begin_frame_callback(made, on_begin_frame);
      nghttp2_session_callbacks_set_on_begin_headers_callback(made, on_begin_headers);
      nghttp2_session_callbacks_set_on_header_callback(made, on_header);
      nghttp2_session_callbacks_set_on_data_chunk_recv_callback(made, on_data_chunk);
      nghttp2_session_callbacks_set_on_frame_recv_callback(made, on_frame);
      nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(made, on_invalid_frame);
      nghttp2_session_callbacks_set_on_stream_close_callback(made, on_stream_close);
      nghttp2_session_callbacks_set_on_frame_send_callback(made, on_frame_sent);
      nghttp2_session_callbacks_set_send_callback(made, send);
      nghttp2_session_callbacks_set_send_data_callback(made, send_data);
      return made;
    }();
    return kCallbacks;
  }
};

GrpcConnection::GrpcConnection(GrpcContext& context, int socket, const host::TlsSlot* tls, const PeerKey& key,
                               std::shared_ptr<Peer> peer)
    : context_(context),
      stream_(socket, tls == nullptr ? nullptr : host::TlsStream::accept(tls->get(), socket, host::Alpn::h2)),
      peer_key_(key),
      memory_(std::make_shared<ConnectionMemory>(context.shared.memory.connection_max(), std::move(peer))),
      charge_(MemoryPlaces{nullptr, nullptr, &context.shared.memory.data()}),
      out_charge_(places()),
      frames_left_(context.limits.frames_burst),
      frames_at_(context.now),
      began_(context.now),
      heard_at_(context.now),
      quiet_since_(context.now) {
  if (!charge_.resize(grpc_connection_bytes(tls != nullptr))) return;
  nghttp2_session_server_new2(&session_, GrpcFrames::callbacks(), this, session_options());
  const std::array<nghttp2_settings_entry, 3> settings{
      {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, context.limits.streams_max},
       {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kStreamWindow},
       {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, static_cast<std::uint32_t>(context.limits.head_max)}}};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, kConnectionWindow);
  context_.loop.add(socket, host::Interest::read, this);
  mark_dirty();
}

// Streams first: they abandon their calls, and know nothing of nghttp2 then.
GrpcConnection::~GrpcConnection() {
  shut();
  streams_.clear();
  nghttp2_session_del(session_);
}

MemoryPlaces GrpcConnection::places(MemoryAccount* group) {
  MemoryBudget& budget = context_.shared.memory;
  // Where callers are authenticated, those who are not known yet share an account; else each address has one.
  if (group == nullptr) group = context_.shared.gateway.access.on() ? &budget.strangers() : &memory_->peer->memory;
  return {&memory_->account, group, &budget.data()};
}

const std::vector<std::string>& GrpcConnection::certificate_names() {
  if (!certificate_names_) {
    certificate_names_ = tls() == nullptr ? std::vector<std::string>() : tls()->peer_names();
  }
  return *certificate_names_;
}

// ---- Reading ----

// TLS can need to write before it can read, so readiness to write can be what a read waits for.
void GrpcConnection::on_ready(bool readable, bool writable, bool broken) {
  if (broken) return close_now();
  const bool read_on = readable || (writable && stream_.receive_wants_write());
  if (read_on) read_some();
  if (is_open() && writable) mark_dirty();
}

void GrpcConnection::read_some() {
  // One buffer per thread: a connection that waits costs no read buffer.
  thread_local std::array<char, kGrpcReadBytes> buffer;
  context_.now = context_.shared.clock.now();
  const bool shaking_hands = stream_.shaking_hands();
  const ssize_t got = stream_.receive(buffer.data(), buffer.size());
  // The settings wait for the end of the handshake.
  if (shaking_hands && !stream_.shaking_hands()) mark_dirty();
  if (got < 0) {
    if (again_later()) return watch();
    if (shaking_hands && stream_.receive_failed()) {
      context_.shared.gateway.traffic.handshakes_failed.fetch_add(1, std::memory_order_relaxed);
    }
    return close_now();
  }
  // A client that has finished sending reads no answers either: nothing in gRPC closes one side alone.
  if (got == 0) return close_now();
  context_.shared.gateway.traffic.bytes_received.fetch_add(static_cast<std::uint64_t>(got), std::memory_order_relaxed);
  heard_at_ = context_.now;
  asked_for_life_at_.reset();
  const auto size = static_cast<std::size_t>(got);
  const ssize_t read = nghttp2_session_mem_recv(session_, reinterpret_cast<const std::uint8_t*>(buffer.data()), size);
  if (read < 0) {
    if (read == NGHTTP2_ERR_BAD_CLIENT_MAGIC && !said_hello_) tell_plain_http({buffer.data(), size});
    // What was to be said at the end is said, if the socket takes it at once.
    if (doomed_) {
      nghttp2_session_send(session_);
      send_out();
    }
    return close_now();
  }
  mark_dirty();
}

// Somebody asks in HTTP/1.1, perhaps with curl: an answer that can be read helps more than a closed connection.
void GrpcConnection::tell_plain_http(std::string_view bytes) {
  context_.shared.gateway.traffic.requests_malformed.fetch_add(1, std::memory_order_relaxed);
  if (bytes.empty() || bytes.front() < 'A' || bytes.front() > 'Z') return;
  constexpr std::string_view kBody = "{\"error\":\"this port speaks gRPC, which needs HTTP/2\"}";
  const std::string answer = fmt::format(
      "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
      kBody.size(), kBody);
  stream_.send(answer);
}

bool GrpcConnection::allow_frame() {
  const GrpcLimits& limits = context_.limits;
  frames_left_ =
      std::min(limits.frames_burst, frames_left_ + limits.frames_per_s * to_seconds(context_.now - frames_at_));
  frames_at_ = context_.now;
  frames_left_ -= 1;
  return frames_left_ >= 0;
}

// ---- Writing ----

void GrpcConnection::mark_dirty() {
  if (!std::exchange(dirty_, true)) context_.dirty.push_back(this);
}

void GrpcConnection::begin_answer(GrpcStream& stream) {
  stream.set_begun();
  std::array<nghttp2_nv, 8> fields{};
  std::size_t count = 0;
  fields[count++] = fixed_field(":status", "200");
  fields[count++] = fixed_field("content-type", "application/grpc");
  if (const auto trace = stream.traceparent(); !trace.empty()) fields[count++] = made_field("traceparent", trace);
  // Without a message, the status comes with the first fields, which are then all of the answer.
  if (stream.finished() && stream.unsent().empty()) {
    StatusFields status(stream.status());
    if (stream.status().code == GrpcCode::unimplemented) {
      fields[count++] = fixed_field("grpc-accept-encoding", "identity,deflate,gzip");
    }
    for (std::size_t i = 0; i < status.count; ++i) fields[count++] = status.fields[i];
    nghttp2_submit_response(session_, stream.id(), fields.data(), count, nullptr);
    return mark_dirty();
  }
  if (stream.answer_packing() != host::ContentCoding::identity) {
    fields[count++] = fixed_field("grpc-encoding", host::to_string(stream.answer_packing()));
  }
  fields[count++] = fixed_field("grpc-accept-encoding", "identity,deflate,gzip");
  const nghttp2_data_provider provider{{.ptr = &stream}, GrpcFrames::read_data};
  nghttp2_submit_response(session_, stream.id(), fields.data(), count, &provider);
  mark_dirty();
}

void GrpcConnection::more_to_send(GrpcStream& stream) {
  nghttp2_session_resume_data(session_, stream.id());
  mark_dirty();
}

void GrpcConnection::consumed(const GrpcStream& stream, std::size_t bytes) {
  nghttp2_session_consume_stream(session_, stream.id(), bytes);
  mark_dirty();
}

void GrpcConnection::answer_http(GrpcStream& stream, int status) {
  const std::string text = std::to_string(status);
  const nghttp2_nv field = made_field(":status", text);
  nghttp2_submit_response(session_, stream.id(), &field, 1, nullptr);
  mark_dirty();
}

// False: the connection is closed.
bool GrpcConnection::send_out() {
  while (out_at_ < out_.size()) {
    const ssize_t sent = stream_.send(std::string_view(out_).substr(out_at_));
    if (sent < 0) {
      if (again_later()) return true;
      close_now();
      return false;
    }
    out_at_ += static_cast<std::size_t>(sent);
    context_.shared.gateway.traffic.bytes_sent.fetch_add(static_cast<std::uint64_t>(sent), std::memory_order_relaxed);
  }
  out_at_ = 0;
  // Memory is kept by those who send, not by those who wait.
  if (out_.capacity() > 2 * kOutMax || streams_.empty()) {
    out_ = {};
  } else {
    out_.clear();
  }
  return true;
}

void GrpcConnection::flush() {
  // Sending would wait for the client, whose socket is ready to be written all the time.
  if (stream_.shaking_hands()) return watch();
  // Until nothing more can be made, or the socket is full.
  while (true) {
    if (nghttp2_session_send(session_) != 0) return close_now();
    if (out_.empty()) break;
    if (!send_out()) return;
    if (!out_.empty()) break;
  }
  // While the client does not read, what waits for its socket is held for it.
  if (!out_charge_.resize(out_.size())) return close_now();
  // nghttp2 wants nothing more once a GOAWAY was sent; but the first one of drain() still lets calls come.
  const bool over = nghttp2_session_want_read(session_) == 0 && nghttp2_session_want_write(session_) == 0;
  if (out_.empty() && (doomed_ || (over && (!draining_ || goodbye_)))) return close_now();
  watch();
}

void GrpcConnection::proceed() {
  dirty_ = false;
  if (!is_open()) return;
  // Requests that waited until earlier ones were answered and read.
  for (const auto& stream : streams_) stream->read_on();
  flush();
}

// Registers only what can make progress. A client that does not read is not read from either: nothing that it sends
// could be answered.
void GrpcConnection::watch() {
  if (!is_open()) return;
  const bool want_read = out_.size() - out_at_ < kOutMax;
  const bool want_write = (!out_.empty() && !stream_.shaking_hands()) || stream_.receive_wants_write();
  const auto wanted = static_cast<host::Interest>((want_read ? 1 : 0) | (want_write ? 2 : 0));
  if (wanted == interest_) return;
  interest_ = wanted;
  context_.loop.change(stream_.socket(), wanted, this);
}

// ---- Time ----

// In each window of time a client must take a part of what waits for it, at the rate that a message must bring.
bool GrpcConnection::unread_too_long(TimePoint now) {
  if (unsent_ == 0 && out_.empty()) {
    unread_since_.reset();
    return false;
  }
  if (!unread_since_) {
    unread_since_ = now;
    sent_in_window_ = 0;
  }
  const GrpcLimits& limits = context_.limits;
  if (now - *unread_since_ <= limits.unread) return false;
  const bool slow = static_cast<double>(sent_in_window_) < limits.rate_min * to_seconds(limits.unread);
  unread_since_ = now;
  sent_in_window_ = 0;
  return slow;
}

void GrpcConnection::check_time(TimePoint now) {
  const GrpcLimits& limits = context_.limits;
  if (stream_.shaking_hands()) {
    if (now - began_ <= limits.grace) return;
    context_.shared.gateway.traffic.handshakes_failed.fetch_add(1, std::memory_order_relaxed);
    return close_now();
  }
  const bool head_late = head_bytes_ > 0 && now - head_began_ > limits.grace;
  if (head_late || (!said_hello_ && now - began_ > limits.grace)) {
    context_.shared.gateway.traffic.timeouts.fetch_add(1, std::memory_order_relaxed);
    return close_now();
  }
  if (unread_too_long(now)) return close_now();
  if (asked_for_life_at_ && now - *asked_for_life_at_ > limits.keepalive_timeout) return close_now();
  for (const auto& stream : streams_) {
    if (stream->too_slow(now)) stream->time_out();
  }
  if (draining_ && !goodbye_ && now - quiet_since_ > kGoodbye) GrpcFrames::name_last_call(session_, *this);
  if (!asked_for_life_at_ && now - heard_at_ > limits.keepalive) {
    asked_for_life_at_ = now;
    nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr);
    mark_dirty();
  }
  if (streams_.empty() && !draining_ && now - quiet_since_ > limits.idle) drain();
  if (draining_) mark_dirty();
}

// The first GOAWAY names no last call, so calls on their way are not lost; the PING behind it tells when they have come
// (RFC 9113 section 6.8).
void GrpcConnection::drain() {
  if (std::exchange(draining_, true)) return;
  if (stream_.shaking_hands() || !said_hello_) return close_now();
  // From here on, quiet_since_ says when the goodbye began.
  quiet_since_ = context_.now;
  nghttp2_submit_shutdown_notice(session_);
  nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr);
  mark_dirty();
}

// ---- The end ----

void GrpcConnection::shut() {
  if (!stream_.is_open() || session_ == nullptr) return;
  context_.loop.remove(stream_.socket(), this);
  stream_.close();
}

// The server keeps the object until the end of the turn, since callers of this function are still on the stack.
void GrpcConnection::close_now() {
  if (!stream_.is_open()) return;
  shut();
  context_.on_closed(this);
}

}  // namespace tangram::serve

#endif
