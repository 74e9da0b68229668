// Questions about the server and its models, with messages in generated code: they are small, and their size is limited
// before they are read.

#ifdef TANGRAM_WITH_GRPC

#include "serve/grpc_methods.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/json_reader.h"
#include "health.pb.h"
#include "serve/grpc_codec.h"
#include "serve/grpc_server.h"
#include "serve/proto_wire.h"

namespace tangram::serve {
namespace {

using Answered = std::variant<GrpcReply, ControlWork>;

constexpr std::string_view kInferenceService = "/inference.GRPCInferenceService/";

struct NamedRoute {
  std::string_view name;
  GrpcRoute route;
};

constexpr std::string_view kGrpcNoSharedMemory = "shared memory is not supported";

// The methods of inference.GRPCInferenceService, the frequent one first. Rights are those of the same address over
// HTTP; what a question names is checked when it is read.
constexpr std::array kGrpcRoutes{
    NamedRoute{"ModelInfer", {GrpcMethod::infer, AccessNeed::client}},
    NamedRoute{"ModelStreamInfer", {GrpcMethod::stream_infer, AccessNeed::client, true}},
    NamedRoute{"ServerLive", {GrpcMethod::live}},
    NamedRoute{"ServerReady", {GrpcMethod::ready}},
    NamedRoute{"ModelReady", {GrpcMethod::model_ready, AccessNeed::client}},
    NamedRoute{"ServerMetadata", {GrpcMethod::metadata, AccessNeed::client}},
    NamedRoute{"ModelMetadata", {GrpcMethod::model_metadata, AccessNeed::client}},
    NamedRoute{"ModelConfig", {GrpcMethod::model_config, AccessNeed::client}},
    NamedRoute{"ModelStatistics", {GrpcMethod::statistics, AccessNeed::client}},
    NamedRoute{"RepositoryIndex", {GrpcMethod::index, AccessNeed::every_model}},
    NamedRoute{"RepositoryModelLoad", {GrpcMethod::load, AccessNeed::admin}},
    NamedRoute{"RepositoryModelUnload", {GrpcMethod::unload, AccessNeed::admin}},
    NamedRoute{"LogSettings", {GrpcMethod::log_settings, AccessNeed::admin}},
    NamedRoute{"TraceSetting",
               {GrpcMethod::refused, AccessNeed::client, false,
                "trace settings are not supported; requests carry their own traceparent"}},
    NamedRoute{"SystemSharedMemoryStatus", {GrpcMethod::refused, AccessNeed::client, false, kGrpcNoSharedMemory}},
    NamedRoute{"SystemSharedMemoryRegister", {GrpcMethod::refused, AccessNeed::client, false, kGrpcNoSharedMemory}},
    NamedRoute{"SystemSharedMemoryUnregister", {GrpcMethod::refused, AccessNeed::client, false, kGrpcNoSharedMemory}},
    NamedRoute{"CudaSharedMemoryStatus", {GrpcMethod::refused, AccessNeed::client, false, kGrpcNoSharedMemory}},
    NamedRoute{"CudaSharedMemoryRegister", {GrpcMethod::refused, AccessNeed::client, false, kGrpcNoSharedMemory}},
    NamedRoute{"CudaSharedMemoryUnregister", {GrpcMethod::refused, AccessNeed::client, false, kGrpcNoSharedMemory}},
};
constexpr std::array kOtherRoutes{
    NamedRoute{"/grpc.health.v1.Health/Check", {GrpcMethod::health_check}},
    NamedRoute{"/grpc.health.v1.Health/Watch", {GrpcMethod::health_watch}},
    NamedRoute{"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
               {GrpcMethod::reflection, AccessNeed::nothing, true}},
    NamedRoute{"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
               {GrpcMethod::reflection, AccessNeed::nothing, true}},
};

GrpcReply grpc_failure(GrpcCode code, std::string message) { return {{code, std::move(message)}, {}}; }
GrpcReply grpc_failure(CallStatus status, std::string message) {
  return grpc_failure(code_of(status), std::move(message));
}
GrpcReply grpc_denied(const AccessDenial& denial) {
  return {{code_of(denial.status), denial.message, denial.retry_after}, {}};
}
template <typename Message>
GrpcReply grpc_reply(const Message& message) {
  return {{}, message.SerializeAsString()};
}

// A question that names a model, what there is of that model, and the right to ask.
struct AskedModel {
  const ServedModel* model = nullptr;
  std::optional<GrpcReply> refusal;
};

AskedModel find_asked(const Gateway& gateway, const std::string& name, const std::string& version,
                      const GrpcPermission& permission) {
  AskedModel asked{gateway.find_model(name), {}};
  if (const auto denial = permission(AccessNeed::client, asked.model)) {
    asked.refusal = grpc_denied(*denial);
  } else if (asked.model == nullptr || !has_version(version)) {
    asked.refusal = grpc_failure(CallStatus::not_found, model_not_found(name).message);
  }
  return asked;
}

// An unknown model is not an error here: the response says that it is not ready.
Answered answer_model_ready(const inference::ModelReadyRequest& request, Gateway& gateway,
                            const GrpcPermission& permission) {
  const AskedModel asked = find_asked(gateway, request.name(), request.version(), permission);
  if (asked.refusal && asked.refusal->status.code != GrpcCode::not_found) return *asked.refusal;
  if (asked.refusal) return grpc_reply(inference::ModelReadyResponse());
  return [model = asked.model, &gateway](LiveWorld& world, ControlCall& call) {
    inference::ModelReadyResponse response;
    response.set_ready(world.why_not_ready(model->service).empty() && !gateway.draining());
    call.answer = response.SerializeAsString();
  };
}

Answered answer_metadata(const Gateway& gateway) {
  inference::ServerMetadataResponse response;
  response.set_name("tangram");
  response.set_version(gateway.version());
  for (const auto& name : kExtensionNames) response.add_extensions(std::string(name));
  return grpc_reply(response);
}

// Without a name the request is about all models, so the caller must be allowed to use all of them.
Answered answer_statistics(const inference::ModelStatisticsRequest& request, const Gateway& gateway,
                           const GrpcPermission& permission) {
  const ServedModel* only = nullptr;
  if (request.name().empty()) {
    if (const auto denial = permission(AccessNeed::every_model, nullptr)) return grpc_denied(*denial);
  } else {
    const AskedModel asked = find_asked(gateway, request.name(), request.version(), permission);
    if (asked.refusal) return *asked.refusal;
    only = asked.model;
  }
  return [only](LiveWorld& world, ControlCall& call) {
    inference::ModelStatisticsResponse response;
    // Models, services and their counters have the same index.
    for (std::size_t i = 0; i < world.models().size(); ++i) {
      if (world.models()[i].removed != 0 || (only != nullptr && only != &world.models()[i])) continue;
      write_statistics(world.models()[i], world.ledger().services()[i], *response.add_model_stats());
    }
    call.answer = response.SerializeAsString();
  };
}

Answered answer_index(bool only_ready) {
  return [only_ready](LiveWorld& world, ControlCall& call) {
    inference::RepositoryIndexResponse response;
    for (const auto& model : world.models()) {
      const std::string why_not = world.why_not_ready(model.service);
      if (model.removed != 0 || (only_ready && !why_not.empty())) continue;
      auto* entry = response.add_models();
      entry->set_name(model.name);
      entry->set_version(std::string(kModelVersion));
      entry->set_state(why_not.empty() ? "READY" : "UNAVAILABLE");
      entry->set_reason(why_not);
    }
    call.answer = response.SerializeAsString();
  };
}

// Read in place: a configuration or files of the client may be as large as a message. They are refused, as over HTTP.
Answered answer_loading(std::string_view question, bool load, const Gateway& gateway) {
  std::string name;
  std::string override;
  ProtoReader fields(question);
  ProtoField field;
  while (fields.next(field)) {
    if (field.is_bytes(2)) name = field.bytes;
    if (!field.is_bytes(3)) continue;
    ProtoReader entry(field.bytes);
    ProtoField part;
    while (entry.next(part)) {
      const bool overrides = part.is_bytes(1) && (part.bytes == "config" || part.bytes.starts_with("file:"));
      if (overrides) override = part.bytes.substr(0, 100);
    }
  }
  if (!fields.good()) return grpc_failure(GrpcCode::internal, "not a message of the protocol");
  if (load && !override.empty()) {
    return grpc_failure(
        CallStatus::invalid,
        fmt::format("models cannot be loaded with a configuration or files of the client: '{}'", override));
  }
  const ServedModel* model = gateway.find_model(name);
  if (model == nullptr) return grpc_failure(CallStatus::invalid, "no such service in the services file");
  return [model, load](LiveWorld& world, ControlCall&) { world.set_loaded(model->service, load); };
}

// The settings as the JSON that the same address takes over HTTP, whose answer becomes the response.
std::string settings_as_json(const inference::LogSettingsRequest& request) {
  std::string json = "{";
  for (const auto& [name, value] : request.settings()) {
    if (json.size() > 1) json += ',';
    append_json_string(json, name);
    json += ':';
    using Value = inference::LogSettingsRequest::SettingValue;
    switch (value.parameter_choice_case()) {
      case Value::kBoolParam: json += value.bool_param() ? "true" : "false"; break;
      case Value::kUint32Param: json += std::to_string(value.uint32_param()); break;
      case Value::kStringParam: append_json_string(json, value.string_param()); break;
      default: json += "null"; break;
    }
  }
  return json + "}";
}

// False: not the JSON of the gateway's own answer.
bool read_settings(std::string_view text, inference::LogSettingsResponse& response) {
  JsonReader json(text);
  return json.object([&](std::string_view name) {
    auto& value = (*response.mutable_settings())[std::string(name)];
    if (json.peek() == '"') return json.string(*value.mutable_string_param());
    if (json.peek() == 't' || json.peek() == 'f') {
      bool truth = false;
      const bool read = json.boolean(truth);
      value.set_bool_param(truth);
      return read;
    }
    double number = 0;
    const bool read = json.number(number);
    value.set_uint32_param(static_cast<std::uint32_t>(number));
    return read;
  });
}

Answered answer_log_settings(const inference::LogSettingsRequest& request, Gateway& gateway) {
  Target target;
  target.endpoint = Endpoint::logging;
  const auto handled = gateway.handle(target, request.settings().empty() ? "" : settings_as_json(request));
  const Reply* reply = std::get_if<Reply>(&handled);
  if (reply == nullptr) return grpc_failure(GrpcCode::internal, "logging is not answered at once");
  if (reply->status != 200) {
    std::string problem;
    JsonReader json(reply->body);
    const bool read =
        json.object([&](std::string_view name) { return name == "error" ? json.string(problem) : json.skip(); });
    return grpc_failure(CallStatus::invalid, read ? problem : reply->body);
  }
  inference::LogSettingsResponse response;
  if (!read_settings(reply->body, response)) return grpc_failure(GrpcCode::internal, "the settings cannot be read");
  return grpc_reply(response);
}

// Parses the question and passes it on.
template <typename Question, typename Answer>
Answered with_question(std::string_view bytes, Answer&& answer) {
  Question question;
  if (!question.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return grpc_failure(GrpcCode::internal, "not a message of the protocol");
  }
  return answer(question);
}

}  // namespace

GrpcRoute find_grpc_method(std::string_view path) {
  if (path.starts_with(kInferenceService)) {
    const std::string_view name = path.substr(kInferenceService.size());
    for (const auto& [known, route] : kGrpcRoutes) {
      if (name == known) return route;
    }
    return {};
  }
  for (const auto& [known, route] : kOtherRoutes) {
    if (path == known) return route;
  }
  return {};
}

std::variant<GrpcReply, ControlWork> answer_grpc(GrpcMethod method, std::string_view question, Gateway& gateway,
                                                 const GrpcHealth& health, const GrpcPermission& permission) {
  switch (method) {
    case GrpcMethod::live: {
      inference::ServerLiveResponse response;
      response.set_live(true);
      return grpc_reply(response);
    }
    case GrpcMethod::ready: {
      inference::ServerReadyResponse response;
      response.set_ready(gateway.ready());
      return grpc_reply(response);
    }
    case GrpcMethod::model_ready:
      return with_question<inference::ModelReadyRequest>(
          question, [&](const auto& request) { return answer_model_ready(request, gateway, permission); });
    case GrpcMethod::metadata: return answer_metadata(gateway);
    case GrpcMethod::model_metadata:
      return with_question<inference::ModelMetadataRequest>(question, [&](const auto& request) -> Answered {
        const AskedModel asked = find_asked(gateway, request.name(), request.version(), permission);
        if (asked.refusal) return *asked.refusal;
        inference::ModelMetadataResponse response;
        write_metadata(*asked.model, response);
        return grpc_reply(response);
      });
    case GrpcMethod::model_config:
      return with_question<inference::ModelConfigRequest>(question, [&](const auto& request) -> Answered {
        const AskedModel asked = find_asked(gateway, request.name(), request.version(), permission);
        if (asked.refusal) return *asked.refusal;
        inference::ModelConfigResponse response;
        write_config(*asked.model, *response.mutable_config());
        return grpc_reply(response);
      });
    case GrpcMethod::statistics:
      return with_question<inference::ModelStatisticsRequest>(
          question, [&](const auto& request) { return answer_statistics(request, gateway, permission); });
    case GrpcMethod::index:
      return with_question<inference::RepositoryIndexRequest>(
          question, [&](const auto& request) { return answer_index(request.ready()); });
    case GrpcMethod::load: return answer_loading(question, true, gateway);
    case GrpcMethod::unload: return answer_loading(question, false, gateway);
    case GrpcMethod::log_settings:
      return with_question<inference::LogSettingsRequest>(
          question, [&](const auto& request) { return answer_log_settings(request, gateway); });
    case GrpcMethod::health_check: {
      const auto service = read_health_question(question);
      if (!service) return grpc_failure(GrpcCode::internal, "not a message of the protocol");
      const HealthStatus status = health_of(health, *service);
      // NOT_FOUND for Check, as the health protocol specifies; Watch reports SERVICE_UNKNOWN as a status instead.
      if (status == HealthStatus::service_unknown) {
        return grpc_failure(GrpcCode::not_found, fmt::format("no service '{}' here", *service));
      }
      return GrpcReply{{}, health_answer(status)};
    }
    case GrpcMethod::reflection: {
      auto answer = answer_reflection(question);
      if (!answer) return grpc_failure(GrpcCode::internal, "not a message of the protocol");
      return GrpcReply{{}, std::move(*answer)};
    }
    case GrpcMethod::infer:
    case GrpcMethod::stream_infer:
    case GrpcMethod::health_watch:
    case GrpcMethod::refused:
    case GrpcMethod::unknown: break;
  }
  return grpc_failure(GrpcCode::unimplemented, "no such method");
}

// ---- Health ----

// Answers for the server as a whole (empty name) and for its one service, both alike.
HealthStatus health_of(const GrpcHealth& health, std::string_view service) {
  if (!service.empty() && service != kInferenceService.substr(1, kInferenceService.size() - 2)) {
    return HealthStatus::service_unknown;
  }
  // A server that is ending stays NOT_SERVING, even if a slow start reports ready afterwards.
  const bool serving = health.serving.load() && !health.ending.load();
  return serving ? HealthStatus::serving : HealthStatus::not_serving;
}

std::optional<std::string> read_health_question(std::string_view question) {
  grpc::health::v1::HealthCheckRequest request;
  if (!request.ParseFromArray(question.data(), static_cast<int>(question.size()))) return std::nullopt;
  return request.service();
}

std::string health_answer(HealthStatus status) {
  std::string answer;
  ProtoWriter(answer).number(1, static_cast<std::uint64_t>(status));
  return answer;
}

}  // namespace tangram::serve

#endif
