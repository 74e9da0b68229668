// grpc.health.v1 on the completion queues of the server.
//
// Check answers once. Watch is a stream that writes the status when it changes. A stream can have several operations
// outstanding at once (a write, and the notice that the client has gone), and set_serving() reaches it from another
// thread. So, unlike other calls, a watch counts its outstanding tags in owed_ and changes only under
// HealthState::mutex. It is in HealthState::watches from begin() until its last tag has come back.

#ifdef TANGRAM_WITH_GRPC

#include "serve/grpc_health.h"

#include "serve/grpc_tag.h"

namespace tangram::serve {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

// One Check call. It posts its successor and deletes itself.
class HealthCheck final : public GrpcTag {
 public:
  HealthCheck(HealthState& health, grpc::ServerCompletionQueue* queue)
      : health_(health), queue_(queue), writer_(&context_) {
    health_.service.RequestCheck(&context_, &request_, &writer_, queue_, queue_, static_cast<GrpcTag*>(this));
  }

  void on_event(bool ok) override {
    // answered_: the answer was sent. Not ok: the queue shuts down.
    if (answered_ || !ok) {
      delete this;
      return;
    }
    new HealthCheck(health_, queue_);
    answered_ = true;
    HealthCheckResponse response;
    // Released before the answer is sent: the lock protects the status only.
    {
      const host::MutexLock lock(health_.mutex);
      response.set_status(health_.status_of(request_.service()));
    }
    // NOT_FOUND for Check, as the health protocol specifies; Watch reports SERVICE_UNKNOWN as a status instead.
    if (response.status() == HealthCheckResponse::SERVICE_UNKNOWN) {
      writer_.FinishWithError({grpc::StatusCode::NOT_FOUND, "no service '" + request_.service() + "' here"},
                              static_cast<GrpcTag*>(this));
    } else {
      writer_.Finish(response, grpc::Status::OK, static_cast<GrpcTag*>(this));
    }
  }

 private:
  HealthState& health_;
  grpc::ServerCompletionQueue* queue_;
  grpc::ServerContext context_;
  HealthCheckRequest request_;
  grpc::ServerAsyncResponseWriter<HealthCheckResponse> writer_;
  bool answered_ = false;
};

// A stream that reports the status, and reports it again whenever it changes. It posts its successor, and deletes
// itself when the queue owes it no more tags.
class HealthWatch final {
 public:
  HealthWatch(HealthState& health, grpc::ServerCompletionQueue* queue)
      : health_(health), queue_(queue), writer_(&context_) {
    // Must precede the request: gRPC accepts this registration only before the call starts.
    context_.AsyncNotifyWhenDone(tag(gone_));
    health_.service.RequestWatch(&context_, &request_, &writer_, queue_, queue_, tag(began_));
  }

  // Writes the status if the client does not know it yet. Does nothing if the client has gone or a write is
  // outstanding: gRPC allows one write at a time, and go_on() calls this again. Changes in between are skipped, so the
  // client gets the latest status only. `health` is the state of the service: the caller names the mutex that it holds.
  void tell(HealthState& health) REQUIRES(health.mutex) {
    if (left_ || busy_) return;
    const auto now = health.status_of(request_.service());
    if (now != told_) {
      told_ = now;
      response_.set_status(now);
      busy_ = true;
      writer_.Write(response_, tag(written_));
    } else if (health.ending) {
      // Never reset: nothing may be written after Finish().
      busy_ = true;  // For good.
      writer_.Finish({grpc::StatusCode::UNAVAILABLE, "the server shuts down"}, tag(finished_));
    }
  }

 private:
  using Step = void (HealthWatch::*)(bool ok);
  struct StepTag final : GrpcTag {
    StepTag(HealthWatch* w, Step s) : watch(w), step(s) {}
    void on_event(bool ok) override { watch->take(step, ok); }
    HealthWatch* watch;
    Step step;
  };

  // Counts a tag that is given to gRPC. Every such tag comes back exactly once, except as begin() says.
  void* tag(StepTag& step) {
    ++owed_;
    return static_cast<GrpcTag*>(&step);
  }

  // Runs one step under the lock, and deletes the object when its last tag has come back.
  void take(Step step, bool ok) {
    bool over = false;
    {
      const host::MutexLock lock(health_.mutex);
      --owed_;
      (this->*step)(ok);
      over = owed_ == 0;
      if (over) health_.watches.erase(this);
    }
    if (over) delete this;
  }

  // The steps run under the lock that take() holds.
  void begin(bool ok) REQUIRES(health_.mutex) {
    if (!ok) {
      owed_ = 0;  // gRPC tells the end only of calls that began.
      return;
    }
    new HealthWatch(health_, queue_);
    health_.watches.insert(this);
    tell(health_);
  }
  // The client has gone. Writes that are outstanding still come back, and then the object is deleted.
  void leave(bool) { left_ = true; }
  void go_on(bool) REQUIRES(health_.mutex) {
    busy_ = false;
    tell(health_);
  }
  void finish(bool) {}

  HealthState& health_;
  grpc::ServerCompletionQueue* queue_;
  grpc::ServerContext context_;
  HealthCheckRequest request_;
  HealthCheckResponse response_;
  grpc::ServerAsyncWriter<HealthCheckResponse> writer_;
  StepTag began_{this, &HealthWatch::begin};
  StepTag gone_{this, &HealthWatch::leave};
  StepTag written_{this, &HealthWatch::go_on};
  StepTag finished_{this, &HealthWatch::finish};
  HealthState::Status told_ = HealthCheckResponse::UNKNOWN;
  bool left_ = false;
  bool busy_ = false;
  int owed_ = 0;  // Tags that the queue will give back.
};

void HealthService::post(grpc::ServerCompletionQueue* queue) {
  new HealthCheck(state_, queue);
  new HealthWatch(state_, queue);
}

// A server that is ending stays NOT_SERVING, even if a slow start reports ready afterwards.
void HealthService::set_serving(bool serving) {
  const host::MutexLock lock(state_.mutex);
  state_.serving = serving && !state_.ending;
  for (HealthWatch* watch : state_.watches) watch->tell(state_);
}

void HealthService::end() {
  const host::MutexLock lock(state_.mutex);
  state_.serving = false;
  state_.ending = true;
  for (HealthWatch* watch : state_.watches) watch->tell(state_);
}

HealthState::Status HealthState::status_of(const std::string& asked) const {
  if (!asked.empty() && asked != name) return HealthCheckResponse::SERVICE_UNKNOWN;
  return serving ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
}

}  // namespace tangram::serve

#endif
