#include "serve/call.h"

namespace tangram::serve {
namespace {

// A call that once carried a large body gives the memory back.
constexpr std::size_t kKeptBytesMax = 64 << 10;

void empty(std::string& text) {
  if (text.capacity() > kKeptBytesMax) {
    std::string().swap(text);
  } else {
    text.clear();
  }
}

}  // namespace

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
  traceparent.clear();
  tenant = {};
  tenant_state = nullptr;
  status = CallStatus::ok;
  error.clear();
  failure.clear();
  rejected_upstream = {};
  retry_after = {};
  empty(answer);
  answer_ends.clear();
  compute = {};
  launched = {};
  padded_size = 0;
  batch_samples = 0;
}

}  // namespace tangram::serve
