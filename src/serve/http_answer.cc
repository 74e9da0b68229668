// Appends HTTP/1.1 answers to the output of a connection.
//
// The Date field is required and changes once a second. So the head of a good binary answer is formatted once a second
// up to its Content-Length, and an answer then appends a prepared string, a number and its body.

#include "serve/http_answer.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cmath>

#include "host/http_parser.h"

namespace tangram::serve {
namespace {

constexpr std::string_view kOctetsType = "application/octet-stream";
// Bodies that are packed where clients accept it.
constexpr std::size_t kPackedMin = 1 << 10;
constexpr std::size_t kPackedMax = 512 << 10;
// A status line and fields.
constexpr std::size_t kHeadRoom = 1 << 10;
// What the scratch text keeps from answer to answer.
constexpr std::size_t kScratchMax = 256 << 10;

void append_number(std::string& out, std::uint64_t value) {
  std::array<char, 20> digits;
  std::size_t at = digits.size();
  do {
    digits[--at] = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value != 0);
  out.append(digits.data() + at, digits.size() - at);
}

// The line end after Content-Length, and the Connection field where one is needed. HTTP/1.1 keeps connections open by
// default, HTTP/1.0 only if the field says so.
std::string_view connection_field(const AnswerForm& form) {
  if (!form.keep_alive) return "\r\nConnection: close\r\n";
  return form.http_1_1 ? "\r\n" : "\r\nConnection: keep-alive\r\n";
}

}  // namespace

// The date is that of the wall clock, but its expiry is in the time of the caller: reading the wall clock for each
// answer would cost more than the check.
void HttpAnswerWriter::renew_date(TimePoint now) {
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  const auto second = std::chrono::floor<std::chrono::seconds>(wall);
  date_ = fmt::format("\r\nDate: {:%a, %d %b %Y %H:%M:%S} GMT\r\nContent-Type: ", fmt::gmtime(second.count()));
  good_ = fmt::format("HTTP/1.1 200 OK{}{}\r\nContent-Length: ", date_, kOctetsType);
  date_until_ = now + (second + std::chrono::seconds(1) - wall);
}

void HttpAnswerWriter::append_head(std::string& out, const AnswerForm& form, int status, std::string_view type,
                                   std::size_t length) const {
  // Binary answers always pass this very constant, so comparing the address suffices.
  if (status == 200 && type.data() == kOctetsType.data()) {
    out += good_;
  } else {
    out += "HTTP/1.1 ";
    append_number(out, static_cast<std::uint64_t>(status));
    out += ' ';
    out += host::http_status_text(status);
    out += date_;
    out += type;
    out += "\r\nContent-Length: ";
  }
  append_number(out, length);
  out += connection_field(form);
}

void HttpAnswerWriter::write(std::string& out, const AnswerForm& form, int status, std::string_view type,
                             std::string_view extra, std::string_view body) const {
  std::string packed;
  body = coded(form, body, packed);
  append_head(out, form, status, type, body.size());
  out += form.fields;
  out += extra;
  if (!packed.empty()) {
    out += std::string_view("Content-Encoding: ");
    out += to_string(form.accepted);
    out += std::string_view("\r\nVary: Accept-Encoding\r\n");
  }
  out += std::string_view("\r\n");
  // The answer to HEAD has the length of the body that GET would have (RFC 9110 section 9.3.2).
  if (!form.head_only) out += body;
}

// Shorter answers gain nothing by it, and longer ones would hold up other clients: zlib takes about 8 ms for these.
std::string_view HttpAnswerWriter::coded(const AnswerForm& form, std::string_view body, std::string& packed) {
  if (form.accepted == host::ContentCoding::identity || body.size() < kPackedMin || body.size() > kPackedMax) {
    return body;
  }
  host::pack(form.accepted, body, packed);
  if (packed.size() < body.size()) return packed;
  packed.clear();
  return body;
}

// The scratch text and its copy in the output exist at the same time, besides the answer itself, which is charged to
// the call. Their pages count when they are written, so a bound that is too high costs nothing but the charge for a
// moment.
std::size_t HttpAnswerWriter::room_for(const AnswerForm& form, const Call& call) {
  std::size_t room = kHeadRoom + call.id.size() + call.error.size() * 6;
  if (call.status != CallStatus::ok) return room;
  room += 2 * infer_answer_max(call);
  return form.accepted == host::ContentCoding::identity ? room : room + host::kPackBytes + host::packed_max(kPackedMax);
}

void HttpAnswerWriter::write(std::string& out, const AnswerForm& form, const Call& call) {
  std::string extra;
  if (!call.traceparent.empty()) extra = fmt::format("traceparent: {}\r\n", call.traceparent);
  if (call.status != CallStatus::ok) {
    // Whole seconds, rounded up: a client that obeys must not come too early.
    if (call.retry_after > Duration::zero()) {
      extra += fmt::format("Retry-After: {:.0f}\r\n", std::ceil(to_seconds(call.retry_after)));
    }
    return write(out, form, http_status(call.status), kJsonType, extra, error_body(call.error));
  }
  // scratch_ keeps its memory from answer to answer.
  write_infer_answer(call, scratch_);
  if (scratch_.json_length) {
    extra += std::string_view("Inference-Header-Content-Length: ");
    append_number(extra, *scratch_.json_length);
    extra += std::string_view("\r\n");
  }
  write(out, form, 200, scratch_.json_length ? kOctetsType : kJsonType, extra, scratch_.text);
  if (scratch_.text.capacity() > kScratchMax) scratch_.text = {};
}

}  // namespace tangram::serve
