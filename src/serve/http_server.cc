#include "serve/http_server.h"

#include <arpa/inet.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>

#include "base/check.h"

namespace tangram::serve {
namespace {

constexpr int kBacklog = 1024;
constexpr std::size_t kReadBytes = 64 << 10;
constexpr Duration kSweepEvery = std::chrono::seconds(1);
// Beyond this much that the client has not taken, its further requests wait.
constexpr std::size_t kUnsentMax = 1 << 20;
// What a body may take of memory before it has come: a client that lies about its length costs no more.
constexpr std::uint64_t kReserveMax = 1 << 20;
constexpr int kUserTimeoutMs = 30'000;
// A request that is not allowed is read up to here, so that its connection can go on; beyond, it is closed.
constexpr std::uint64_t kRefusedBodyMax = 64 << 10;
// Connections beyond the limit that only the admin interface may take: who is flooded must be able to look.
constexpr std::size_t kAdminReserve = 16;
// How long a client may go on sending what nobody wants before its connection is closed.
constexpr Duration kLingerMax = std::chrono::seconds(2);
constexpr std::string_view kOctetsType = "application/octet-stream";
// What becomes of the connection; that it stays is said to clients of HTTP/1.0 alone, later ones take it for granted.
constexpr std::string_view kCloses = "\r\nConnection: close\r\n";
constexpr std::string_view kStays = "\r\n";
constexpr std::string_view kStaysOpen = "\r\nConnection: keep-alive\r\n";

void append_number(std::string& out, std::uint64_t value) {
  std::array<char, 20> digits;
  std::size_t at = digits.size();
  do {
    digits[--at] = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value != 0);
  out.append(digits.data() + at, digits.size() - at);
}

// Why a request is not read on.
RequestRefusal refusal_of_http(int status) {
  switch (status) {
    case 408: return RequestRefusal::too_slow;
    case 413:
    case 414:
    case 431: return RequestRefusal::too_large;
    case 503: return RequestRefusal::overloaded;
    default: return RequestRefusal::malformed;
  }
}

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
};

std::optional<Address> parse_address(const std::string& text, std::uint16_t port) {
  Address address;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  if (inet_pton(AF_INET, text.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    address.length = sizeof(sockaddr_in);
    return address;
  }
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (inet_pton(AF_INET6, text.c_str(), &v6->sin6_addr) != 1) return std::nullopt;
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(port);
  address.length = sizeof(sockaddr_in6);
  return address;
}

void set_option(int socket, int level, int option, int value) {
  setsockopt(socket, level, option, &value, sizeof value);
}

std::int64_t wall_seconds() { return std::chrono::system_clock::now().time_since_epoch() / std::chrono::seconds(1); }

bool somebody_listens_at(const sockaddr_un& address) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool answered = fd >= 0 && connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  if (fd >= 0) close(fd);
  return answered;
}

}  // namespace

Result<int> listen_at(const std::string& address, std::uint16_t port, bool shared) {
  const auto parsed = parse_address(address, port);
  if (!parsed) return Error{ErrorCode::invalid, fmt::format("\"{}\" is not an address in numbers", address)};
  const int fd = socket(parsed->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return Error{ErrorCode::unavailable, fmt::format("cannot open a socket: {}", std::strerror(errno))};
  set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (shared) set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1);
  const bool bound = bind(fd, reinterpret_cast<const sockaddr*>(&parsed->storage), parsed->length) == 0;
  if (!bound || ::listen(fd, kBacklog) != 0) {
    const int error = errno;
    close(fd);
    return Error{error == EACCES ? ErrorCode::denied : ErrorCode::unavailable,
                 fmt::format("cannot listen at {} port {}: {}", address, port, std::strerror(error))};
  }
  return fd;
}

std::uint16_t port_of(int socket) {
  Address address;
  address.length = sizeof address.storage;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0) return 0;
  // Both families have the port at the same place.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_port);
}

Result<int> listen_at_path(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return Error{ErrorCode::invalid,
                 fmt::format("{}: a socket's path has 1 to {} letters", path, sizeof address.sun_path - 1)};
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  struct stat found {};
  if (lstat(path.c_str(), &found) == 0) {
    if (!S_ISSOCK(found.st_mode)) return Error{ErrorCode::invalid, path + ": is there already, and is no socket"};
    if (somebody_listens_at(address)) return Error{ErrorCode::unavailable, path + ": another server listens there"};
    unlink(path.c_str());
  }
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  // The permissions are those of this call's mask, so that nobody can get in before they are set.
  const mode_t before = umask(0177);
  const bool bound = fd >= 0 && bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  const int error = errno;
  umask(before);
  if (bound && ::listen(fd, kBacklog) == 0) return fd;
  if (fd >= 0) close(fd);
  return Error{error == EACCES ? ErrorCode::denied : ErrorCode::unavailable,
               fmt::format("cannot listen at {}: {}", path, std::strerror(error))};
}

// ---- Listening ----

