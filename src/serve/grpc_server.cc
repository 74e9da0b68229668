// The gRPC connections of one thread, as http_server.cc has those of HTTP: the loop calls them when their sockets are
// ready, and work() does what is left of the turn. Answers of a world on another thread cross in answered_ under a
// mutex.
//
// Invariant: connections_[i]->index == i, so a connection is removed in constant time. A closed one stays in closed_
// until the end of the turn.

#include "serve/grpc_server.h"

#ifndef TANGRAM_WITH_GRPC

namespace tangram::serve {

bool has_grpc() { return false; }

std::unique_ptr<GrpcServer> make_grpc_server(host::EventLoop&, const GrpcShared&, const GrpcLimits&, bool) {
  return nullptr;
}

std::optional<CallProblem> try_grpc_message(std::string_view, const Gateway&, const std::function<void(Call&)>&) {
  return CallProblem{CallStatus::unsupported, "this program was built without gRPC"};
}

}  // namespace tangram::serve

#else

#include <google/protobuf/stubs/logging.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "host/mutex.h"
#include "serve/grpc_connection.h"
#include "serve/grpc_context.h"

namespace tangram::serve {
namespace {

// Time limits are in seconds, so a check per second is exact enough.
constexpr Duration kGrpcSweepEvery = std::chrono::seconds(1);
// While draining, the end of the last connection is waited for.
constexpr Duration kDrainSweepEvery = std::chrono::milliseconds(50);
// The kernel drops a connection whose data is not acknowledged for this long. The default is about 15 minutes.
constexpr int kGrpcUserTimeoutMs = 30'000;
// Connections that are accepted in one go before existing clients get their turn again.
constexpr int kGrpcAcceptedTogether = 64;
// When no descriptor is left: how long no client is accepted.
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);

void set_grpc_option(int socket, int level, int option, int value) {
  setsockopt(socket, level, option, &value, sizeof value);
}

class GrpcServerImpl final : public GrpcServer, public CallOwner, public ControlOwner {
 public:
  GrpcServerImpl(host::EventLoop& loop, const GrpcShared& shared, const GrpcLimits& limits, bool same_thread)
      : same_thread_(same_thread),
        context_{.loop = loop,
                 .shared = shared,
                 .limits = limits,
                 .frontdoor = Frontdoor(shared.gateway, shared.clock),
                 .calls = GrpcCalls(*this, *this, shared.world.inbox(), !same_thread),
                 .now = shared.clock.now()},
        sweep_at_(context_.now + kGrpcSweepEvery) {
    context_.on_closed = [this](GrpcConnection* connection) { forget(connection); };
  }
  ~GrpcServerImpl() override { close_all(); }

  void listen(int socket, const host::TlsSlot* tls) override {
    listeners_.push_back(std::make_unique<Listener>(*this, socket, tls));
  }
  void adopt(int socket, const host::TlsSlot* tls) override {
    context_.now = context_.shared.clock.now();
    take_client(socket, {}, tls);
  }
  bool work(TimePoint now) override;
  TimePoint next_due() const override { return connections_.empty() ? resume_at_ : std::min(sweep_at_, resume_at_); }
  void drain() override;
  void close_all() override;
  std::size_t connection_count() const override { return connections_.size(); }

  // On the thread of the world.
  void on_answered(Call* call) override { hand_over(static_cast<GrpcCall*>(call)); }
  void on_controlled(ControlCall* call) override { hand_over(static_cast<GrpcControl*>(call)); }

 private:
  using Answered = std::variant<GrpcCall*, GrpcControl*>;

  // A listening socket in the event loop, which it closes.
  class Listener final : public host::Readiness {
   public:
    Listener(GrpcServerImpl& server, int socket, const host::TlsSlot* tls)
        : server_(server), socket_(socket), tls_(tls) {
      server_.context_.loop.add(socket_, host::Interest::read, this);
    }
    ~Listener() override {
      server_.context_.loop.remove(socket_, this);
      close(socket_);
    }
    void on_ready(bool, bool, bool) override { server_.accept_from(*this); }
    // While it does not listen, clients wait in the kernel's queue.
    void set_listening(bool listening) {
      server_.context_.loop.change(socket_, listening ? host::Interest::read : host::Interest::none, this);
    }
    int socket() const { return socket_; }
    const host::TlsSlot* tls() const { return tls_; }

