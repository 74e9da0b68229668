// One HTTP exchange, for the verbs that ask a running server.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "host/socket.h"
#include "host/tls.h"

namespace tangram::client {

struct HttpAnswer {
  int status = 0;
  std::string body = {};
  std::string head = {};  // Status line and fields, as they came.
};

struct HttpQuestion {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;
  std::string method = "GET";
  std::string path = "/";
  std::string body = {};
  Duration timeout = std::chrono::seconds(5);
  std::string socket_path = {};                           // A Unix socket instead of address and port.
  std::string key = {};                                   // Shown as a bearer token.
  std::shared_ptr<const host::TlsContext> tls = nullptr;  // Null: plain.
  std::string server_name = {};                           // Whose certificate it must be; empty: the address.

  host::Endpoint endpoint() const { return {address, port, socket_path}; }
  // "127.0.0.1:8002", or the path of the socket.
  std::string place() const { return endpoint().text(); }
};

// How far a question came.
enum class HttpStage : std::uint8_t {
  connecting,  // Nobody has taken the connection.
  securing,    // Somebody has, and TLS has not come about.
  asking,
};

// Sends the question and waits for the whole answer. Errors: no server, no answer in time, or an untrusted certificate;
// `reached` then tells how far it came. It may be null.
Result<HttpAnswer> ask_http(const HttpQuestion& question, HttpStage* reached = nullptr);

}  // namespace tangram::client
