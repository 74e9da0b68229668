// What gRPC metadata say about the caller and the request.
//
// Metadata keys play the role of HTTP header fields and have the same names in lower case. A key can occur several
// times; where that would be ambiguous the call is refused, because a proxy in front could have checked another value
// than the one that is used here.

#ifdef TANGRAM_WITH_GRPC

#include "serve/grpc_caller.h"

#include <fmt/format.h>
#include <grpc/grpc_security_constants.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "host/tls.h"
#include "serve/grpc_codec.h"

namespace tangram::serve {
namespace {

// True if the field occurs more than once. Such a call is refused, as over HTTP.
bool has_several(const grpc::ServerContext& context, const char* name) {
  return context.client_metadata().count(name) > 1;
}

std::string_view metadata_of(const grpc::ServerContext& context, const char* name) {
  const auto found = context.client_metadata().find(name);
  if (found == context.client_metadata().end()) return {};
  return {found->second.data(), found->second.size()};
}

// The names in the client certificate, if gRPC has verified it; empty otherwise.
std::vector<std::string> peer_names(const grpc::ServerContext& context) {
  const auto peer = context.auth_context();
  if (peer == nullptr || !peer->IsPeerAuthenticated()) return {};
  const auto shown = peer->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  if (shown.empty()) return {};
  return host::certificate_names(std::string(shown.front().data(), shown.front().size()));
}

// The trace id is returned with the answer, as over HTTP. An invalid one is ignored.
void take_trace(const grpc::ServerContext& context, Call& call) {
  const auto trace = metadata_of(context, "traceparent");
  if (is_traceparent(trace)) call.traceparent = trace;
}

// How long the client waits: gRPC ends the call by itself after grpc-timeout, so a later answer is worth nothing.
void take_patience(const grpc::ServerContext& context, Call& call) {
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return;
  call.patience = std::max<Duration>(std::chrono::duration_cast<Duration>(deadline - std::chrono::system_clock::now()),
                                     Duration::zero());
}

// Tangram's own fields, with the same meaning as over HTTP. "several values" is no valid number, so a repeated field
// fails with a message that names it.
InferHeaders headers_of(const grpc::ServerContext& context) {
  const auto field = [&](const char* name) -> std::optional<std::string_view> {
    if (context.client_metadata().count(name) == 0) return std::nullopt;
    return has_several(context, name) ? "several values" : metadata_of(context, name);
  };
  InferHeaders headers;
  headers.deadline_ms = field("tangram-deadline-ms");
  headers.input_size = field("tangram-input-size");
  headers.background = field("tangram-background");
  return headers;
}

}  // namespace

std::optional<AccessDenial> why_denied(Frontdoor& frontdoor, const grpc::ServerContext& context, AccessNeed need,
                                       const ServedModel* model, Caller& caller) {
  std::vector<std::string> names;
  // Called only where access control is on, so plain servers pay nothing for it.
  const auto show = [&](Credentials& shown) -> std::optional<AccessDenial> {
    for (const char* name : {"authorization", "x-api-key"}) {
      if (!has_several(context, name)) continue;
      return AccessDenial{CallStatus::invalid, fmt::format("several {} fields", name), {}};
    }
    shown = {metadata_of(context, "authorization"), metadata_of(context, "x-api-key"), {}};
    // Reading a certificate takes longer than looking up a key, so it is done only without a key.
    if (shown.authorization.empty() && shown.api_key.empty()) shown.certificate_names = names = peer_names(context);
    return std::nullopt;
  };
  return frontdoor.identify(need, model, show, caller);
}

std::optional<AccessDenial> why_refused(Frontdoor& frontdoor, const Gateway& gateway,
                                        const grpc::ServerContext& context, const inference::ModelInferRequest& request,
                                        Call& call) {
  // Set before the checks: the record of a refusal names model, id and trace.
  call.model = gateway.find_model(request.model_name());
  call.id = request.id();
  take_trace(context, call);
  take_patience(context, call);
  Caller caller;
  if (auto denial = why_denied(frontdoor, context, AccessNeed::client, call.model, caller)) {
    frontdoor.tell_of_denied(*denial, caller, call.model, call.traceparent, call.id);
    return denial;
  }
  return frontdoor.admit(caller, call, [&](Call& c) { return read_grpc_request(request, headers_of(context), c); });
}

}  // namespace tangram::serve

#endif
