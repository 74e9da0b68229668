// Parses and writes the gRPC messages of the protocol.
#pragma once

#ifdef TANGRAM_WITH_GRPC

#include <grpcpp/grpcpp.h>

#include <optional>
#include <string>

#include "inference.pb.h"
#include "serve/infer_request.h"
#include "serve/tally.h"

namespace tangram::serve {

grpc::StatusCode code_of(CallStatus status);
CallProblem unknown_model(const std::string& name);

// Fills in the call, whose tensors then point into the request. Requires that call.model is the one that the request
// names, null if there is none.
std::optional<CallProblem> read_grpc_request(const inference::ModelInferRequest& request, const InferHeaders& headers,
                                             Call& call);
// Writes the answer of a call. Outputs travel raw, as Triton's do.
void write_grpc_response(const Call& call, inference::ModelInferResponse& response);

void write_metadata(const ServedModel& model, inference::ModelMetadataResponse& out);
// The same as over HTTP.
void write_config(const ServedModel& model, inference::ModelConfig& out);
void write_statistics(const ServedModel& model, const ServiceTally& tally, inference::ModelStatistics& out);

}  // namespace tangram::serve

#endif
