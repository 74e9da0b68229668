#ifdef TANGRAM_WITH_GRPC

#include "serve/grpc_health.h"

#include "serve/grpc_tag.h"

namespace tangram::serve {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

// One question. It posts its successor, and deletes itself.
class HealthCheck final : public GrpcTag {
 public:
  HealthCheck(HealthState& health, grpc::ServerCompletionQueue* queue)
      : health_(health), queue_(queue), writer_(&context_) {
    health_.service.RequestCheck(&context_, &request_, &writer_, queue_, queue_, static_cast<GrpcTag*>(this));
  }

  void on_event(bool ok) override {
    if (answered_ || !ok) {
      delete this;
      return;
    }
    new HealthCheck(health_, queue_);
    answered_ = true;
    HealthCheckResponse response;
    {
      const host::MutexLock lock(health_.mutex);
      response.set_status(health_.status_of(request_.service()));
    }
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

// A stream that tells how things are, and again whenever that changes. It posts its successor, and deletes itself when
// the queue owes it nothing more.
class HealthWatch final {
 public:
  HealthWatch(HealthState& health, grpc::ServerCompletionQueue* queue)
      : health_(health), queue_(queue), writer_(&context_) {
    context_.AsyncNotifyWhenDone(tag(gone_));
    health_.service.RequestWatch(&context_, &request_, &writer_, queue_, queue_, tag(began_));
  }

  // Writes what the client has not been told, unless it is gone or something is being written.
  void tell() REQUIRES(health_.mutex) {
    if (left_ || busy_) return;
    const auto now = health_.status_of(request_.service());
    if (now != told_) {
      told_ = now;
      response_.set_status(now);
      busy_ = true;
      writer_.Write(response_, tag(written_));
    } else if (health_.ending) {
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

  void* tag(StepTag& step) {
    ++owed_;
    return static_cast<GrpcTag*>(&step);
  }

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

  // The steps run with the lock that take() holds.
  void begin(bool ok) REQUIRES(health_.mutex) {
    if (!ok) {
      owed_ = 0;  // gRPC tells the end only of calls that began.
      return;
    }
    new HealthWatch(health_, queue_);
    health_.watches.insert(this);
    tell();
  }
  void leave(bool) { left_ = true; }
  void go_on(bool) REQUIRES(health_.mutex) {
    busy_ = false;
    tell();
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

void HealthService::set_serving(bool serving) {
  const host::MutexLock lock(state_.mutex);
  state_.serving = serving && !state_.ending;
  for (HealthWatch* watch : state_.watches) watch->tell();
}

void HealthService::end() {
  const host::MutexLock lock(state_.mutex);
  state_.serving = false;
  state_.ending = true;
  for (HealthWatch* watch : state_.watches) watch->tell();
}

HealthState::Status HealthState::status_of(const std::string& asked) const {
  if (!asked.empty() && asked != name) return HealthCheckResponse::SERVICE_UNKNOWN;
  return serving ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
}

}  // namespace tangram::serve

#endif
