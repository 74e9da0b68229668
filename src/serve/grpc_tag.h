// What the completion queues of gRPC give back.
#pragma once

namespace tangram::serve {

class GrpcTag {
 public:
  virtual ~GrpcTag() = default;
  virtual void on_event(bool ok) = 0;
};

}  // namespace tangram::serve
