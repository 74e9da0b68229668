// The connections of one I/O thread.
//
// The loop calls the connections when their sockets are ready; work() then does what is left of the turn: it delivers
// answers from the world, lets dirty connections send, and ends those that are out of time. The world can run on the
// same thread or on another. On another, answers cross in answered_ under a mutex, and work() takes all of them at
// once.
//
// Invariant: connections_[i]->index == i, so a connection is removed in constant time. A closed one stays in closed_
// until the end of the turn.

#include "serve/http_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <tuple>
#include <utility>

namespace tangram::serve {
namespace {

// Time limits are in seconds, so a check per second is exact enough. It costs one pass over all connections.
constexpr Duration kSweepEvery = std::chrono::seconds(1);
// How long the listeners rest when the process is out of descriptors.
constexpr Duration kPause = std::chrono::milliseconds(100);
// The kernel drops a connection whose data is not acknowledged for this long. The default is about 15 minutes.
constexpr int kUserTimeoutMs = 30'000;
// Connections that are accepted in one go before existing clients get their turn again.
constexpr int kAcceptedTogether = 64;
// Connections beyond the limit that are reserved for the admin port: an operator must still get in while clients flood
// the server.
constexpr std::size_t kAdminReserve = 16;
// Connections that give way together where the table is full: looking for them takes one pass over it.
constexpr std::size_t kGiveWayTogether = 64;
// How often the log says that connections are refused.
constexpr Duration kTellEvery = std::chrono::seconds(10);

void set_option(int socket, int level, int option, int value) {
  setsockopt(socket, level, option, &value, sizeof value);
}

}  // namespace

// A listening socket in the event loop.
class HttpServer::Listener final : public host::Readiness {
 public:
  // `accept` is called when clients wait at the socket, which the listener closes.
  Listener(host::EventLoop& loop, int socket, std::function<void()> accept)
      : loop_(loop), socket_(socket), accept_(std::move(accept)) {
    loop_.add(socket_, host::Interest::read, this);
  }
  ~Listener() override {
    loop_.remove(socket_, this);
    close(socket_);
  }
  void on_ready(bool, bool, bool) override { accept_(); }
  // Level-triggered epoll would report a client that cannot be accepted again and again.
  void pause() { loop_.change(socket_, host::Interest::none, this); }
  void resume() { loop_.change(socket_, host::Interest::read, this); }