class HttpServer::Listener final : public host::Readiness {
 public:
  Listener(HttpServer& server, int socket, const ListenOptions& options)
      : server_(server), socket_(socket), options_(options) {
    server_.loop_.add(socket_, host::Interest::read, this);
  }
  ~Listener() override {
    server_.loop_.remove(socket_, this);
    close(socket_);
  }
  void on_ready(bool, bool, bool) override { server_.accept_from(socket_, options_); }

 private:
  HttpServer& server_;
  int socket_;
  const ListenOptions options_;
};

// ---- One client ----

class HttpServer::Connection final : public host::Readiness {
 public:
  Connection(HttpServer& server, int socket, const ListenOptions& options)
      : server_(server),
        socket_(socket),
        port_(options.port),
        asked_who_(server.gateway_.access.on() && !options.trusted),
        quiet_since_(server.now_) {
    if (options.tls != nullptr) tls_ = host::TlsStream::accept(options.tls->get(), socket);
    server_.loop_.add(socket_, host::Interest::read, this);
  }
  ~Connection() override { shut(); }

  void on_ready(bool readable, bool writable, bool broken) override {
    if (broken) return close_now();
    const bool read_on = readable || (writable && tls_wants_write_);
    if (writable) flush();
    if (read_on && socket_ >= 0) read_some();
  }

  // The answer to one of the requests. Sent when those before it are.
  void answered(Call* call);
  // Sends what can be sent and reads on where reading had stopped.
  void proceed();
  bool out_of_time(TimePoint now) const;
  void time_out();
  void stop_when_idle();
  std::size_t index = 0;  // Of the server's connections.
  bool dirty = false;

 private:
  enum class Reading : std::uint8_t { head, body, chunks, nothing };

  // Where the time that the gateway took is counted.
  enum class Counted : std::uint8_t { nowhere, infer, other };

  // A request that has been understood and not answered.
  struct Exchange {
    Call* call = nullptr;  // While it is under way.
    bool keep_alive = true;
    bool http_1_1 = true;
    bool head_only = false;  // The method was HEAD: the answer has no body.
    bool done = false;
    Counted counted = Counted::other;
    TimePoint read;  // When its last byte was.
    Duration compute{};
    std::string text;  // The answer, while others must be sent first.
  };
  // An answer that stands in the output and has not been sent.
  struct Unsent {
    TimePoint read;
    Duration compute;
    Counted counted;
  };
  // The request that is being read.
  struct Incoming {
    Target target;
    bool keep_alive = true;
    bool http_1_1 = true;
    bool head_only = false;
    std::uint64_t length = 0;
    std::string json_length;
    std::string deadline_ms;
    std::string input_size;
    std::string background;
    std::string traceparent;
    bool has_json_length = false;
    bool has_deadline = false;
    bool has_input_size = false;
    bool has_background = false;
    std::string_view repeated;  // Which of these fields came twice.
    host::ChunkedReader chunks;
    const TenantRule* tenant = nullptr;  // Who asks, where that matters.
    bool told = false;                   // That it was refused.
    Call* call = nullptr;                // Whose body is filled.
    std::uint64_t counted = 0;
  };

  void read_some();
  ssize_t receive_encrypted(char* buffer, std::size_t room);
  ssize_t send_encrypted(const char* bytes, std::size_t count);
  void parse();
  bool parse_head();
  bool parse_body();
  bool parse_chunks();
  void begin(const host::HttpHead& head);
  void take_fields(const host::HttpHead& head);
  void take_field(const host::HttpField& field, std::string_view name, std::string& value, bool& has);
  void check_access(const host::HttpHead& head);
  std::optional<AccessDenial> why_denied(const host::HttpHead& head);
  void dispatch();
  void dispatch_infer(Exchange& exchange, Call* call);
  void deny(Exchange& exchange, Call* call, const AccessDenial& denial);
  std::optional<CallProblem> read_infer(Call& call);
  void tell_of_refused(RequestRefusal why, int status, std::string_view reason, const Call* call = nullptr);
  void reply(Exchange& exchange, const Reply& reply);
  void reply_now(Exchange& exchange, int status, std::string_view type, std::string_view extra, std::string_view body);
  void write_answer(const Call& call, Exchange& exchange);
  void count_malformed(const host::HttpRefusal& refusal);
  void refuse_head(const host::HttpRefusal& refusal);
  void refuse(const host::HttpRefusal& refusal);
  void refuse_and_close(const Reply& answer);
  void send_ready();
  void flush();
  void count_added();
  void mark_dirty();
  void watch();
  void linger();
  void read_unwanted(char* buffer, std::size_t room);
  void close_now();
  void shut();
  bool blocked() const { return exchanges_.size() >= server_.limits_.pipeline_max || unsent() > kUnsentMax; }
  std::size_t unsent() const { return out_.size() - out_at_; }
  void drop_incoming();

