// HTTP/1.1 heads and chunked bodies, after RFC 9110 and RFC 9112.
//
// The head is parsed once it is complete, without copies: all views point into the caller's bytes. The body reader is a
// state machine that sees one byte of framing at a time, so it gives the same result wherever the network cuts the
// bytes. Each check that looks pedantic closes a way to smuggle a request past a proxy that reads the same bytes
// differently.

#include "host/http_parser.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

namespace tangram::host {
namespace {

// Limit for the sizes, extensions and trailers of a chunked body, besides one byte of framing for each byte of content.
// Without a limit, a client could send extensions for ever while the body stays small. The smallest chunk,
// "1\r\nx\r\n", costs five bytes for one, so a body of such chunks is refused after 256 KiB.
constexpr std::size_t kChunkOverheadMax = 1 << 20;
constexpr std::size_t kTargetMax = 8192;

// The letters of methods and field names, RFC 9110 section 5.6.2.
constexpr auto kTokenLetters = [] {
  std::array<bool, 256> table{};
  for (int c = '0'; c <= '9'; ++c) table[static_cast<std::size_t>(c)] = true;
  for (int c = 'a'; c <= 'z'; ++c) table[static_cast<std::size_t>(c)] = table[static_cast<std::size_t>(c - 32)] = true;
  for (const char c : {'!', '#', '$', '%', '&', '\'', '*', '+', '-', '.', '^', '_', '`', '|', '~'}) {
    table[static_cast<std::size_t>(c)] = true;
  }
  return table;
}();

bool is_token(std::string_view text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](char c) { return kTokenLetters[static_cast<unsigned char>(c)]; });
}

// Tabs and everything printable. RFC 9110 section 5.5 also allows bytes above 127 (obs-text). A carriage return, line
// feed or zero inside a value is refused, because another reader may end the field there.
bool is_value(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte >= 0x20 && byte != 0x7f) || byte == '\t';
  });
}

// Optional white space around a value is blanks and tabs only (RFC 9110 section 5.6.3).
std::string_view trim_blanks(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Methods are case-sensitive (RFC 9110 section 9.1). An unknown method is no parse error; it becomes `other`.
HttpMethod method_of(std::string_view text) {
  if (text == "GET") return HttpMethod::get;
  if (text == "POST") return HttpMethod::post;
  if (text == "HEAD") return HttpMethod::head;
  if (text == "PUT") return HttpMethod::put;
  if (text == "DELETE") return HttpMethod::remove;
  if (text == "OPTIONS") return HttpMethod::options;
  return HttpMethod::other;
}

HttpHeadResult refused(int status, std::string_view reason) {
  return {HttpHeadResult::Kind::refused, 0, {status, reason}};
}

// Fills method, target, path, query and version of `head`. Returns nullopt, or the reason to refuse the line.
std::optional<HttpRefusal> parse_request_line(std::string_view line, HttpHead& head) {
  const auto first = line.find(' ');
  // A target with a blank inside ends up whole between the two blanks, and the check of its bytes refuses it.
  const auto last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) return HttpRefusal{400, "malformed request line"};
  const std::string_view method = line.substr(0, first);
  const std::string_view version = line.substr(last + 1);
  head.target = line.substr(first + 1, last - first - 1);
  if (!is_token(method)) return HttpRefusal{400, "malformed method"};
  if (head.target.empty() || head.target.size() > kTargetMax) {
    return HttpRefusal{head.target.empty() ? 400 : 414, "malformed or too long target"};
  }
  for (const char c : head.target) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= 0x20 || byte >= 0x7f) return HttpRefusal{400, "malformed target"};
  }
  head.http_1_1 = version == "HTTP/1.1";
  if (!head.http_1_1 && version != "HTTP/1.0") {
    return HttpRefusal{version.starts_with("HTTP/") ? 505 : 400, "unsupported version of HTTP"};
  }
  head.method = method_of(method);
  head.path = head.target;
  // Proxies send the absolute form, "GET http://host/path". The server must accept it (RFC 9112 section 3.2.2) and
  // needs only the path.
  if (head.path.starts_with("http://")) {
    const auto slash = head.path.find('/', 7);
    head.path = slash == std::string_view::npos ? std::string_view("/") : head.path.substr(slash);
  }
  const auto question = head.path.find('?');
  head.query = question == std::string_view::npos ? std::string_view() : head.path.substr(question + 1);
  head.path = head.path.substr(0, question);
  if (!head.path.starts_with('/') && head.path != "*") return HttpRefusal{400, "malformed target"};
  return std::nullopt;
}

