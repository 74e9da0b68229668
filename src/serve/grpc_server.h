// The Open Inference Protocol over gRPC.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "host/event_loop.h"
#include "host/tls.h"
#include "serve/gateway.h"
#include "serve/live_world.h"
#include "serve/memory_budget.h"
#include "serve/peers.h"

namespace tangram::serve {

// The port that gRPC clients of the protocol ask by default.
inline constexpr std::uint16_t kGrpcPort = 8001;

struct GrpcLimits {
  std::size_t head_max = 16 << 10;                        // Metadata of a call, packed and unpacked.
  std::uint64_t message_max = std::uint64_t{64} << 20;    // Unpacked.
  std::size_t connections_max = 4096;                     // Of each thread.
  std::uint32_t streams_max = 1024;                       // Calls in flight of one connection.
  std::size_t in_flight_max = 64;                         // Requests in flight of one ModelStreamInfer.
  std::uint64_t unread_max = std::uint64_t{64} << 20;     // Answers that the client of a connection has not read.
  double frames_per_s = 200;                              // Frames that ask for nothing, of one connection, ...
  double frames_burst = 2000;                             // ... and so many at once.
  Duration grace = std::chrono::seconds(10);              // For a handshake, a head, and a pause within a message.
  double rate_min = 4096;                                 // Bytes a second that a message must bring after that.
  Duration idle = std::chrono::seconds(75);               // Of a connection without a call.
  Duration unread = std::chrono::seconds(30);             // For a client that does not read its answers.
  Duration keepalive = std::chrono::seconds(60);          // Silence after which a client is asked for a sign of life.
  Duration keepalive_timeout = std::chrono::seconds(20);  // For the sign.
};

// What the health service says, on every thread.
struct GrpcHealth {
  std::atomic<bool> serving{false};
  std::atomic<bool> ending{false};  // Watches end, and nothing serves any more.
};

// What all threads that serve gRPC share. All outlives the servers.
struct GrpcShared {
  const host::LiveClock& clock;
  Gateway& gateway;
  LiveWorld& world;
  MemoryBudget& memory;
  Peers& peers;
  GrpcHealth& health;
};

// Connections of gRPC clients, on one thread: that of the loop.
class GrpcServer {
 public:
  virtual ~GrpcServer() = default;
  // Takes over a listening socket. `tls` null: plain; it outlives the server.
  virtual void listen(int socket, const host::TlsSlot* tls) = 0;
  // Takes over a connected socket, which does not block.
  virtual void adopt(int socket, const host::TlsSlot* tls) = 0;
  // Handles answers from the world, output that can be sent now, changes of GrpcHealth, and clients whose time is over.
  // True if calls were posted meanwhile.
  virtual bool work(TimePoint now) = 0;
  // When work() is due again if nothing happens.
  virtual TimePoint next_due() const = 0;
  // No new connections and no new calls; open connections are closed when their calls are answered.
  virtual void drain() = 0;
  // Closes everything at once.
  virtual void close_all() = 0;
  virtual std::size_t connection_count() const = 0;
};

// Parses the bytes of a ModelInferRequest as the server does. Returns the problem with it; otherwise calls `accepted`,
// which fills in the answer while the tensors are valid, and writes the response and parses it again. For tests.
std::optional<CallProblem> try_grpc_message(std::string_view bytes, const Gateway& gateway,
                                            const std::function<void(Call&)>& accepted);

// What a connection takes before its first call: its object, nghttp2's session with its tables (4 kB each way), and
// OpenSSL's where it is encrypted. It is charged to the whole, as that of HTTP is: those
// who have shown no key share an account, which silent connections of one address would fill.
constexpr std::uint64_t grpc_connection_bytes(bool tls) { return tls ? 48 << 10 : 16 << 10; }

// Whether this build has gRPC.
bool has_grpc();
// Requires has_grpc(). `same_thread`: the world is driven by the thread that drives the loop. The loop outlives it.
std::unique_ptr<GrpcServer> make_grpc_server(host::EventLoop& loop, const GrpcShared& shared, const GrpcLimits& limits,
                                             bool same_thread);

}  // namespace tangram::serve
