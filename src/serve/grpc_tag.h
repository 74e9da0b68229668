// The tags that the completion queues of gRPC return.
#pragma once

namespace tangram::serve {

class GrpcTag {
 public:
  virtual ~GrpcTag() = default;
  // The operation with this tag has completed. `ok` as CompletionQueue::Next() reports it. May delete the object.
  virtual void on_event(bool ok) = 0;
};

}  // namespace tangram::serve
