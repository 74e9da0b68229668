// Reads one HTTP/1.1 answer from bytes that arrive in pieces of any size.
//
// Invariant: in_ holds only bytes that are not yet part of head_ or body_; both are bounded by limits_, so a hostile or
// broken server cannot exhaust memory.
#include "client/http_answer.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace tangram::client {
namespace {

// Bounds Retry-After, so that an absurd value cannot overflow a Duration or stop a job for days.
constexpr double kRetryAfterMaxSeconds = 3600;

// `word` is in lower case.
bool is(std::string_view given, std::string_view word) { return host::equals_ignoring_case(given, word); }

}  // namespace

void HttpAnswerReader::begin(bool closes) {
  *this = HttpAnswerReader(limits_);
  keep_alive_ = !closes;
}

HttpAnswerReader::State HttpAnswerReader::feed(std::string_view bytes) {
  in_ += bytes;
  if (!has_head_ && !read_head()) return state_;
  state_ = chunked_ ? read_chunks() : read_plain();
  return state_;
}

HttpAnswerReader::State HttpAnswerReader::end() {
  // RFC 9112, 6.3: without a length and without chunks, the end of the connection ends the body.
  const bool by_end = has_head_ && !keep_alive_ && !chunked_ && !length_;
  if (state_ == State::reading && by_end) state_ = State::complete;
  return state_;
}

// Parses the head once it is complete. True: the head is valid and the body follows in in_.
bool HttpAnswerReader::read_head() {
  const auto end = in_.find("\r\n\r\n");
  if (std::min(end, in_.size()) > limits_.head_max) state_ = State::too_long;
  if (end == std::string::npos || state_ != State::reading) return false;
  has_head_ = true;
  head_ = in_.substr(0, end + 2);
  in_.erase(0, end + 4);
  std::string_view rest = head_;
  state_ = State::garbled;  // Until every line of the head has proved good.
  for (bool first = true; !rest.empty(); first = false) {
    const auto line_end = rest.find("\r\n");
    const std::string_view line = rest.substr(0, line_end);
    rest.remove_prefix(line_end + 2);
    if (first ? !read_status_line(line) : !read_field(line)) return false;
  }
  state_ = length_.value_or(0) > limits_.body_max ? State::too_long : State::reading;
  return state_ == State::reading;
}

// "HTTP/1.1 200 OK". An HTTP/1.0 server closes the connection by default.
bool HttpAnswerReader::read_status_line(std::string_view line) {
  if (!line.starts_with("HTTP/1.1 ") && !line.starts_with("HTTP/1.0 ")) return false;
  if (line.starts_with("HTTP/1.0 ")) keep_alive_ = false;
  constexpr std::size_t kStatusBegin = 9;
  constexpr std::size_t kStatusEnd = 12;
  if (line.size() < kStatusEnd) return false;
  const auto read = std::from_chars(line.data() + kStatusBegin, line.data() + kStatusEnd, status_);
  return read.ec == std::errc{} && read.ptr == line.data() + kStatusEnd;
}

bool HttpAnswerReader::read_field(std::string_view line) {
  const auto colon = line.find(':');
  if (colon == std::string_view::npos) return false;
  const std::string_view name = line.substr(0, colon);
  const std::string_view value = text::trim(line.substr(colon + 1));
  if (is(name, "content-length") || is(name, "inference-header-content-length")) {
    const auto length = text::parse_integer(value);
    if (!length || *length < 0) return false;
    (is(name, "content-length") ? length_ : json_length_) = static_cast<std::size_t>(*length);
  } else if (is(name, "transfer-encoding")) {
    // With an unknown coding the end of the answer cannot be found, so the answer counts as garbled.
    chunked_ = is(value, "chunked");
    return chunked_;
  } else if (is(name, "retry-after")) {
    const double seconds = text::parse_number(value).value_or(0);
    if (seconds > 0) retry_after_ = from_seconds(std::min(seconds, kRetryAfterMaxSeconds));
  } else if (is(name, "connection") && is(value, "close")) {
    keep_alive_ = false;
  }
  return true;
}

HttpAnswerReader::State HttpAnswerReader::read_chunks() {
  in_.erase(0, chunks_.feed(in_, body_, limits_.body_max));
  if (chunks_.state() == host::ChunkedReader::State::reading) return State::reading;
  // ChunkedReader reports errors as a server would answer them: 413 means that the body exceeds the limit.
  constexpr int kTooLarge = 413;
  if (chunks_.state() == host::ChunkedReader::State::refused) {
    return chunks_.refusal().status == kTooLarge ? State::too_long : State::garbled;
  }
  // One request is under way at a time, so bytes behind the answer belong to no request.
  return in_.empty() ? State::complete : State::garbled;
}

HttpAnswerReader::State HttpAnswerReader::read_plain() {
  // The first piece becomes the body without a copy: most answers arrive in one piece with their head.
  if (body_.empty()) {
    body_.swap(in_);
  } else {
    body_ += in_;
    in_.clear();
  }
  // The end of the connection ends this body; until then only the limit can be checked.
  if (!length_ && !keep_alive_) return body_.size() > limits_.body_max ? State::too_long : State::reading;
  const std::size_t length = length_.value_or(0);
  if (body_.size() < length) return State::reading;
  return body_.size() == length ? State::complete : State::garbled;
}

std::optional<std::string> error_in(const std::string& body) {
  const auto json = nlohmann::json::parse(body, nullptr, false);
  if (!json.is_object() || !json.contains("error") || !json["error"].is_string()) return std::nullopt;
  return json["error"].get<std::string>();
}

}  // namespace tangram::client