  HttpServer& server_;
  int socket_;
  Port port_;
  const bool asked_who_;
  std::unique_ptr<host::TlsStream> tls_;  // Null: plain.
  bool tls_wants_write_ = false;    // Reading goes on when the socket can be written.
  std::optional<std::vector<std::string>> certificate_names_;
  std::shared_ptr<const AccessTable> access_;  // Of the request that is being read.
  Reading reading_ = Reading::head;
  host::Interest interest_ = host::Interest::read;
  bool closing_ = false;  // Nothing more is read; closed once everything is sent.
  bool peer_done_ = false;
  bool more_comes_ = false;  // The client sends a body that is not wanted.
  bool lingering_ = false;   // Everything is sent; what comes is thrown away.
  std::string in_;
  std::size_t in_at_ = 0;
  std::string out_;
  std::size_t out_at_ = 0;
  Incoming incoming_;
  std::deque<Exchange> exchanges_;
  std::vector<Unsent> answers_unsent_;
  TimePoint read_at_;        // When bytes last came.
  TimePoint quiet_since_;    // Since when nothing is under way.
  TimePoint message_began_;  // Since when a request is being read.
  std::uint64_t message_bytes_ = 0;
  TimePoint unsent_since_;
};

void HttpServer::Connection::mark_dirty() {
  if (dirty) return;
  dirty = true;
  server_.dirty_.push_back(this);
}

void HttpServer::Connection::watch() {
  const bool want_read = lingering_ || (!closing_ && !peer_done_ && !blocked());
  const bool want_write = unsent() > 0 || tls_wants_write_;
  const auto wanted = static_cast<host::Interest>((want_read ? 1 : 0) | (want_write ? 2 : 0));
  if (wanted == interest_ || socket_ < 0) return;
  interest_ = wanted;
  server_.loop_.change(socket_, wanted, this);
}

void HttpServer::Connection::read_some() {
  thread_local std::array<char, kReadBytes> buffer;
  if (lingering_) return read_unwanted(buffer.data(), buffer.size());
  if (closing_ || peer_done_ || blocked()) return watch();
  const ssize_t got = tls_ == nullptr ? recv(socket_, buffer.data(), buffer.size(), 0)
                                      : receive_encrypted(buffer.data(), buffer.size());
  if (got < 0) {
    if (!would_block()) return close_now();
    return watch();
  }
  if (got == 0) {
    // The client sends no more, but may wait for its answers.
    peer_done_ = true;
    if (exchanges_.empty() && unsent() == 0) return close_now();
    closing_ = true;
    return watch();
  }
  server_.gateway_.traffic.bytes_received.fetch_add(static_cast<std::uint64_t>(got), std::memory_order_relaxed);
  read_at_ = server_.clock_.now();
  server_.keep_date(read_at_);
  if (reading_ == Reading::head && in_.empty()) {
    message_began_ = server_.now_;
    message_bytes_ = 0;
  }
  message_bytes_ += static_cast<std::uint64_t>(got);
  in_.append(buffer.data(), static_cast<std::size_t>(got));
  parse();
  mark_dirty();
}

