// Connections of HTTP clients, on one thread.
//
// Several requests of one connection can be in flight; answers are sent in the order of the requests. A client that is
// slow to send, slow to read, or gone costs its own buffers until its time is over, and delays no other client.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "host/event_loop.h"
#include "host/mutex.h"
#include "serve/gateway.h"
#include "serve/http_connection.h"
#include "serve/http_context.h"
#include "serve/large_requests.h"
#include "serve/live_world.h"

namespace tangram::serve {

class HttpServer final : public CallOwner, public ControlOwner {
 public:
  // All outlive it. `same_thread`: the world is driven by the thread that drives this.
  HttpServer(host::EventLoop& loop, const host::LiveClock& clock, Gateway& gateway, LiveWorld& world,
             const HttpLimits& limits, HttpShared& shared, LargeRequests& large, bool same_thread);
  ~HttpServer() override;

  // Takes over a listening socket.
  void listen(int socket, const ListenOptions& options);
  // No new connections; open ones are closed as they fall idle.
  void drain();
  // Closes everything at once.
  void close_all();

  // Handles answers from the world, output that can be sent now, and clients whose time is over. True if calls were
  // posted meanwhile.
  bool work(TimePoint now);
  // When work() is due again if nothing happens.
  TimePoint next_due() const {
    if (!context_.later.empty()) return context_.now;
    return connections_.empty() && !paused_ ? kTimeNever : sweep_at_;
  }
  std::size_t connection_count() const { return connections_.size(); }

  // On the thread of the world.
  void on_answered(Call* call) override EXCLUDES(answered_mutex_);
  void on_controlled(ControlCall* call) override EXCLUDES(answered_mutex_);

 private:
  using Answered = std::variant<HttpCall*, HttpControl*>;
  using Read = std::function<std::optional<CallProblem>(Call&)>;
  class Listener;

  // Accepts the clients that wait at a listening socket, a few at a time.
  void accept_from(int socket, const ListenOptions& options);
  // There is no descriptor for a client that waits: the listeners rest until the next sweep.
  void pause_accepting(int error);
  // Takes over the socket of a client, or refuses it.
  void admit(int socket, const PeerKey& key, const ListenOptions& options);
  // Closes a connection beyond a limit, after an answer that says which if that takes no TLS handshake.
  void refuse_connection(int socket, bool plain, std::string_view reason);
  // The table is full: closes connections that have waited longest for their clients. False: none has.
  bool make_way();
  // Says in the log, at most every kTellEvery, that connections are refused.
  void tell(std::string_view event, std::string_view reason);
  // Ends the connections whose time is over, and while draining those that are idle.
  void sweep(TimePoint now);
  // Calls proceed() on each dirty connection. Ensures that none is dirty, and deletes those that have closed.
  void proceed_dirty();
  // A connection has closed: it is deleted at the end of the turn, because it may be on the stack now.
  void forget(HttpConnection* connection);
  // Passes an answered call to the thread of this server, and from there to its connection.
  void hand_over(Answered call) EXCLUDES(answered_mutex_);
  // Has `large` read the call, and takes it back in take_read().
  void read_elsewhere(HttpReading reading, Read read) EXCLUDES(answered_mutex_);
  // Posts the calls that were read, or answers them if they make no sense.
  void take_read() EXCLUDES(answered_mutex_);
  // Passes the answer to the connection that waits, if it still exists. This thread.
  template <typename AnyCall>
  void finish(AnyCall* call);

  LiveWorld& world_;
  LargeRequests& large_;
  const bool same_thread_;
  HttpContext context_;
  TimePoint sweep_at_;
  bool paused_ = false;            // The listeners rest.
  TimePoint tell_at_ = kTimeZero;  // Not before then the log says again that connections are refused.
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::vector<std::unique_ptr<HttpConnection>> connections_;
  std::vector<std::unique_ptr<HttpConnection>> closed_;  // Deleted at the end of the turn.
  std::vector<Answered> answered_now_;                   // Those that work() is handling.

  host::Mutex answered_mutex_;
  std::vector<Answered> answered_ GUARDED_BY(answered_mutex_);
  std::vector<HttpReading> read_ GUARDED_BY(answered_mutex_);
  std::atomic<bool> some_read_{false};  // read_ is not empty.
};

}  // namespace tangram::serve
