#ifdef TANGRAM_WITH_GRPC

#include "serve/grpc_context.h"

namespace tangram::serve {
namespace {

// Memory beyond this is not kept for the next call: nobody would be charged for it.
constexpr std::size_t kCallTextKept = 16 << 10;

void release_large(std::string& text) {
  if (text.capacity() > kCallTextKept) text = {};
}

}  // namespace

GrpcCall* GrpcCalls::take() {
  if (calls_free_.empty()) {
    calls_.push_back(std::make_unique<GrpcCall>());
    calls_.back()->owner = &owner_;
    return calls_.back().get();
  }
  GrpcCall* call = calls_free_.back();
  calls_free_.pop_back();
  return call;
}

// The only place where a call ends: whatever was counted for it is released here, exactly once.
void GrpcCalls::give_back(GrpcCall* call) {
  Frontdoor::leave(*call);
  call->clear();
  for (std::string* text : {&call->body, &call->converted, &call->answer}) release_large(*text);
  call->connection_memory.reset();
  call->stream = nullptr;
  calls_free_.push_back(call);
}

GrpcControl* GrpcCalls::take_control() {
  if (controls_free_.empty()) {
    controls_.push_back(std::make_unique<GrpcControl>());
    controls_.back()->owner = &control_owner_;
    return controls_.back().get();
  }
  GrpcControl* call = controls_free_.back();
  controls_free_.pop_back();
  return call;
}

void GrpcCalls::give_back(GrpcControl* call) {
  call->work = nullptr;
  call->status = CallStatus::ok;
  call->answer = {};
  call->stream = nullptr;
  controls_free_.push_back(call);
}

void GrpcCalls::abandon(GrpcCall* call) {
  call->stream = nullptr;
  post_any(Inbox::Abandoned{call});
}

}  // namespace tangram::serve

#endif
