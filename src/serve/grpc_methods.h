// The methods that are served over gRPC, and the answers of all but inference.
#pragma once

#ifdef TANGRAM_WITH_GRPC

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "serve/access.h"
#include "serve/gateway.h"
#include "serve/grpc_server.h"
#include "serve/grpc_status.h"

namespace tangram::serve {

enum class GrpcMethod : std::uint8_t {
  infer,
  stream_infer,
  live,
  ready,
  model_ready,
  metadata,
  model_metadata,
  model_config,
  statistics,
  index,
  load,
  unload,
  log_settings,
  health_check,
  health_watch,
  reflection,
  refused,  // Known by name, and not supported.
  unknown,
};

struct GrpcRoute {
  GrpcMethod method = GrpcMethod::unknown;
  AccessNeed need = AccessNeed::nothing;
  bool streams = false;           // Several requests, each answered on the same stream.
  std::string_view refusal = {};  // Of a method that is not supported.
};
// The method with this path: "/package.Service/Method".
GrpcRoute find_grpc_method(std::string_view path);

// The largest request of a method other than inference. Of load, larger ones are refused for what they hold.
inline constexpr std::size_t kGrpcQuestionMax = 64 << 10;

// An answer: a message, or the reason why there is none.
struct GrpcReply {
  GrpcStatus status = {};
  std::string message = {};
};
// Whether the caller may ask this of that model, which is null where none is named: the reason to deny it, or nullopt.
using GrpcPermission = std::function<std::optional<AccessDenial>(AccessNeed need, const ServedModel* model)>;
// Answers a question, or returns the work that does on the thread of the world. Requires any method but those of
// inference, health_watch, refused and unknown.
std::variant<GrpcReply, ControlWork> answer_grpc(GrpcMethod method, std::string_view question, Gateway& gateway,
                                                 const GrpcHealth& health, const GrpcPermission& permission);

// The status of a service, as a HealthCheckResponse has it.
enum class HealthStatus : std::uint8_t { unknown = 0, serving = 1, not_serving = 2, service_unknown = 3 };
HealthStatus health_of(const GrpcHealth& health, std::string_view service);
// The messages of the health service. Nothing: malformed.
std::optional<std::string> read_health_question(std::string_view question);
std::string health_answer(HealthStatus status);

// The answer to one question of the reflection service; nothing: the question is malformed. Both versions of the
// service have the same messages on the wire.
std::optional<std::string> answer_reflection(std::string_view question);

}  // namespace tangram::serve

#endif