// What the fields say about the message itself: where it ends, and which fields have been seen and may not come twice.
struct Framing {
  bool has_host = false;
  bool has_length = false;
  bool has_transfer_encoding = false;
  bool has_authorization = false;
  bool has_api_key = false;
  bool closes = false;
  bool keeps_alive = false;
};

// Digits only. The list form "5, 5", which RFC 9110 section 8.6 lets a server accept or refuse, is refused.
std::optional<HttpRefusal> read_length(std::string_view value, Framing& framing, HttpHead& head) {
  std::uint64_t length = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), length);
  const bool digits = !value.empty() && value.front() >= '0' && value.front() <= '9';
  if (!digits || error != std::errc{} || end != value.data() + value.size()) {
    return HttpRefusal{400, "malformed Content-Length"};
  }
  if (framing.has_length) return HttpRefusal{400, "several Content-Length fields"};
  framing.has_length = true;
  head.content_length = length;
  return std::nullopt;
}

// `Connection: a, b`: whether a list of tokens has this one.
bool lists(std::string_view value, std::string_view token) {
  while (!value.empty()) {
    const auto comma = std::min(value.find(','), value.size());
    if (equals_ignoring_case(trim_blanks(value.substr(0, comma)), token)) return true;
    value.remove_prefix(std::min(comma + 1, value.size()));
  }
  return false;
}

// Records the fields that change how the message is read. The switch on the length rejects most other fields with one
// comparison. Fields of which two readers could pick different copies are refused when they come twice.
std::optional<HttpRefusal> note_field(const HttpField& field, Framing& framing, HttpHead& head) {
  switch (field.name.size()) {
    case 4:
      if (!equals_ignoring_case(field.name, "host")) break;
      if (framing.has_host) return HttpRefusal{400, "several Host fields"};
      framing.has_host = true;
      break;
    case 6:
      if (!equals_ignoring_case(field.name, "expect")) break;
      if (!equals_ignoring_case(field.value, "100-continue")) return HttpRefusal{417, "unknown expectation"};
      head.expects_continue = head.http_1_1;  // Older clients do not know the answer (RFC 9110 section 10.1.1).
      break;
    case 9:
      if (!equals_ignoring_case(field.name, "x-api-key")) break;
      if (std::exchange(framing.has_api_key, true)) return HttpRefusal{400, "several X-Api-Key fields"};
      break;
    case 10:
      if (!equals_ignoring_case(field.name, "connection")) break;
      framing.closes |= lists(field.value, "close");
      framing.keeps_alive |= lists(field.value, "keep-alive");
      break;
    case 13:
      if (!equals_ignoring_case(field.name, "authorization")) break;
      if (std::exchange(framing.has_authorization, true)) return HttpRefusal{400, "several Authorization fields"};
      break;
    case 14:
      if (equals_ignoring_case(field.name, "content-length")) return read_length(field.value, framing, head);
      break;
    case 17:
      if (!equals_ignoring_case(field.name, "transfer-encoding")) break;
      if (framing.has_transfer_encoding) return HttpRefusal{400, "several Transfer-Encoding fields"};
      framing.has_transfer_encoding = true;
      if (!equals_ignoring_case(field.value, "chunked")) return HttpRefusal{501, "unknown transfer encoding"};
      head.chunked = true;
      break;
    default: break;
  }
  return std::nullopt;
}

