// A pool of calls for one I/O thread. A call is in the free list, with a connection that reads its body, or with the
// world; its memory is never freed before the server ends, so pointers to it stay valid. The number of calls follows
// the largest number that was ever in flight.

#include "serve/http_calls.h"

#include "serve/frontdoor.h"

namespace tangram::serve {

HttpCall* HttpCalls::take() {
  if (calls_free_.empty()) {
    if (calls_.size() >= calls_max_ || !pool_.grow(kCallBytes)) return nullptr;
    calls_.push_back(std::make_unique<HttpCall>());
    calls_.back()->owner = &owner_;
    return calls_.back().get();
  }
  HttpCall* call = calls_free_.back();
  calls_free_.pop_back();
  return call;
}

// The only place where a call ends: whatever was counted for it is released here, exactly once.
void HttpCalls::give_back(HttpCall* call) {
  Frontdoor::leave(*call);
  call->clear();
  call->connection_memory.reset();
  call->being_read = false;
  call->asker = {};
  calls_free_.push_back(call);
}

HttpControl* HttpCalls::take_control() {
  if (controls_free_.empty()) {
    controls_.push_back(std::make_unique<HttpControl>());
    controls_.back()->owner = &control_owner_;
    return controls_.back().get();
  }
  HttpControl* call = controls_free_.back();
  controls_free_.pop_back();
  return call;
}

// Reports can be large and are rare, so their memory is released.
void HttpCalls::give_back(HttpControl* call) {
  call->work = nullptr;
  call->status = CallStatus::ok;
  call->answer = {};
  call->asker = {};
  controls_free_.push_back(call);
}

}  // namespace tangram::serve