// Shakes hands, too, where that has not been done.
ssize_t HttpServer::Connection::receive_encrypted(char* buffer, std::size_t room) {
  const bool established = tls_->established();
  const host::TlsStream::Moved result = tls_->read(buffer, room);
  tls_wants_write_ = result.status == host::TlsStream::Status::want_write;
  if (result.status == host::TlsStream::Status::failed && !established) {
    server_.gateway_.traffic.handshakes_failed.fetch_add(1, std::memory_order_relaxed);
    if (tls_->spoke_plain_http()) {
      // What came is read first: closing over unread bytes would throw the answer away, too.
      while (recv(socket_, buffer, room, MSG_DONTWAIT) > 0) continue;
      const std::string body = error_body("this port speaks HTTPS, not plain HTTP");
      std::string out;
      server_.keep_date(server_.clock_.now());
      server_.append_head(out, 400, kJsonType, body.size(), kCloses);
      out += "\r\n" + body;
      send(socket_, out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
  }
  return host::bytes_moved(result);
}

ssize_t HttpServer::Connection::send_encrypted(const char* bytes, std::size_t count) {
  return host::bytes_moved(tls_->write(bytes, count));
}

// Takes as many requests apart as have come and may be under way.
void HttpServer::Connection::parse() {
  bool progress = true;
  while (progress && !closing_ && socket_ >= 0 && !blocked()) {
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

bool HttpServer::Connection::parse_head() {
  if (in_at_ == in_.size()) return false;
  host::HttpHead head;
  const host::HttpHeadResult result = host::parse_http_head(std::string_view(in_).substr(in_at_), server_.limits_.head_max, head);
  if (result.kind == host::HttpHeadResult::Kind::need_more) return false;
  if (result.kind == host::HttpHeadResult::Kind::refused) {
    refuse_head(result.refusal);
    return false;
  }
  begin(head);
  in_at_ += result.consumed;
  return !closing_;
}

// The head is complete: where does it go, and how does its body come?
void HttpServer::Connection::begin(const host::HttpHead& head) {
  incoming_.target = server_.gateway_.route(port_, head.method, head.path);
  incoming_.keep_alive = head.keep_alive && !server_.draining_;
  incoming_.http_1_1 = head.http_1_1;
  incoming_.tenant = nullptr;
  incoming_.told = false;
  incoming_.head_only = head.method == host::HttpMethod::head;
  incoming_.length = head.content_length;
  message_began_ = server_.now_;
  message_bytes_ = 0;
  take_fields(head);
  if (!head.chunked && head.content_length > server_.limits_.body_max) return refuse({413, "body too large"});
  if (server_.bodies_ + head.content_length > server_.limits_.bodies_max)
    return refuse({503, "too many bytes are in flight"});
  const auto encoding = head.find("content-encoding");
  if (encoding && !host::equals_ignoring_case(*encoding, "identity"))
    return refuse({415, "content encodings are not supported"});
  if (asked_who_ || incoming_.target.refusal) check_access(head);
  if (asked_who_) {
    const auto& refusal = incoming_.target.refusal;
    if (refusal && (head.chunked || head.content_length > kRefusedBodyMax)) return refuse_and_close(Reply(*refusal));
  }
  incoming_.call = server_.take_call();
  incoming_.counted = 0;
  if (head.chunked) {
    incoming_.chunks = host::ChunkedReader();
    reading_ = Reading::chunks;
  } else {
    reading_ = Reading::body;
    incoming_.counted = head.content_length;
    server_.bodies_ += head.content_length;
    incoming_.call->body.reserve(static_cast<std::size_t>(std::min(head.content_length, kReserveMax)));
  }
  if (head.expects_continue && exchanges_.empty() && (head.chunked || head.content_length > 0)) {
    out_ += "HTTP/1.1 100 Continue\r\n\r\n";
  }
}

// Who asks is known before the body is read. What they are refused takes the place of the answer.
void HttpServer::Connection::check_access(const host::HttpHead& head) {
  Target& target = incoming_.target;
  const bool infer = target.endpoint == Endpoint::infer;
  if (const auto denial = why_denied(head)) {
    if (infer) tell_of_refused(refusal_of(*denial), http_status(denial->status), denial->message);
    target.refusal = reply_to(*denial);
  } else if (infer && target.refusal) {
    tell_of_refused(RequestRefusal::not_found, target.refusal->status, target.refusal->reason);
  }
}

std::optional<AccessDenial> HttpServer::Connection::why_denied(const host::HttpHead& head) {
  if (!asked_who_) return std::nullopt;
  const AccessNeed need = access_need(port_, incoming_.target.endpoint);
  if (need == AccessNeed::nothing) return std::nullopt;
  Access& access = server_.gateway_.access;
  access_ = access.table();
  if (tls_ && !certificate_names_) certificate_names_ = tls_->peer_names();
  Credentials shown{head.find("authorization").value_or(""), head.find("x-api-key").value_or(""), {}};
  if (certificate_names_) shown.certificate_names = *certificate_names_;
  AccessDenial denial;
  incoming_.tenant = access_->identify(shown, wall_seconds(), denial.message);
  if (incoming_.tenant != nullptr) return why_forbidden(*incoming_.tenant, need, incoming_.target.model);
  access.unauthenticated.fetch_add(1, std::memory_order_relaxed);
  return denial;
}

void HttpServer::Connection::take_field(const host::HttpField& field, std::string_view name, std::string& value, bool& has) {
  if (std::exchange(has, true)) incoming_.repeated = name;
  value = field.value;
}

void HttpServer::Connection::take_fields(const host::HttpHead& head) {
  incoming_.has_json_length = incoming_.has_deadline = incoming_.has_input_size = incoming_.has_background = false;
  incoming_.repeated = {};
  incoming_.traceparent.clear();
  for (const auto& field : head.all_fields()) {
    switch (field.name.size()) {
      case 11:
        if (host::equals_ignoring_case(field.name, "traceparent")) incoming_.traceparent = field.value;
        break;
      case 18:
        if (host::equals_ignoring_case(field.name, "tangram-background")) {
          take_field(field, "Tangram-Background", incoming_.background, incoming_.has_background);
        } else if (host::equals_ignoring_case(field.name, "tangram-input-size")) {
          take_field(field, "Tangram-Input-Size", incoming_.input_size, incoming_.has_input_size);
        }
        break;
      case 19:
        if (!host::equals_ignoring_case(field.name, "tangram-deadline-ms")) break;
        take_field(field, "Tangram-Deadline-Ms", incoming_.deadline_ms, incoming_.has_deadline);
        break;
      case 31:
        if (!host::equals_ignoring_case(field.name, "inference-header-content-length")) break;
        take_field(field, "Inference-Header-Content-Length", incoming_.json_length, incoming_.has_json_length);
        break;
      default: break;
    }
  }
}

bool HttpServer::Connection::parse_body() {
  std::string& body = incoming_.call->body;
  const std::uint64_t missing = incoming_.length - body.size();
  const std::size_t take = static_cast<std::size_t>(std::min<std::uint64_t>(missing, in_.size() - in_at_));
  body.append(in_, in_at_, take);
  in_at_ += take;
  if (take < missing) return false;
  dispatch();
  return true;
}

bool HttpServer::Connection::parse_chunks() {
  std::string& body = incoming_.call->body;
  in_at_ += incoming_.chunks.feed(std::string_view(in_).substr(in_at_), body, server_.limits_.body_max);
  server_.bodies_ += body.size() - incoming_.counted;
  incoming_.counted = body.size();
  if (incoming_.chunks.state() == host::ChunkedReader::State::refused) {
    refuse(incoming_.chunks.refusal());
    return false;
  }
  if (incoming_.chunks.state() == host::ChunkedReader::State::reading) return false;
  dispatch();
  return true;
}

// The request is complete.
void HttpServer::Connection::dispatch() {
  reading_ = Reading::head;
  message_began_ = server_.now_;
  message_bytes_ = 0;
  Call* call = incoming_.call;
  incoming_.call = nullptr;
  call->context_bytes = incoming_.counted;
  Exchange& exchange = exchanges_.emplace_back();
  exchange.keep_alive = incoming_.keep_alive;
  exchange.http_1_1 = incoming_.http_1_1;
  exchange.head_only = incoming_.head_only;
  exchange.read = read_at_;
  if (!exchange.keep_alive) closing_ = true;
  if (incoming_.target.refusal) {
    server_.give_back(call);
    return reply(exchange, *incoming_.target.refusal);
  }
  if (incoming_.target.endpoint == Endpoint::infer) return dispatch_infer(exchange, call);
  call->context = this;
  if (const auto now = server_.gateway_.handle(incoming_.target, call->body, *call)) {
    server_.give_back(call);
    return reply(exchange, *now);
  }
  call->context_serial = static_cast<std::uint64_t>(incoming_.target.endpoint);
  exchange.call = call;
  server_.post(call);
}

void HttpServer::Connection::dispatch_infer(Exchange& exchange, Call* call) {
  call->model = incoming_.target.model;
  AccessTime time;
  if (asked_who_) {
    time = {server_.clock_.now(), wall_seconds()};
    if (const auto denial = begin_request(*incoming_.tenant, time)) return deny(exchange, call, *denial);
    call->tenant_state = incoming_.tenant->state;
    call->tenant = call->tenant_state->id;
  }
  if (const auto problem = read_infer(*call)) {
    const Reply refusal{http_status(problem->status), kJsonType, error_body(problem->message)};
    tell_of_refused(refusal_of(problem->status), refusal.status, problem->message, call);
    server_.give_back(call);
    return reply(exchange, refusal);
  }
  if (asked_who_) {
    if (const auto denial = use_quota(*incoming_.tenant, time)) return deny(exchange, call, *denial);
  }
  call->context = this;
  exchange.call = call;
  server_.post(call);
}

void HttpServer::Connection::deny(Exchange& exchange, Call* call, const AccessDenial& denial) {
  tell_of_refused(refusal_of(denial), http_status(denial.status), denial.message, call);
  server_.give_back(call);
  reply(exchange, reply_to(denial));
}

std::optional<CallProblem> HttpServer::Connection::read_infer(Call& call) {
  if (!incoming_.repeated.empty()) {
    return CallProblem{CallStatus::invalid, fmt::format("several {} fields", incoming_.repeated)};
  }
  InferHeaders headers;
  if (incoming_.has_json_length) headers.json_length = incoming_.json_length;
  if (incoming_.has_deadline) headers.deadline_ms = incoming_.deadline_ms;
  if (incoming_.has_input_size) headers.input_size = incoming_.input_size;
  if (incoming_.has_background) headers.background = incoming_.background;
  if (!incoming_.traceparent.empty()) headers.traceparent = incoming_.traceparent;
  return read_infer_request(headers, call);
}

// Of the request that is being read, or was just now.
void HttpServer::Connection::tell_of_refused(RequestRefusal why, int status, std::string_view reason,
                                             const Call* call) {
  incoming_.told = true;
  RefusedRequest refused{why, status, reason, incoming_.target.model};
  if (call != nullptr) refused.id = call->id;
  if (incoming_.tenant != nullptr) refused.tenant = incoming_.tenant->said.name;
  if (is_traceparent(incoming_.traceparent)) refused.traceparent = incoming_.traceparent;
  server_.gateway_.tell_of_refused(refused);
}

void HttpServer::Connection::reply(Exchange& exchange, const Reply& reply) {
  reply_now(exchange, reply.status, reply.type, reply.headers, reply.body);
  send_ready();
}

// Straight into the output where nothing must be sent before, else kept until its turn.
void HttpServer::Connection::reply_now(Exchange& exchange, int status, std::string_view type, std::string_view extra,
                                       std::string_view body) {
  std::string& out = &exchange == &exchanges_.front() ? out_ : exchange.text;
  const std::string_view connection = !exchange.keep_alive ? kCloses : exchange.http_1_1 ? kStays : kStaysOpen;
  server_.append_head(out, status, type, body.size(), connection);
  out += extra;
  out += std::string_view("\r\n");
  if (!exchange.head_only) out += body;
  exchange.done = true;
}

// What is too large, too slow or too much is HTTP all the same.
void HttpServer::Connection::count_malformed(const host::HttpRefusal& refusal) {
  if (refusal_of_http(refusal.status) != RequestRefusal::malformed) return;
  server_.gateway_.traffic.requests_malformed.fetch_add(1, std::memory_order_relaxed);
}

// What comes cannot be understood, so nobody knows what it asks for.
void HttpServer::Connection::refuse_head(const host::HttpRefusal& refusal) {
  incoming_.target = {};
  incoming_.tenant = nullptr;
  incoming_.traceparent.clear();
  if (port_ == Port::data) tell_of_refused(refusal_of_http(refusal.status), refusal.status, refusal.reason);
  count_malformed(refusal);
  refuse_and_close({refusal.status, kJsonType, error_body(refusal.reason)});
}

// The head was understood, and the rest will not be.
void HttpServer::Connection::refuse(const host::HttpRefusal& refusal) {
  if (incoming_.target.endpoint == Endpoint::infer && !incoming_.told) {
    tell_of_refused(refusal_of_http(refusal.status), refusal.status, refusal.reason);
  }
  count_malformed(refusal);
  refuse_and_close({refusal.status, kJsonType, error_body(refusal.reason)});
}

void HttpServer::Connection::refuse_and_close(const Reply& answer) {
  drop_incoming();
  closing_ = more_comes_ = true;
  reading_ = Reading::nothing;
  Exchange& exchange = exchanges_.emplace_back();
  exchange.keep_alive = false;
  exchange.counted = Counted::nowhere;  // It has not come to its end.
  reply(exchange, answer);
}

void HttpServer::Connection::drop_incoming() {
  if (incoming_.call == nullptr) return;
  incoming_.call->context_bytes = incoming_.counted;
  server_.give_back(incoming_.call);
  incoming_.call = nullptr;
}

void HttpServer::Connection::write_answer(const Call& call, Exchange& exchange) {
  if (call.model == nullptr) {
    const bool metrics = call.context_serial == static_cast<std::uint64_t>(Endpoint::metrics);
    return reply_now(exchange, http_status(call.status), metrics ? kMetricsType : kJsonType, "",
                     call.error.empty() ? call.answer : error_body(call.error));
  }
  std::string extra;
  if (!call.traceparent.empty()) extra = fmt::format("traceparent: {}\r\n", call.traceparent);
  if (call.status != CallStatus::ok) {
    if (call.retry_after > Duration::zero()) {
      extra += fmt::format("Retry-After: {:.0f}\r\n", std::ceil(to_seconds(call.retry_after)));
    }
    return reply_now(exchange, http_status(call.status), kJsonType, extra, error_body(call.error));
  }
  InferBody& body = server_.scratch_;
  write_infer_answer(call, body);
  if (body.json_length) {
    extra += std::string_view("Inference-Header-Content-Length: ");
    append_number(extra, *body.json_length);
    extra += std::string_view("\r\n");
  }
  reply_now(exchange, 200, body.json_length ? kOctetsType : kJsonType, extra, body.text);
}

void HttpServer::Connection::answered(Call* call) {
  const auto exchange = std::ranges::find(exchanges_, call, &Exchange::call);
  TANGRAM_CHECK(exchange != exchanges_.end(), "an answer belongs to a request");
  exchange->call = nullptr;
  exchange->counted = call->model == nullptr ? Counted::other
                      : call->background > 0 ? Counted::nowhere
                                             : Counted::infer;
  exchange->compute = call->compute;
  write_answer(*call, *exchange);
  send_ready();
}

// Moves answers whose turn has come to the output.
void HttpServer::Connection::send_ready() {
  while (!exchanges_.empty() && exchanges_.front().done) {
    const Exchange& first = exchanges_.front();
    out_ += first.text;
    if (first.counted != Counted::nowhere) answers_unsent_.push_back({first.read, first.compute, first.counted});
    exchanges_.pop_front();
    if (exchanges_.empty()) quiet_since_ = server_.now_;
  }
  mark_dirty();
}

void HttpServer::Connection::flush() {
  if (socket_ < 0) return;
  while (unsent() > 0) {
    const ssize_t sent = tls_ == nullptr ? send(socket_, out_.data() + out_at_, unsent(), MSG_NOSIGNAL)
                                         : send_encrypted(out_.data() + out_at_, unsent());
    if (sent < 0) {
      if (!would_block()) return close_now();
      break;
    }
    out_at_ += static_cast<std::size_t>(sent);
    if (!answers_unsent_.empty()) count_added();
    unsent_since_ = server_.now_;
    server_.gateway_.traffic.bytes_sent.fetch_add(static_cast<std::uint64_t>(sent), std::memory_order_relaxed);
  }
  if (unsent() == 0) {
    out_.clear();
    out_at_ = 0;
    unsent_since_ = server_.now_;
    if (closing_ && exchanges_.empty() && !lingering_) return more_comes_ ? linger() : close_now();
  }
  watch();
}

// Closing over bytes that nobody read would make the client's system throw the answer away. So the client is told that
// nothing more comes, and what it still sends is read until it has understood.
void HttpServer::Connection::linger() {
  lingering_ = true;
  quiet_since_ = server_.clock_.now();
  if (tls_) tls_->say_goodbye();
  shutdown(socket_, SHUT_WR);
  watch();
}

void HttpServer::Connection::read_unwanted(char* buffer, std::size_t room) {
  const ssize_t got = recv(socket_, buffer, room, 0);
  if (got == 0 || (got < 0 && !would_block())) close_now();
}

// What the gateway itself took of the answers that were just sent.
void HttpServer::Connection::count_added() {
  const TimePoint now = server_.clock_.now();
  auto& traffic = server_.gateway_.traffic;
  for (const Unsent& answer : answers_unsent_) {
    const bool infer = answer.counted == Counted::infer;
    (infer ? traffic.added_infer : traffic.added_other).add(now - answer.read - answer.compute);
  }
  answers_unsent_.clear();
}

void HttpServer::Connection::proceed() {
  dirty = false;
  flush();
  if (socket_ < 0 || closing_ || in_at_ == in_.size() || blocked()) return;
  const std::size_t before = in_at_;
  parse();
  if (in_at_ != before || closing_) mark_dirty();
}

bool HttpServer::Connection::out_of_time(TimePoint now) const {
  const HttpLimits& limits = server_.limits_;
  if (lingering_) return now - quiet_since_ > kLingerMax;
  if (tls_ && !tls_->established()) return now - quiet_since_ > limits.grace;
  if (unsent() > 0) return now - unsent_since_ > limits.unread;
  if (!exchanges_.empty()) return false;
  const bool in_message = reading_ != Reading::head || in_at_ < in_.size();
  if (!in_message) return now - quiet_since_ > limits.idle;
  const double allowed = to_seconds(limits.grace) + static_cast<double>(message_bytes_) / limits.rate_min;
  return to_seconds(now - message_began_) > (reading_ == Reading::head ? to_seconds(limits.grace) : allowed);
}

void HttpServer::Connection::time_out() {
  const bool in_message = reading_ != Reading::head || in_at_ < in_.size();
  if (lingering_) return close_now();
  if (tls_ && !tls_->established()) server_.gateway_.traffic.handshakes_failed.fetch_add(1, std::memory_order_relaxed);
  if (unsent() > 0 || !in_message) return close_now();
  server_.gateway_.traffic.timeouts.fetch_add(1, std::memory_order_relaxed);
  const host::HttpRefusal slow{408, "the request took too long to come"};
  reading_ == Reading::head ? refuse_head(slow) : refuse(slow);
  flush();
}

void HttpServer::Connection::stop_when_idle() {
  if (exchanges_.empty() && unsent() == 0 && reading_ == Reading::head && in_at_ == in_.size()) close_now();
}

// Gives the descriptor back and forgets the calls that are under way: their answers will find nobody.
void HttpServer::Connection::shut() {
  if (socket_ < 0) return;
  server_.loop_.remove(socket_, this);
  if (tls_ && !lingering_) tls_->say_goodbye();
  close(socket_);
  socket_ = -1;
  drop_incoming();
  for (auto& exchange : exchanges_) {
    if (exchange.call != nullptr) exchange.call->context = nullptr;
  }
  exchanges_.clear();
}

void HttpServer::Connection::close_now() {
  if (socket_ < 0) return;
  shut();
  server_.bury(this);
}

// ---- All clients ----

HttpServer::HttpServer(host::EventLoop& loop, const host::LiveClock& clock, Gateway& gateway, LiveWorld& world,
                       const HttpLimits& limits, bool same_thread)
    : loop_(loop),
      clock_(clock),
      gateway_(gateway),
      world_(world),
      limits_(limits),
      same_thread_(same_thread),
      now_(clock.now()),
      sweep_at_(now_ + kSweepEvery) {
  renew_date(now_);
}

HttpServer::~HttpServer() { close_all(); }

void HttpServer::renew_date(TimePoint now) {
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  const auto second = std::chrono::floor<std::chrono::seconds>(wall);
  date_ = fmt::format("\r\nDate: {:%a, %d %b %Y %H:%M:%S} GMT\r\nContent-Type: ", fmt::gmtime(second.count()));
  good_ = fmt::format("HTTP/1.1 200 OK{}{}\r\nContent-Length: ", date_, kOctetsType);
  date_until_ = now + (second + std::chrono::seconds(1) - wall);
}

void HttpServer::append_head(std::string& out, int status, std::string_view type, std::size_t length,
                             std::string_view connection) const {
  if (status == 200 && type.data() == kOctetsType.data()) {
    out += good_;
  } else {
    out += "HTTP/1.1 ";
    append_number(out, static_cast<std::uint64_t>(status));
    out += ' ';
    out += host::http_status_text(status);
    out += date_;
    out += type;
    out += "\r\nContent-Length: ";
  }
  append_number(out, length);
  out += connection;
}

void HttpServer::listen(int socket, const ListenOptions& options) {
  listeners_.push_back(std::make_unique<Listener>(*this, socket, options));
}

void HttpServer::accept_from(int socket, const ListenOptions& options) {
  // A few at a time, so that a flood of clients does not starve those who are here.
  for (int n = 0; n < 64; ++n) {
    const int fd = accept4(socket, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    if (connections_.size() >= limits_.connections_max + (options.port == Port::admin ? kAdminReserve : 0)) {
      refuse_connection(fd, options.tls == nullptr);
      continue;
    }
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
    gateway_.traffic.connections_opened.fetch_add(1, std::memory_order_relaxed);
    gateway_.traffic.connections_open.fetch_add(1, std::memory_order_relaxed);
    now_ = clock_.now();
    keep_date(now_);
    connections_.push_back(std::make_unique<Connection>(*this, fd, options));
    connections_.back()->index = connections_.size() - 1;
  }
}

void HttpServer::refuse_connection(int socket, bool plain) {
  gateway_.traffic.connections_refused.fetch_add(1, std::memory_order_relaxed);
  if (!plain) {  // Words would need a handshake first.
    close(socket);
    return;
  }
  const std::string body = error_body("too many connections");
  std::string out;
  keep_date(clock_.now());
  append_head(out, 503, kJsonType, body.size(), kCloses);
  out += "Retry-After: 1\r\n\r\n" + body;
  [[maybe_unused]] const auto sent = send(socket, out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  close(socket);
}

void HttpServer::bury(Connection* connection) {
  gateway_.traffic.connections_open.fetch_sub(1, std::memory_order_relaxed);
  const std::size_t index = connection->index;
  graveyard_.push_back(std::move(connections_[index]));
  if (index + 1 != connections_.size()) {
    connections_[index] = std::move(connections_.back());
    connections_[index]->index = index;
  }
  connections_.pop_back();
}

Call* HttpServer::take_call() {
  if (calls_free_.empty()) {
    calls_.push_back(std::make_unique<Call>());
    calls_.back()->owner = this;
    return calls_.back().get();
  }
  Call* call = calls_free_.back();
  calls_free_.pop_back();
  return call;
}

void HttpServer::give_back(Call* call) {
  bodies_ -= call->context_bytes;
  if (call->tenant_state != nullptr) end_request(*call->tenant_state);
  call->clear();
  calls_free_.push_back(call);
}

void HttpServer::post(Call* call) {
  posted_ = true;
  world_.post(call, !same_thread_);
}

void HttpServer::on_answered(Call* call) {
  if (same_thread_) return finish(call);
  bool first = false;
  {
    const std::lock_guard lock(answered_mutex_);
    first = answered_.empty();
    answered_.push_back(call);
  }
  if (first) loop_.wake();
}

void HttpServer::finish(Call* call) {
  if (call->context == nullptr) {
    gateway_.traffic.calls_abandoned.fetch_add(1, std::memory_order_relaxed);
  } else {
    if (same_thread_) keep_date(world_.time());
    static_cast<Connection*>(call->context)->answered(call);
  }
  give_back(call);
}

bool HttpServer::work(TimePoint now) {
  now_ = now;
  keep_date(now);
  if (!same_thread_) {
    {
      const std::lock_guard lock(answered_mutex_);
      answered_now_.swap(answered_);
    }
    for (Call* call : answered_now_) finish(call);
    answered_now_.clear();
  }
  // Connections may become dirty again while they proceed; each such turn consumes input, so it ends.
  for (std::size_t i = 0; i < dirty_.size(); ++i) dirty_[i]->proceed();
  dirty_.clear();
  graveyard_.clear();
  if (now >= sweep_at_) sweep(now);
  return std::exchange(posted_, false);
}

void HttpServer::sweep(TimePoint now) {
  sweep_at_ = now + kSweepEvery;
  for (std::size_t i = connections_.size(); i-- > 0;) {
    Connection& connection = *connections_[i];
    if (connection.out_of_time(now)) {
      connection.time_out();
    } else if (draining_) {
      connection.stop_when_idle();
    }
  }
  for (std::size_t i = 0; i < dirty_.size(); ++i) dirty_[i]->proceed();
  dirty_.clear();
  graveyard_.clear();
}

void HttpServer::drain() {
  draining_ = true;
  listeners_.clear();
  sweep(clock_.now());
}

void HttpServer::close_all() {
  listeners_.clear();
  while (!connections_.empty()) {
    gateway_.traffic.connections_open.fetch_sub(1, std::memory_order_relaxed);
    connections_.pop_back();
  }
  dirty_.clear();
  graveyard_.clear();
}

}  // namespace tangram::serve