// Requires a line without its line end. A folded line begins with a blank, and a blank before the colon makes the name
// no token, so the check of the name refuses both.
std::optional<HttpRefusal> parse_field(std::string_view line, Framing& framing, HttpHead& head) {
  const auto colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) {
    return HttpRefusal{400, "malformed header field"};
  }
  if (head.field_count == kHttpFieldsMax) return HttpRefusal{431, "too many header fields"};
  const HttpField field{line.substr(0, colon), trim_blanks(line.substr(colon + 1))};
  if (!is_value(field.value)) return HttpRefusal{400, "malformed header value"};
  head.fields[head.field_count++] = field;
  return note_field(field, framing, head);
}

// The rules between fields. A length beside chunks is the classic smuggling request: one reader ends the body by the
// length, the other by the last chunk (RFC 9112 section 6.1).
std::optional<HttpRefusal> check_framing(const Framing& framing, const HttpHead& head) {
  if (head.http_1_1 && !framing.has_host) return HttpRefusal{400, "missing Host"};
  if (framing.has_length && framing.has_transfer_encoding) {
    return HttpRefusal{400, "both Content-Length and Transfer-Encoding"};
  }
  if (!head.http_1_1 && head.chunked) return HttpRefusal{400, "chunked encoding in HTTP/1.0"};
  return std::nullopt;
}

}  // namespace

// ASCII only, without the locale: field names hold no other letters.
bool equals_ignoring_case(std::string_view a, std::string_view lower) {
  if (a.size() != lower.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const char c = a[i];
    if ((c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c) != lower[i]) return false;
  }
  return true;
}

std::optional<std::string_view> HttpHead::find(std::string_view name) const {
  for (const auto& field : all_fields()) {
    if (equals_ignoring_case(field.name, name)) return field.value;
  }
  return std::nullopt;
}

HttpHeadResult parse_http_head(std::string_view bytes, std::size_t head_max, HttpHead& head) {
  // Old clients send an empty line after a body; it comes before the next request (RFC 9112 section 2.2). Four are
  // accepted.
  std::size_t begin = 0;
  while (bytes.substr(begin).starts_with("\r\n") && begin < 8) begin += 2;
  const std::string_view window = bytes.substr(begin, head_max);
  const auto end = window.find("\r\n\r\n");
  if (end == std::string_view::npos) {
    if (window.size() >= head_max) return refused(431, "header too large");
    // More bytes cannot repair a bare line feed, so the request is refused now instead of waiting for the rest.
    const auto feed = window.find('\n');
    if (feed != std::string_view::npos && (feed == 0 || window[feed - 1] != '\r'))
      return refused(400, "bare line feed");
    return {};
  }
  // The caller reuses one HttpHead for many requests. Whatever a request does not set must be reset here.
  head.field_count = 0;
  head.chunked = head.expects_continue = false;
  head.content_length = 0;
  // Keeps the line end of the last field and drops the empty line, so every line in `rest` ends with "\r\n".
  std::string_view rest = window.substr(0, end + 2);
  Framing framing;
  const auto take_line = [&rest] {
    const auto at = rest.find("\r\n");
    const std::string_view line = rest.substr(0, at);
    rest.remove_prefix(at + 2);
    return line;
  };
  if (const auto wrong = parse_request_line(take_line(), head)) return refused(wrong->status, wrong->reason);
  while (!rest.empty()) {
    const std::string_view line = take_line();
    if (const auto wrong = parse_field(line, framing, head)) return refused(wrong->status, wrong->reason);
  }
  if (const auto wrong = check_framing(framing, head)) return refused(wrong->status, wrong->reason);
  // "close" wins over "keep-alive" (RFC 9112 section 9.3). Without either, HTTP/1.1 keeps the connection and 1.0 does
  // not.
  head.keep_alive = !framing.closes && (head.http_1_1 || framing.keeps_alive);
  return {HttpHeadResult::Kind::complete, begin + end + 4, {}};
}

