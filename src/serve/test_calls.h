// Calls of the test deployment's one service, who waits for them, and what a log says, for tests.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "serve/call.h"

namespace tangram::serve::test {

// Keeps the calls that come back, in order.
class Collector final : public CallOwner {
 public:
  void on_answered(Call* call) override { answered.push_back(call); }
  std::vector<Call*> answered;
};

// Makes `call` a request of `samples` x `ids.size() / samples` token ids.
inline void fill_call(Call& call, CallOwner& owner, const ServedModel& model, const std::vector<std::int64_t>& ids,
                      std::int32_t samples = 1) {
  call.owner = &owner;
  call.model = &model;
  call.body.assign(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(std::int64_t));
  call.inputs = {{call.body, true}, {{}, false}};
  call.samples = samples;
  call.size = call.extent = static_cast<std::int64_t>(ids.size()) / samples;
}

// What was written to the file so far, wherever it is read or written next.
inline std::string written_to(int file) {
  struct stat facts {};
  fstat(file, &facts);
  std::string text(static_cast<std::size_t>(facts.st_size), '\0');
  const ssize_t got = pread(file, text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return text;
}

}  // namespace tangram::serve::test
