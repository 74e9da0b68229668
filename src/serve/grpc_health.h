// The standard health service of gRPC (grpc.health.v1), served by the same threads as everything else.
//
// gRPC has an implementation of its own, but that adds a thread which reads from every connection, so that a request is
// read by one thread and handed to another: a quarter fewer requests per second (bench/macro/gateway_grpc).
#pragma once

#include <grpcpp/grpcpp.h>

#include <set>
#include <string>

#include "health.grpc.pb.h"
#include "host/mutex.h"

namespace tangram::serve {

class HealthWatch;

// The state that open calls share with the service.
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

// Answers for the server as a whole (empty name) and for its one service, both alike. Not serving at first.
class HealthService {
 public:
  explicit HealthService(std::string name) : state_(std::move(name)) {}

  grpc::Service* service() { return &state_.service; }
  // Accepts calls on this queue until it is shut down. Requires that the server has started.
  void post(grpc::ServerCompletionQueue* queue);
  // Any thread. Open watches are notified.
  void set_serving(bool serving);
  // Not serving from now on. Open watches are notified and end, since they would keep a draining server alive.
  void end();

 private:
  HealthState state_;
};

}  // namespace tangram::serve
