// The caller of a gRPC request, and the meaning of its metadata.
#pragma once

#ifdef TANGRAM_WITH_GRPC

#include <grpcpp/grpcpp.h>

#include <optional>

#include "inference.pb.h"
#include "serve/frontdoor.h"

namespace tangram::serve {

// Identify and authorise, by the key or the certificate that the caller shows: the reason to deny it, or nullopt.
std::optional<AccessDenial> why_denied(Frontdoor& frontdoor, const grpc::ServerContext& context, AccessNeed need,
                                       const ServedModel* model, Caller& caller);

// All steps before the world for an inference request: the reason to refuse it, which is counted and logged, or
// nullopt, and then the call is ready to be posted. Requires a new call.
std::optional<AccessDenial> why_refused(Frontdoor& frontdoor, const Gateway& gateway,
                                        const grpc::ServerContext& context, const inference::ModelInferRequest& request,
                                        Call& call);

}  // namespace tangram::serve

#endif
