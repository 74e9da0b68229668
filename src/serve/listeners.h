// Everything that clients connect to: HTTP and gRPC on one thread or several, the admin interface.
//
// With one I/O thread, the loop of the world also serves the sockets. With more, each has a thread, sockets and an
// epoll loop of its own, and passes calls through the inbox of the world. The admin interface is on the first of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/result.h"
#include "host/event_loop.h"
#include "host/tls.h"
#include "serve/grpc_server.h"
#include "serve/http_server.h"
#include "serve/server_config.h"

namespace tangram::serve {

class Listeners {
 public:
  // All outlive it. `loop` is the one that drives the world.
  Listeners(const ServerConfig& config, host::EventLoop& loop, const host::LiveClock& clock, Gateway& gateway,
            LiveWorld& world);
  ~Listeners();
  Listeners(const Listeners&) = delete;
  Listeners& operator=(const Listeners&) = delete;

  // Opens the ports. Errors: a certificate is invalid, or a port is not available.
  Result<Nothing> open();
  std::uint16_t http_port() const { return data_port_; }
  std::uint16_t admin_port() const { return admin_port_; }
  std::uint16_t grpc_port() const { return grpc_port_; }

  // Starts the I/O threads, if there are any.
  void start();
  // Of the sockets that the loop of the world drives. True if calls were posted meanwhile.
  bool work(TimePoint now) { return main_.work(now); }
  TimePoint next_due() const { return main_.next_due(); }

  // What the health service of gRPC says.
  void set_serving(bool serving);
  // Connections from now on use these certificates, where there were some at the start.
  void set_tls(std::shared_ptr<const host::TlsContext> context) { tls_.set(std::move(context)); }
  // Accepts no new connections; open ones end once they are answered. Requires that the gateway drains.
  void drain();
  // Ends all threads and closes their connections.
  void stop();

 private:
  // The servers of one thread.
  struct Servers {
    std::unique_ptr<HttpServer> http;  // Null: they are on other threads.
    std::unique_ptr<GrpcServer> grpc;  // Null: no gRPC is served, or on other threads.

    bool work(TimePoint now);
    TimePoint next_due() const;
    void drain();
    void close_all();
  };
  // An I/O thread with its loop and its sockets.
  struct IoThread {
    host::EventLoop loop;
    Servers servers;
    std::thread thread;
  };

  bool one_thread() const { return config_.threads == 1; }
  // Null: connections are plain.
  const host::TlsSlot* tls_slot() const { return config_.security.tls ? &tls_ : nullptr; }
  // Opens the data port for one HTTP server, which shares it with the others.
  Result<Nothing> open_data(HttpServer& http);
  // Opens the admin port, and the admin socket where there is one.
  Result<Nothing> open_admin(HttpServer& http);
  // Opens the gRPC port for one thread, if one is configured. Shared as the data port is.
  Result<Nothing> open_grpc(host::EventLoop& loop, Servers& servers);
  // The body of an I/O thread.
  void run_io(IoThread& io);

  const ServerConfig& config_;
  const HttpLimits limits_;  // Those of the configuration, as far as descriptors and memory permit.
  HttpShared shared_;
  host::EventLoop& loop_;
  const host::LiveClock& clock_;
  Gateway& gateway_;
  LiveWorld& world_;
  host::TlsSlot tls_;
  GrpcHealth health_;
  Servers main_;  // With one thread; else `io_` has them.
  std::vector<std::unique_ptr<IoThread>> io_;
  std::uint16_t data_port_ = 0;
  std::uint16_t grpc_port_ = 0;
  std::uint16_t admin_port_ = 0;
  bool admin_socket_open_ = false;
  std::atomic<bool> stopping_{false};
  LargeRequests large_;  // Ends before the servers that it reads for.
};

}  // namespace tangram::serve
