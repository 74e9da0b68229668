// Several inference requests under way to one server, from one thread.
//
// Connections are kept and used again, one request on each at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "client/http_connection.h"
#include "host/tls.h"

namespace tangram::client {

struct RowClientConfig {
  std::string address = "127.0.0.1";
  std::uint16_t port = 8000;
  std::string path;                                       // "/v2/models/NAME/infer"
  std::vector<std::string> headers = {};                  // "Name: value", with every request.
  std::string key = {};                                   // Shown as a bearer token.
  std::shared_ptr<const host::TlsContext> tls = nullptr;  // Null: plain.
  std::string server_name = {};                           // Whose certificate it must be; empty: the address.
};

struct RowAnswer {
  std::uint64_t row = 0;
  int status = 0;  // Of HTTP; 0: the connection broke, and `body` says how.
  std::string body;
  Duration retry_after{};  // Zero: the server does not say.
  bool binary = false;     // Bytes stand behind the JSON.
};

class RowClient {
 public:
  explicit RowClient(RowClientConfig config);
  ~RowClient();
  RowClient(const RowClient&) = delete;
  RowClient& operator=(const RowClient&) = delete;

  // Error: the address is invalid, or no server listens there. `header` is one more line, or empty.
  Result<Nothing> send(std::uint64_t row, std::string_view body, std::string_view header);
  std::size_t under_way() const { return under_way_; }
  // Waits until something is answered or `limit` has passed, and answers what came.
  std::vector<RowAnswer> wait(Duration limit);

 private:
  struct Connection;

  // A connection that is open and free, perhaps a new one. Errors as of send().
  Result<Connection*> free_connection();
  // Hands out the answer of a connection, or the loss of one.
  void take(Connection& connection, HttpConnection::Event event);
  void finish(Connection& connection, RowAnswer answer, bool keep);

  RowClientConfig config_;
  StreamTarget target_;
  std::string headers_;  // Lines of the head of every request.
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<RowAnswer> answers_;
  std::size_t under_way_ = 0;
};

}  // namespace tangram::client