// Invariant: left_ is 0 when a size begins, because the chunk before it was consumed to its end.
void ChunkedReader::take_size_digit(char c) {
  int digit = -1;
  if (c >= '0' && c <= '9') digit = c - '0';
  if (c >= 'a' && c <= 'f') digit = c - 'a' + 10;
  if (c >= 'A' && c <= 'F') digit = c - 'A' + 10;
  if (digit >= 0) {
    // 15 digits are below 2^60, so left_ cannot overflow.
    if (++digits_ > 15) return refuse(400, "chunk size too long");
    left_ = left_ * 16 + static_cast<std::uint64_t>(digit);
  } else if (digits_ == 0) {
    refuse(400, "malformed chunk size");
  } else if (c == '\r') {
    step_ = Step::size_end;
  } else if (c == ';' || c == ' ' || c == '\t') {
    step_ = Step::extension;
  } else {
    refuse(400, "malformed chunk size");
  }
}

// Handles one byte of framing. Requires content_ <= body_max, which holds because no chunk is entered that would exceed
// it.
void ChunkedReader::step(char c, std::uint64_t body_max) {
  // Extensions and trailers are text: another reader could end a line at such a byte.
  const auto byte = static_cast<unsigned char>(c);
  const bool is_text = (byte >= 0x20 && byte != 0x7f) || c == '\t';
  switch (step_) {
    case Step::size: take_size_digit(c); break;
    case Step::extension:
      if (c == '\r') {
        step_ = Step::size_end;
      } else if (!is_text) {
        refuse(400, "malformed chunk extension");
      }
      break;
    case Step::size_end:
      if (c != '\n') return refuse(400, "malformed chunk size");
      // Refused by its announced size, before any of it is stored.
      if (left_ > body_max - content_) return refuse(413, "body too large");
      step_ = left_ == 0 ? Step::trailer_start : Step::data;
      break;
    case Step::data_end_cr:
      if (c != '\r') return refuse(400, "malformed chunk");
      step_ = Step::data_end_lf;
      break;
    case Step::data_end_lf:
      if (c != '\n') return refuse(400, "malformed chunk");
      step_ = Step::size;
      digits_ = 0;
      break;
    // Trailer fields are skipped unread: none of them may change how the message is understood.
    // What begins no field name is refused: after "0\r\n", a bare line feed ends the chunks for a lenient reader, and
    // the next request would be a trailer for this one.
    case Step::trailer_start:
      if (c != '\r' && !kTokenLetters[byte]) return refuse(400, "malformed trailer");
      step_ = c == '\r' ? Step::last_end : Step::trailer;
      break;
    case Step::trailer:
      if (c == '\r') {
        step_ = Step::trailer_end;
      } else if (!is_text) {
        refuse(400, "malformed trailer");
      }
      break;
    case Step::trailer_end:
      if (c != '\n') return refuse(400, "malformed trailer");
      step_ = Step::trailer_start;
      break;
    case Step::last_end:
      if (c != '\n') return refuse(400, "malformed end of chunks");
      state_ = State::complete;
      break;
    case Step::data: break;
  }
}

std::size_t ChunkedReader::feed(std::string_view bytes, std::string& body, std::uint64_t body_max) {
  std::size_t at = 0;
  while (at < bytes.size() && state_ == State::reading) {
    if (step_ == Step::data) {
      // Content is copied in runs, so the byte-wise state machine costs only the framing.
      const std::size_t take = static_cast<std::size_t>(std::min<std::uint64_t>(left_, bytes.size() - at));
      body.append(bytes.substr(at, take));
      at += take;
      left_ -= take;
      content_ += take;
      if (left_ == 0) step_ = Step::data_end_cr;
      continue;
    }
    if (++overhead_ > kChunkOverheadMax + content_) {
      refuse(400, "chunks are too small");
      break;
    }
    step(bytes[at++], body_max);
  }
  return at;
}

std::string_view http_status_text(int status) {
  switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 415: return "Unsupported Media Type";
    case 417: return "Expectation Failed";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 499: return "Client Closed Request";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 505: return "HTTP Version Not Supported";
    default: return "Unknown";
  }
}

}  // namespace tangram::host
