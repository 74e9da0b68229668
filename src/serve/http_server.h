// Connections of HTTP clients, on one thread.
//
// Several requests of one connection may be under way; answers leave in the order of the requests. A client that is
// slow to send, slow to read, or gone, costs its own buffers until its time is over, and nobody else anything.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "host/event_loop.h"
#include "serve/gateway.h"
#include "serve/live_world.h"
#include "host/tls.h"

namespace tangram::serve {

struct HttpLimits {
  std::size_t head_max = 16 << 10;
  std::uint64_t body_max = std::uint64_t{64} << 20;
  std::size_t connections_max = 4096;                 // Of each thread.
  std::size_t pipeline_max = 64;                      // Requests of one connection that are under way.
  std::uint64_t bodies_max = std::uint64_t{1} << 30;  // Bytes of all bodies that are here, of each thread.
  Duration grace = std::chrono::seconds(10);          // For a head, and for a body before its rate counts.
  double rate_min = 4096;                             // Bytes a second that a body must bring on average after that.
  Duration idle = std::chrono::seconds(75);           // Between two requests.
  Duration unread = std::chrono::seconds(30);         // For a client that does not take its answer.
};

// A socket that listens at `address` (numbers, v4 or v6). Port 0 takes a free one. `shared` lets several threads listen
// at one port, each with its own queue.
Result<int> listen_at(const std::string& address, std::uint16_t port, bool shared);
std::uint16_t port_of(int socket);
// A Unix socket at `path`, which only this user may open. One that a server left behind is replaced; one where somebody
// answers is not.
Result<int> listen_at_path(const std::string& path);

// How the clients of a listening socket are met.
struct ListenOptions {
  Port port = Port::data;
  const host::TlsSlot* tls = nullptr;  // Null: plain. Outlives the server.
  bool trusted = false;          // Who gets here has shown who they are: by the permissions of a file.
};

class HttpServer final : public CallOwner {
 public:
  // All outlive it. `same_thread`: the world is driven by the thread that drives this.
  HttpServer(host::EventLoop& loop, const host::LiveClock& clock, Gateway& gateway, LiveWorld& world, const HttpLimits& limits,
             bool same_thread);
  ~HttpServer() override;

  // Takes over a listening socket.
  void listen(int socket, const ListenOptions& options);
  // No new connections; open ones are closed as they fall idle.
  void drain();
  // Closes everything at once.
  void close_all();

  // Answers that came from the world, answers that can be sent now, and clients whose time is over. True if calls
  // were posted meanwhile.
  bool work(TimePoint now);
  // When work() is due again if nothing happens.
  TimePoint next_due() const { return connections_.empty() ? kTimeNever : sweep_at_; }
  std::size_t connection_count() const { return connections_.size(); }

  void on_answered(Call* call) override;

 private:
  class Listener;
  class Connection;
  friend class Connection;

  void accept_from(int socket, const ListenOptions& options);
  void refuse_connection(int socket, bool plain);
  void sweep(TimePoint now);
  void bury(Connection* connection);
  void finish(Call* call);
  // The date of answers, which is written anew once a second, must be right from now on.
  void keep_date(TimePoint now) {
    if (now >= date_until_) renew_date(now);
  }
  void renew_date(TimePoint now);
  // What every answer begins with. `connection` ends the line before it, and may hold a field of that name.
  void append_head(std::string& out, int status, std::string_view type, std::size_t length,
                   std::string_view connection) const;
  Call* take_call();
  void give_back(Call* call);
  void post(Call* call);

  host::EventLoop& loop_;
  const host::LiveClock& clock_;
  Gateway& gateway_;
  LiveWorld& world_;
  const HttpLimits limits_;
  const bool same_thread_;
  TimePoint now_;
  TimePoint sweep_at_;
  bool draining_ = false;
  bool posted_ = false;
  std::uint64_t bodies_ = 0;  // Bytes.
  TimePoint date_until_;
  std::string date_;  // The end of a status line, the field Date, and the name of the next field.
  std::string good_;  // What a good answer with binary tensors begins with, up to its length.
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<std::unique_ptr<Connection>> graveyard_;  // Closed, and perhaps still on the stack.
  std::vector<Connection*> dirty_;                      // Something is to be sent or read on.
  std::vector<std::unique_ptr<Call>> calls_;
  std::vector<Call*> calls_free_;
  InferBody scratch_;

  std::mutex answered_mutex_;
  std::vector<Call*> answered_;
  std::vector<Call*> answered_now_;
};

}  // namespace tangram::serve
