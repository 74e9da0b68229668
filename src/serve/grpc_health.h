// The usual health service of gRPC (grpc.health.v1), answered by the threads that answer everything else.
//
// gRPC has one of its own. But that brings a thread which reads from every connection beside ours, so that a request is
// read by one and handed to the other: a quarter fewer requests a second (bench/macro/gateway_grpc).
#pragma once

#include <grpcpp/grpcpp.h>

#include <mutex>
#include <set>
#include <string>

#include "health.grpc.pb.h"

namespace tangram::serve {

class HealthWatch;

// Asked about the server as a whole (no name) or about one service of it: both say the same. Not serving at first.
class HealthService {
 public:
  explicit HealthService(std::string name) : name_(std::move(name)) {}

  grpc::Service* service() { return &service_; }
  // Takes questions from this queue until it is shut down. After the server has started.
  void post(grpc::ServerCompletionQueue* queue);
  // Any thread. Those that watch are told.
  void set_serving(bool serving);
  // Not serving any more. Those that watch are told, and their streams end: they would hold a server that drains.
  void end();

 private:
  friend class HealthCheck;
  friend class HealthWatch;
  using Status = grpc::health::v1::HealthCheckResponse::ServingStatus;

  Status status_of(const std::string& name) const;  // With the lock held.

  const std::string name_;
  grpc::health::v1::Health::AsyncService service_;
  std::mutex mutex_;
  bool serving_ = false;
  bool ending_ = false;
  std::set<HealthWatch*> watches_;  // Streams that are open.
};

}  // namespace tangram::serve