   private:
    GrpcServerImpl& server_;
    int socket_;
    const host::TlsSlot* tls_;
  };

  void accept_from(Listener& listener);
  void take_client(int socket, const sockaddr_storage& address, const host::TlsSlot* tls);
  // Makes room for a connection by closing the one that has been without a call for longest. False: there is none.
  bool close_a_quiet_one();
  void sweep(TimePoint now);
  void proceed_dirty();
  // A connection has closed: it is deleted at the end of the turn, because it may be on the stack now.
  void forget(GrpcConnection* connection);
  // Passes an answered call to the thread of this server, and from there to its stream.
  void hand_over(Answered call) EXCLUDES(answered_mutex_);
  void finish(GrpcCall* call);
  void finish(GrpcControl* call);
  void tell_watches();

  const bool same_thread_;
  GrpcContext context_;
  TimePoint sweep_at_;
  TimePoint resume_at_ = kTimeNever;  // Listeners pause until then.
  bool told_serving_ = false;         // What watches were told.
  bool told_ending_ = false;
  std::vector<std::unique_ptr<Listener> > listeners_;
  std::vector<std::unique_ptr<GrpcConnection> > connections_;
  std::vector<std::unique_ptr<GrpcConnection> > closed_;  // Deleted at the end of the turn.
  std::vector<Answered> answered_now_;                    // Those that work() is handling.

  host::Mutex answered_mutex_;
  std::vector<Answered> answered_ GUARDED_BY(answered_mutex_);
};

// ---- Clients come and go ----

// Ends early when no client waits. Level-triggered epoll reports the rest in the next turn, so without a free
// descriptor the listener must pause, or the loop would spin.
void GrpcServerImpl::accept_from(Listener& listener) {
  context_.now = context_.shared.clock.now();
  for (int n = 0; n < kGrpcAcceptedTogether; ++n) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    const int fd =
        accept4(listener.socket(), reinterpret_cast<sockaddr*>(&address), &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      take_client(fd, address, listener.tls());
      continue;
    }
    if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM) return;
    resume_at_ = context_.now + kAcceptPause;
    listener.set_listening(false);
    return;
  }
}

void GrpcServerImpl::take_client(int fd, const sockaddr_storage& address, const host::TlsSlot* tls) {
  auto& traffic = context_.shared.gateway.traffic;
  const PeerKey key = PeerKey::of(address);
  const bool full = connections_.size() >= context_.limits.connections_max && !close_a_quiet_one();
  std::shared_ptr<Peer> peer = full ? nullptr : context_.shared.peers.enter(key);
  if (peer == nullptr) {
    traffic.connections_refused.fetch_add(1, std::memory_order_relaxed);
    close(fd);
    return;
  }
  // Answers are written as a whole, so waiting for more data (Nagle's algorithm) would only delay them.
  set_grpc_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_grpc_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_grpc_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, kGrpcUserTimeoutMs);
  auto made = std::make_unique<GrpcConnection>(context_, fd, tls, key, std::move(peer));
  if (!made->charged()) {
    traffic.connections_refused.fetch_add(1, std::memory_order_relaxed);
    context_.shared.peers.leave(key);
    return;
  }
  traffic.connections_opened.fetch_add(1, std::memory_order_relaxed);
  traffic.connections_open.fetch_add(1, std::memory_order_relaxed);
  made->index = connections_.size();
  connections_.push_back(std::move(made));
}

bool GrpcServerImpl::close_a_quiet_one() {
  GrpcConnection* oldest = nullptr;
  for (const auto& connection : connections_) {
    if (!connection->is_quiet()) continue;
    if (oldest == nullptr || connection->quiet_since() < oldest->quiet_since()) oldest = connection.get();
  }
  if (oldest == nullptr) return false;
  oldest->close_now();
  return true;
}

// The last connection moves to the place of the closed one, which keeps the vector dense.
void GrpcServerImpl::forget(GrpcConnection* connection) {
  context_.shared.gateway.traffic.connections_open.fetch_sub(1, std::memory_order_relaxed);
  context_.shared.peers.leave(connection->peer_key());
  const std::size_t index = connection->index;
  closed_.push_back(std::move(connections_[index]));
  if (index + 1 != connections_.size()) {
    connections_[index] = std::move(connections_.back());
    connections_[index]->index = index;
  }
  connections_.pop_back();
}

