// Calls are pooled and reused. clear() resets a call for its owner's next request and keeps the memory of strings and
// vectors, so that the steady state allocates nothing per request.

#include "serve/call.h"

namespace tangram::serve {
namespace {

// A buffer that has grown beyond this is released: otherwise one burst of large requests would keep its memory for
// ever.
constexpr std::size_t kKeptBytesMax = 4 << 10;

void empty(std::string& text) {
  if (text.capacity() > kKeptBytesMax) {
    std::string().swap(text);
  } else {
    text.clear();
  }
}

}  // namespace

// request, record, arrived, slice and bucket are not reset: they are set again before anything reads them. Only the
// thread of the world writes `request`, and it may read it at any time (LiveWorld::abandon).
void Call::clear() {
  model = nullptr;
  id.clear();
  empty(body);
  empty(converted);
  inputs.clear();
  outputs.clear();
  samples = 1;
  extent = size = 1;
  priority = 0;
  background = 0;
  deadline.reset();
  patience.reset();
  traceparent.clear();
  tenant = {};
  tenant_state = nullptr;
  quota_day = -1;
  memory = {};
  status = CallStatus::ok;
  error.clear();
  failure.clear();
  upstream_retry_after = {};
  retry_after = {};
  empty(answer);
  answer_ends.clear();
  compute = {};
  launched = {};
  padded_size = 0;
  batch_samples = 0;
}

}  // namespace tangram::serve
