#include "serve/http_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <string>
#include <utility>

namespace tangram::serve {
namespace {

constexpr Duration kSweepEvery = std::chrono::seconds(1);
constexpr int kUserTimeoutMs = 30'000;
// Clients that are accepted before those who are here get their turn.
constexpr int kAcceptedTogether = 64;
// Connections beyond the limit that only the admin interface may take: who is flooded must be able to look.
constexpr std::size_t kAdminReserve = 16;

void set_option(int socket, int level, int option, int value) {
  setsockopt(socket, level, option, &value, sizeof value);
}

}  // namespace

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

 private:
  host::EventLoop& loop_;
  int socket_;
  std::function<void()> accept_;
};

HttpServer::HttpServer(host::EventLoop& loop, const host::LiveClock& clock, Gateway& gateway, LiveWorld& world,
                       const HttpLimits& limits, bool same_thread)
    : world_(world),
      same_thread_(same_thread),
      context_{.loop = loop,
               .clock = clock,
               .gateway = gateway,
               .limits = limits,
               .frontdoor = Frontdoor(gateway, clock),
               .calls = HttpCalls(*this, *this, world.inbox(), !same_thread),
               .writer = HttpAnswerWriter(clock.now()),
               .now = clock.now()},
      sweep_at_(context_.now + kSweepEvery) {
  context_.on_closed = [this](HttpConnection* connection) { forget(connection); };
}

HttpServer::~HttpServer() { close_all(); }

// ---- Clients come and go ----

void HttpServer::listen(int socket, const ListenOptions& options) {
  const auto accept = [this, socket, options] { accept_from(socket, options); };
  listeners_.push_back(std::make_unique<Listener>(context_.loop, socket, accept));
}

void HttpServer::accept_from(int socket, const ListenOptions& options) {
  auto& traffic = context_.gateway.traffic;
  for (int n = 0; n < kAcceptedTogether; ++n) {
    const int fd = accept4(socket, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    const std::size_t reserve = options.port == Port::admin ? kAdminReserve : 0;
    if (connections_.size() >= context_.limits.connections_max + reserve) {
      refuse_connection(fd, options.tls == nullptr);
      continue;
    }
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
    traffic.connections_opened.fetch_add(1, std::memory_order_relaxed);
    traffic.connections_open.fetch_add(1, std::memory_order_relaxed);
    context_.now = context_.clock.now();
    context_.writer.keep_date(context_.now);
    connections_.push_back(std::make_unique<HttpConnection>(context_, fd, options));
    connections_.back()->index = connections_.size() - 1;
  }
}

void HttpServer::refuse_connection(int socket, bool plain) {
  context_.gateway.traffic.connections_refused.fetch_add(1, std::memory_order_relaxed);
  if (plain) {
    std::string out;
    context_.writer.keep_date(context_.clock.now());
    context_.writer.write(out, {.keep_alive = false}, 503, kJsonType, "Retry-After: 1\r\n",
                          error_body("too many connections"));
    [[maybe_unused]] const auto sent = send(socket, out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  close(socket);
}

// The last connection takes its place.
void HttpServer::forget(HttpConnection* connection) {
  context_.gateway.traffic.connections_open.fetch_sub(1, std::memory_order_relaxed);
  const std::size_t index = connection->index;
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

template <typename AnyCall>
void HttpServer::finish(AnyCall* call) {
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
    {
      const host::MutexLock lock(answered_mutex_);
      answered_now_.swap(answered_);
    }
    for (const Answered& call : answered_now_) std::visit([this](auto* c) { finish(c); }, call);
    answered_now_.clear();
  }
  proceed_dirty();
  if (now >= sweep_at_) sweep(now);
  return context_.calls.take_posted();
}

// Connections may become dirty again while they proceed; each such turn consumes input, so it ends.
void HttpServer::proceed_dirty() {
  for (std::size_t i = 0; i < context_.dirty.size(); ++i) context_.dirty[i]->proceed();
  context_.dirty.clear();
  closed_.clear();
}

void HttpServer::sweep(TimePoint now) {
  sweep_at_ = now + kSweepEvery;
  for (std::size_t i = connections_.size(); i-- > 0;) {
    HttpConnection& connection = *connections_[i];
    if (connection.out_of_time(now)) {
      connection.time_out();
    } else if (context_.draining) {
      connection.stop_when_idle();
    }
  }
  proceed_dirty();
}

void HttpServer::drain() {
  context_.draining = true;
  listeners_.clear();
  sweep(context_.clock.now());
}

void HttpServer::close_all() {
  listeners_.clear();
  while (!connections_.empty()) {
    context_.gateway.traffic.connections_open.fetch_sub(1, std::memory_order_relaxed);
    connections_.pop_back();
  }
  context_.dirty.clear();
  closed_.clear();
}

}  // namespace tangram::serve