// ---- Answers ----

// Only the first answer since the last work() wakes the loop: the others are picked up with it.
void GrpcServerImpl::hand_over(Answered call) {
  if (same_thread_) return std::visit([this](auto* c) { finish(c); }, call);
  bool first = false;
  {
    const host::MutexLock lock(answered_mutex_);
    first = answered_.empty();
    answered_.push_back(call);
  }
  if (first) context_.loop.wake();
}

void GrpcServerImpl::finish(GrpcCall* call) {
  if (call->stream != nullptr) {
    call->stream->answered(*call);
  } else {
    context_.shared.gateway.traffic.calls_abandoned.fetch_add(1, std::memory_order_relaxed);
  }
  context_.calls.give_back(call);
}

void GrpcServerImpl::finish(GrpcControl* call) {
  if (call->stream != nullptr) call->stream->answered(*call);
  context_.calls.give_back(call);
}

// Changes in between are skipped, so a client gets the latest status only.
void GrpcServerImpl::tell_watches() {
  const bool serving = context_.shared.health.serving;
  const bool ending = context_.shared.health.ending;
  if (serving == told_serving_ && ending == told_ending_) return;
  told_serving_ = serving;
  told_ending_ = ending;
  for (GrpcStream* watch : context_.watches) watch->tell_health();
}

// ---- The turn ----

bool GrpcServerImpl::work(TimePoint now) {
  context_.now = now;
  if (!same_thread_) {
    // The lock is held for a swap only, so the world never waits for answers to be written.
    {
      const host::MutexLock lock(answered_mutex_);
      answered_now_.swap(answered_);
    }
    for (const Answered& call : answered_now_) std::visit([this](auto* c) { finish(c); }, call);
    answered_now_.clear();
  }
  tell_watches();
  proceed_dirty();
  if (now >= resume_at_) {
    resume_at_ = kTimeNever;
    for (const auto& listener : listeners_) listener->set_listening(true);
  }
  if (now >= sweep_at_) sweep(now);
  return context_.calls.take_posted();
}

// Connections can become dirty again while they proceed, which appends to the list, so it is indexed and not iterated.
void GrpcServerImpl::proceed_dirty() {
  for (std::size_t i = 0; i < context_.dirty.size(); ++i) context_.dirty[i]->proceed();
  context_.dirty.clear();
  // No connection is on the stack any more.
  closed_.clear();
}

void GrpcServerImpl::sweep(TimePoint now) {
  sweep_at_ = now + (context_.draining ? kDrainSweepEvery : kGrpcSweepEvery);
  // Backwards: a connection that closes is replaced by the last one, which has been visited already.
  for (std::size_t i = connections_.size(); i-- > 0;) connections_[i]->check_time(now);
  proceed_dirty();
}

// The listeners close first, so that no new client delays the drain.
void GrpcServerImpl::drain() {
  context_.now = context_.shared.clock.now();
  context_.draining = true;
  listeners_.clear();
  tell_watches();
  for (std::size_t i = connections_.size(); i-- > 0;) connections_[i]->drain();
  proceed_dirty();
  sweep_at_ = context_.now + kDrainSweepEvery;
}

// Does not tell the clients anything. Streams detach from their calls, whose answers are then discarded.
void GrpcServerImpl::close_all() {
  listeners_.clear();
  while (!connections_.empty()) {
    context_.shared.gateway.traffic.connections_open.fetch_sub(1, std::memory_order_relaxed);
    context_.shared.peers.leave(connections_.back()->peer_key());
    connections_.pop_back();
  }
  context_.dirty.clear();
  closed_.clear();
}

}  // namespace

bool has_grpc() { return true; }

std::unique_ptr<GrpcServer> make_grpc_server(host::EventLoop& loop, const GrpcShared& shared, const GrpcLimits& limits,
                                             bool same_thread) {
  // Protobuf writes a line of its own for each text that is no UTF-8, so any stranger could fill the log, which holds
  // lines of JSON. What matters comes back as a status.
  google::protobuf::SetLogHandler(nullptr);
  return std::make_unique<GrpcServerImpl>(loop, shared, limits, same_thread);
}

}  // namespace tangram::serve

#endif
