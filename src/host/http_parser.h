// HTTP/1.1 requests from bytes, parsed strictly.
//
// Bytes that two readers could understand differently are refused, because a proxy in front may be the other reader:
// bare line feeds, folded headers, spaces before colons, several lengths, a length beside chunks, several keys. Nothing
// here owns memory; views point into the caller's buffer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tangram::host {

enum class HttpMethod : std::uint8_t { get, head, post, put, remove, options, other };

struct HttpField {
  std::string_view name;
  std::string_view value;
};

inline constexpr std::size_t kHttpFieldsMax = 64;

// A request line and its fields.
struct HttpHead {
  HttpMethod method = HttpMethod::get;
  std::string_view target;  // As sent; path and query are parts of it.
  std::string_view path;
  std::string_view query;
  bool http_1_1 = true;  // Otherwise HTTP/1.0.
  bool keep_alive = true;
  bool chunked = false;
  bool expects_continue = false;
  std::uint64_t content_length = 0;  // Of a body that is not chunked.
  std::size_t field_count = 0;
  std::array<HttpField, kHttpFieldsMax> fields;

  std::span<const HttpField> all_fields() const { return std::span(fields).first(field_count); }
  // The value of the field with this name, whatever its case, or nothing. `name` is in lower case.
  std::optional<std::string_view> find(std::string_view name) const;
};

// Why a request cannot be served: the status to answer with, after which the connection is closed.
struct HttpRefusal {
  int status = 400;
  std::string_view reason;
};

struct HttpHeadResult {
  enum class Kind : std::uint8_t { need_more, complete, refused };
  Kind kind = Kind::need_more;
  std::size_t consumed = 0;  // Bytes of the head, once it is complete.
  HttpRefusal refusal;
};

// Reads a head from the beginning of `bytes`. `head_max` bounds its length.
HttpHeadResult parse_http_head(std::string_view bytes, std::size_t head_max, HttpHead& head);

// Decodes a chunked body. The result does not depend on how the network cuts the bytes.
class ChunkedReader {
 public:
  enum class State : std::uint8_t { reading, complete, refused };

  // Consumes a prefix of `bytes` and appends the content to `body`. All content together may grow up to `body_max`;
  // `body` itself may be emptied between two calls. Returns how many bytes were consumed; once complete, the rest
  // belongs to the next request.
  std::size_t feed(std::string_view bytes, std::string& body, std::uint64_t body_max);
  State state() const { return state_; }
  // Bytes of content so far.
  std::uint64_t content() const { return content_; }
  const HttpRefusal& refusal() const { return refusal_; }

 private:
  enum class Step : std::uint8_t {
    size,
    extension,
    size_end,
    data,
    data_end_cr,
    data_end_lf,
    trailer_start,
    trailer,
    trailer_end,
    last_end
  };

  void refuse(int status, std::string_view reason) {
    state_ = State::refused;
    refusal_ = {status, reason};
  }
  // Requires Step::size. Adds a digit to the size of the chunk, or ends the size.
  void take_size_digit(char c);
  // Handles one byte of framing. Requires any step but Step::data.
  void step(char c, std::uint64_t body_max);

  State state_ = State::reading;
  Step step_ = Step::size;
  HttpRefusal refusal_;
  std::uint64_t left_ = 0;    // Of the current chunk.
  int digits_ = 0;            // Of its size.
  std::uint64_t content_ = 0;
  std::size_t overhead_ = 0;  // Bytes of sizes, extensions and trailers so far.
};

// The text of a status code: "OK", "Too Many Requests".
std::string_view http_status_text(int status);

// True if `a` equals `lower` but for its case. `lower` is in lower case.
bool equals_ignoring_case(std::string_view a, std::string_view lower);

}  // namespace tangram::host