 private:
  host::EventLoop& loop_;
  int socket_;
  std::function<void()> accept_;
};

HttpServer::HttpServer(host::EventLoop& loop, const host::LiveClock& clock, Gateway& gateway, LiveWorld& world,
                       const HttpLimits& limits, HttpShared& shared, LargeRequests& large, bool same_thread)
    : world_(world),
      large_(large),
      same_thread_(same_thread),
      context_{.loop = loop,
               .clock = clock,
               .gateway = gateway,
               .limits = limits,
               .shared = shared,
               .frontdoor = Frontdoor(gateway, clock),
               .calls = HttpCalls(*this, *this, world.inbox(), !same_thread, &gateway.memory.data()),
               .writer = HttpAnswerWriter(clock.now()),
               .now = clock.now()},
      sweep_at_(context_.now + kSweepEvery) {
  context_.read_elsewhere = [this](HttpReading reading, Read read) {
    read_elsewhere(std::move(reading), std::move(read));
  };
  context_.on_closed = [this](HttpConnection* connection) { forget(connection); };
}

HttpServer::~HttpServer() { close_all(); }

// ---- Clients come and go ----

void HttpServer::listen(int socket, const ListenOptions& options) {
  // Connections inherit these, which spares three system calls for each. Answers are written as a whole, so waiting for
  // more data (Nagle's algorithm) would only delay them.
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
  const auto accept = [this, socket, options] { accept_from(socket, options); };
  listeners_.push_back(std::make_unique<Listener>(context_.loop, socket, accept));
}

// Ends early when no client waits. Level-triggered epoll reports the rest in the next turn.
void HttpServer::accept_from(int socket, const ListenOptions& options) {
  for (int n = 0; n < kAcceptedTogether; ++n) {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    const int fd = accept4(socket, reinterpret_cast<sockaddr*>(&address), &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
      const bool full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (full) pause_accepting(errno);
      return;
    }
    // Who has all connections of the data port must still get in at the admin port: they are counted apart.
    PeerKey key = PeerKey::of(address);
    key.admin = options.port == Port::admin;
    admit(fd, key, options);
  }
}

void HttpServer::pause_accepting(int error) {
  for (auto& listener : listeners_) listener->pause();
  // Of no use to wait for the idle limit: what is quiet can give its descriptor to a client that waits.
  make_way();
  paused_ = true;
  sweep_at_ = context_.clock.now() + kPause;
  tell("accepting_paused", std::strerror(error));
}

void HttpServer::admit(int fd, const PeerKey& key, const ListenOptions& options) {
  auto& traffic = context_.gateway.traffic;
  const bool admin = options.port == Port::admin;
  const std::size_t room = context_.limits.connections_max + (admin ? kAdminReserve : 0);
  if (connections_.size() >= room && !make_way())
    return refuse_connection(fd, options.tls == nullptr, "too many connections");
  std::shared_ptr<Peer> peer = context_.shared.peers.enter(key);
  if (peer == nullptr) return refuse_connection(fd, options.tls == nullptr, "too many connections of one address");
  MemoryBudget& memory = context_.gateway.memory;
  Charge fixed(MemoryPlaces{nullptr, nullptr, admin ? &memory.admin() : &memory.data()});
  if (!fixed.grow(HttpConnection::fixed_bytes(options.tls != nullptr))) {
    context_.shared.peers.leave(key);
    return refuse_connection(fd, options.tls == nullptr, "the server holds too many bytes for its callers");
  }
  traffic.connections_opened.fetch_add(1, std::memory_order_relaxed);
  traffic.connections_open.fetch_add(1, std::memory_order_relaxed);
  // The time of the turn can be old by now, and a new connection would start with part of its time used up.
  context_.now = context_.clock.now();
  context_.writer.keep_date(context_.now);
  connections_.push_back(
      std::make_unique<HttpConnection>(context_, fd, options, key, std::move(peer), std::move(fixed)));
  connections_.back()->index = connections_.size() - 1;
}

// Those that never asked anything go first, then those that have waited longest. One that came a moment ago is about to
// ask.
bool HttpServer::make_way() {
  struct Quiet {
    bool has_asked;
    TimePoint since;
    HttpConnection* connection;
  };
  std::vector<Quiet> quiet;
  const TimePoint now = context_.clock.now();
  for (const auto& connection : connections_) {
    const auto since = connection->quiet_since();
    if (since && now - *since >= context_.limits.quiet_min)
      quiet.push_back({connection->has_asked(), *since, connection.get()});
  }
  const std::size_t count = std::min(quiet.size(), kGiveWayTogether);
  std::ranges::partial_sort(
      quiet, quiet.begin() + static_cast<std::ptrdiff_t>(count),
      [](const Quiet& a, const Quiet& b) { return std::tie(a.has_asked, a.since) < std::tie(b.has_asked, b.since); });
  for (std::size_t i = 0; i < count; ++i) quiet[i].connection->give_way();
  context_.gateway.traffic.connections_gave_way.fetch_add(count, std::memory_order_relaxed);
  return count > 0;
}

void HttpServer::tell(std::string_view event, std::string_view reason) {
  const TimePoint now = context_.clock.now();
  if (now < tell_at_ || context_.gateway.log() == nullptr) return;
  tell_at_ = now + kTellEvery;
  context_.gateway.log()->write(host::LogLine(host::LogLevel::warning, event)
                                    .text("reason", reason)
                                    .integer("connections", static_cast<std::int64_t>(connections_.size())));
}

void HttpServer::refuse_connection(int socket, bool plain, std::string_view reason) {
  tell("connections_refused", reason);
  context_.gateway.traffic.connections_refused.fetch_add(1, std::memory_order_relaxed);
  // Over TLS an answer would need a handshake first, which costs more than the connection is worth.
  if (plain) {
    std::string out;
    context_.writer.keep_date(context_.clock.now());
    context_.writer.write(out, {.keep_alive = false}, 503, kJsonType, "Retry-After: 1\r\n", error_body(reason));
    // One attempt: if the socket does not take it at once, the client only sees the connection close.
    [[maybe_unused]] const auto sent = send(socket, out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  close(socket);
}

// The last connection moves to the place of the closed one, which keeps the vector dense.
void HttpServer::forget(HttpConnection* connection) {
  context_.gateway.traffic.connections_open.fetch_sub(1, std::memory_order_relaxed);
  const std::size_t index = connection->index;
  std::erase(context_.later, connection);
  closed_.push_back(std::move(connections_[index]));
  if (index + 1 != connections_.size()) {
    connections_[index] = std::move(connections_.back());
    connections_[index]->index = index;
  }
  connections_.pop_back();
}

// ---- Answers ----

void HttpServer::on_answered(Call* call) { hand_over(static_cast<HttpCall*>(call)); }

void HttpServer::on_controlled(ControlCall* call) { hand_over(static_cast<HttpControl*>(call)); }

// On the thread of the world. Only the first answer since the last work() wakes the loop: the others are picked up with
// it.
void HttpServer::hand_over(Answered call) {
  if (same_thread_) return std::visit([this](auto* c) { finish(c); }, call);
  bool first = false;
  {
    const host::MutexLock lock(answered_mutex_);
    first = answered_.empty();
    answered_.push_back(call);
  }
  if (first) context_.loop.wake();
}

// The reading is shared with the function, which must be copyable.
void HttpServer::read_elsewhere(HttpReading reading, Read read) {
  const auto shared = std::make_shared<HttpReading>(std::move(reading));
  large_.run([this, shared, read = std::move(read)] {
    shared->problem = read(*shared->call);
    {
      const host::MutexLock lock(answered_mutex_);
      read_.push_back(std::move(*shared));
    }
    some_read_.store(true, std::memory_order_release);
    context_.loop.wake();
  });
}

// The client may have gone meanwhile: then nobody needs the answer, and the world has not heard of the call.
void HttpServer::take_read() {
  if (!some_read_.exchange(false, std::memory_order_acquire)) return;
  std::vector<HttpReading> all;
  {
    const host::MutexLock lock(answered_mutex_);
    all.swap(read_);
  }
  for (HttpReading& reading : all) {
    HttpCall* call = reading.call;
    call->being_read = false;
    if (call->asker.connection == nullptr) {
      finish(call);
      continue;
    }
    const auto denial = context_.frontdoor.account(reading.caller, *call, reading.time, std::move(reading.problem));
    if (!denial) {
      context_.calls.post(call);
      continue;
    }
    call->status = denial->status;
    call->error = denial->message;
    call->retry_after = denial->retry_after;
    finish(call);
  }
}

template <typename AnyCall>
void HttpServer::finish(AnyCall* call) {
  // The client has gone. The answer is counted, and its memory goes back to the pool like any other.
  if (call->asker.connection == nullptr) {
    context_.gateway.traffic.calls_abandoned.fetch_add(1, std::memory_order_relaxed);
  } else {
    if (same_thread_) context_.writer.keep_date(world_.time());
    call->asker.connection->answered(*call);
  }
  context_.calls.give_back(call);
}

// ---- The turn ----

bool HttpServer::work(TimePoint now) {
  context_.now = now;
  context_.writer.keep_date(now);
  if (!same_thread_) {
    // The lock is held for a swap only, so the world never waits for answers to be written.
    {
      const host::MutexLock lock(answered_mutex_);
      answered_now_.swap(answered_);
    }
    for (const Answered& call : answered_now_) std::visit([this](auto* c) { finish(c); }, call);
    answered_now_.clear();
  }
  take_read();
  // Those that ask for yet another turn are in a new list.
  const std::vector<HttpConnection*> later = std::exchange(context_.later, {});
  for (HttpConnection* connection : later) connection->proceed_later();
  proceed_dirty();
  if (now >= sweep_at_) sweep(now);
  context_.unpacked = 0;
  return context_.calls.take_posted();
}

// Connections can become dirty again while they proceed, which appends to the list, so it is indexed and not iterated.
// Each repetition consumes input, so the loop ends.
void HttpServer::proceed_dirty() {
  for (std::size_t i = 0; i < context_.dirty.size(); ++i) context_.dirty[i]->proceed();
  context_.dirty.clear();
  // No connection is on the stack any more.
  closed_.clear();
}

void HttpServer::sweep(TimePoint now) {
  sweep_at_ = now + kSweepEvery;
  if (std::exchange(paused_, false)) {
    for (auto& listener : listeners_) listener->resume();
  }
  // Backwards: a connection that closes is replaced by the last one, which has been visited already.
  for (std::size_t i = connections_.size(); i-- > 0;) {
    HttpConnection& connection = *connections_[i];
    if (connection.out_of_time(now)) {
      connection.time_out();
    } else if (context_.draining) {
      connection.stop_when_idle(now);
    } else {
      connection.renew_window(now);
    }
  }
  proceed_dirty();
}

// The listeners close first, so that no new client delays the drain.
void HttpServer::drain() {
  context_.draining = true;
  listeners_.clear();
  sweep(context_.clock.now());
}

// Does not tell the clients anything. Connections detach from their calls, whose answers are then discarded.
void HttpServer::close_all() {
  listeners_.clear();
  while (!connections_.empty()) {
    context_.gateway.traffic.connections_open.fetch_sub(1, std::memory_order_relaxed);
    connections_.pop_back();
  }
  context_.dirty.clear();
  context_.later.clear();
  closed_.clear();
}

}  // namespace tangram::serve
