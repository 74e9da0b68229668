// The usual health service of gRPC (grpc.health.v1), answered by the threads that answer everything else.
//
// gRPC has one of its own. But that brings a thread which reads from every connection beside ours, so that a request is
// read by one and handed to the other: a quarter fewer requests a second (bench/macro/gateway_grpc).
#pragma once

#include <grpcpp/grpcpp.h>

#include <set>
#include <string>

#include "health.grpc.pb.h"
#include "host/mutex.h"

namespace tangram::serve {

class HealthWatch;

// What the open questions share with the service.
struct HealthState {
  using Status = grpc::health::v1::HealthCheckResponse::ServingStatus;

  explicit HealthState(std::string n) : name(std::move(n)) {}

  Status status_of(const std::string& asked) const REQUIRES(mutex);

  const std::string name;
  grpc::health::v1::Health::AsyncService service;
  host::Mutex mutex;
  bool serving GUARDED_BY(mutex) = false;
  bool ending GUARDED_BY(mutex) = false;
  std::set<HealthWatch*> watches GUARDED_BY(mutex);  // Streams that are open.
};

// Asked about the server as a whole (no name) or about one service of it: both say the same. Not serving at first.
class HealthService {
 public:
  explicit HealthService(std::string name) : state_(std::move(name)) {}

  grpc::Service* service() { return &state_.service; }
  // Takes questions from this queue until it is shut down. After the server has started.
  void post(grpc::ServerCompletionQueue* queue);
  // Any thread. Those that watch are told.
  void set_serving(bool serving);
  // Not serving any more. Those that watch are told, and their streams end: they would hold a server that drains.
  void end();

 private:
  HealthState state_;
};

}  // namespace tangram::serve
