// Only what the protocol of gRPC on HTTP/2 says of header fields; nothing of the library of that name.

#include "serve/grpc_status.h"

#include <algorithm>
#include <chrono>

namespace tangram::serve {
namespace {

// Of a message, before it is encoded: clients limit the size of all fields of an answer together, to 8 KiB by default.
constexpr std::size_t kMessageShown = 1024;

}  // namespace

GrpcCode code_of(CallStatus status) {
  switch (status) {
    case CallStatus::ok: return GrpcCode::ok;
    case CallStatus::invalid: return GrpcCode::invalid_argument;
    case CallStatus::not_found: return GrpcCode::not_found;
    case CallStatus::refused: return GrpcCode::resource_exhausted;
    case CallStatus::unavailable: return GrpcCode::unavailable;
    case CallStatus::failed: return GrpcCode::internal;
    case CallStatus::unsupported: return GrpcCode::unimplemented;
    case CallStatus::unauthenticated: return GrpcCode::unauthenticated;
    case CallStatus::forbidden: return GrpcCode::permission_denied;
    case CallStatus::abandoned: return GrpcCode::cancelled;
  }
  return GrpcCode::internal;
}

std::string percent_encoded(std::string_view message) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : message.substr(0, kMessageShown)) {
    if (c >= ' ' && c <= '~' && c != '%') {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '%';
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
  }
  return out;
}

std::optional<Duration> parse_grpc_timeout(std::string_view text) {
  if (text.size() < 2 || text.size() > 9) return std::nullopt;
  std::int64_t count = 0;
  for (const char c : text.substr(0, text.size() - 1)) {
    if (c < '0' || c > '9') return std::nullopt;
    count = count * 10 + (c - '0');
  }
  switch (text.back()) {
    // 99,999,999 hours are more nanoseconds than 64 bits hold. Half of what they hold is more than anybody waits.
    case 'H': return std::chrono::hours(std::min<std::int64_t>(count, 1'000'000));
    case 'M': return std::chrono::minutes(count);
    case 'S': return std::chrono::seconds(count);
    case 'm': return std::chrono::milliseconds(count);
    case 'u': return std::chrono::microseconds(count);
    case 'n': return std::chrono::nanoseconds(count);
    default: return std::nullopt;
  }
}

}  // namespace tangram::serve
