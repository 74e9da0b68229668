// The Open Inference Protocol over gRPC.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "host/event_loop.h"
#include "host/tls.h"
#include "serve/gateway.h"
#include "serve/live_world.h"

namespace tangram::serve {

// Serves from construction until it is destroyed, on threads of its own.
class GrpcServer {
 public:
  virtual ~GrpcServer() = default;
  virtual std::uint16_t port() const = 0;
  // What the health service says. Not serving at first.
  virtual void set_serving(bool serving) = 0;
  // Stops accepting requests; those in flight are answered, or cancelled after `grace`. Returns at once.
  virtual void drain(Duration grace) = 0;
  // Replaces the certificates for new connections, if the server was started with some. Any thread.
  virtual void set_tls(const host::TlsMaterial& material) = 0;
};

struct GrpcConfig {
  std::string address = "127.0.0.1";
  std::uint16_t port = 8001;  // 0 takes a free one.
  int threads = 1;
  std::uint64_t message_max = std::uint64_t{64} << 20;
  std::uint64_t head_max = 16 << 10;                  // Metadata of a call.
  int streams_max = 1024;                             // Calls in flight of one connection.
  std::uint64_t memory_max = std::uint64_t{1} << 30;  // Buffers of all connections; beyond, reading waits.
  Duration grace = std::chrono::seconds(10);          // For a handshake.
  Duration idle = std::chrono::seconds(75);           // Of a connection without a call.
  std::optional<host::TlsMaterial> tls = {};          // Nothing: plain.
  host::LiveClock clock = {};                         // Of rates, which tenants have in common with HTTP.
};

// Parses the bytes of a ModelInferRequest as the server does. Returns the problem with it; otherwise calls `accepted`,
// which fills in the answer while the tensors are valid, and writes the response and parses it again. For tests.
std::optional<CallProblem> try_grpc_message(std::string_view bytes, const Gateway& gateway,
                                            const std::function<void(Call&)>& accepted);

// Whether this build has gRPC.
bool has_grpc();
// `gateway` and `world` outlive it.
Result<std::unique_ptr<GrpcServer>> make_grpc_server(const GrpcConfig& config, Gateway& gateway, LiveWorld& world);

}  // namespace tangram::serve
