// One HTTP/1.x answer, read from bytes as they come in.
//
// A body ends after Content-Length, with its last chunk, or, where neither is given and the server closes, with the
// connection (RFC 9112 section 6.3). A server that keeps the connection and gives neither sends no body.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"
#include "host/http_parser.h"

namespace tangram::client {

struct HttpAnswerLimits {
  std::size_t head_max = 64 << 10;
  std::uint64_t body_max = std::uint64_t{256} << 20;
};

class HttpAnswerReader {
 public:
  enum class State : std::uint8_t {
    reading,
    complete,
    too_long,  // Head or body exceed their limits.
    garbled,   // Not an answer of HTTP/1.x, or bytes behind its end: nothing was asked that they could belong to.
  };

  explicit HttpAnswerReader(HttpAnswerLimits limits = {}) : limits_(limits) {}

  // Takes what came. Only `reading` may be followed by another call.
  State feed(std::string_view bytes);
  // The server has closed the connection: complete if that is how this body ends, otherwise the answer is cut off and
  // the state stays as it is.
  State end();
  // Prepares for the next answer on the same connection. `closes` says that the request asked the server to close.
  void begin(bool closes = false);

  State state() const { return state_; }
  // Whether any byte of the answer has come.
  bool anything() const { return has_head_ || !in_.empty(); }

  // These hold once the answer is complete.
  int status() const { return status_; }
  const std::string& head() const { return head_; }  // Status line and fields, as they came, each with its end.
  const std::string& body() const { return body_; }
  std::string take_body() { return std::move(body_); }
  bool keep_alive() const { return keep_alive_; }
  // From Retry-After in seconds, at most an hour; nothing if it is missing, not positive or a date.
  std::optional<Duration> retry_after() const { return retry_after_; }
  // From Inference-Header-Content-Length: the JSON at the beginning of a body with binary tensors behind it.
  std::optional<std::size_t> json_length() const { return json_length_; }

 private:
  bool read_head();
  bool read_status_line(std::string_view line);
  bool read_field(std::string_view line);
  State read_chunks();
  State read_plain();

  HttpAnswerLimits limits_;
  State state_ = State::reading;
  std::string in_;  // Before the head is complete: all that came. Then: bytes that are not in body_ yet.
  std::string head_;
  std::string body_;
  bool has_head_ = false;
  bool keep_alive_ = true;
  bool chunked_ = false;
  int status_ = 0;
  std::optional<std::size_t> length_;
  std::optional<Duration> retry_after_;
  std::optional<std::size_t> json_length_;
  host::ChunkedReader chunks_;
};

// What an error body says: {"error":"..."} where the server keeps to the Open Inference Protocol, nothing otherwise.
std::optional<std::string> error_in(const std::string& body);

}  // namespace tangram::client
