// The words of gRPC on HTTP/2: status codes, messages and time limits as header fields have them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"
#include "serve/call.h"

namespace tangram::serve {

enum class GrpcCode : std::uint8_t {
  ok = 0,
  cancelled = 1,
  unknown = 2,
  invalid_argument = 3,
  deadline_exceeded = 4,
  not_found = 5,
  permission_denied = 7,
  resource_exhausted = 8,
  unimplemented = 12,
  internal = 13,
  unavailable = 14,
  unauthenticated = 16,
};
GrpcCode code_of(CallStatus status);

// How a call ends.
struct GrpcStatus {
  GrpcCode code = GrpcCode::ok;
  std::string message = {};
  Duration retry_after = {};  // Zero: nothing is said of it.
};

// A message as the field grpc-message has it: everything but printable ASCII, and '%', as %XX. Long ones are cut.
std::string percent_encoded(std::string_view message);

// "100m" is 100 milliseconds: up to eight digits and a unit, of H, M, S, m, u and n. Nothing for anything else.
std::optional<Duration> parse_grpc_timeout(std::string_view text);

}  // namespace tangram::serve
