// One HTTP exchange, for the verbs that ask a running server.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/time.h"

namespace tangram::serve {

struct HttpAnswer {
  int status = 0;
  std::string body = {};
};

struct HttpQuestion {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;
  std::string method = "GET";
  std::string path = "/";
  std::string body = {};
  Duration timeout = std::chrono::seconds(5);
};

// Asks and waits for the whole answer. Errors: nobody listens, or no answer in time.
Result<HttpAnswer> ask_http(const HttpQuestion& question);

}  // namespace tangram::serve
