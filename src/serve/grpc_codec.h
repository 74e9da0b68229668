// Reads and writes the gRPC messages of the protocol.
#pragma once

#ifdef TANGRAM_WITH_GRPC

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "inference.pb.h"
#include "serve/infer_request.h"
#include "serve/memory_budget.h"
#include "serve/tally.h"

namespace tangram::serve {

// A ModelInferRequest as it stands in its message, which outlives it: nothing is copied. At most 64 inputs, outputs and
// parameters each, so a message of many empty fields costs no more than its bytes.
struct GrpcInferRequest {
  std::string_view model_name;
  std::string_view model_version;
  std::string_view id;
  std::vector<std::string_view> parameters;  // Each a message of its own, ...
  std::vector<std::string_view> inputs;      // ... as these ...
  std::vector<std::string_view> outputs;     // ... and these.
  std::vector<std::string_view> raw;

  // The problem with the message, or nullopt. Keeps the memory of the one before.
  std::optional<CallProblem> read(std::string_view message);
};

// Fills in the call, whose tensors then point into the message or into call.converted, which is charged to call.memory
// before it grows. Requires that call.model is the one that the request names, null if there is none.
std::optional<CallProblem> read_grpc_request(const GrpcInferRequest& request, const InferHeaders& headers, Call& call);

// The message that answers a call. The call outlives it.
class GrpcAnswer {
 public:
  // `on_stream`: as ModelStreamInfer has it.
  GrpcAnswer(const Call& call, bool on_stream);
  std::size_t bytes() const;
  void append_to(std::string& out) const;

 private:
  bool on_stream_;
  std::string head_;                    // All fields but the tensors.
  std::vector<std::string> converted_;  // Tensors whose elements have lengths of their own.
  std::vector<std::string_view> raw_;
};
// The message that answers a request of a stream with an error.
std::string grpc_stream_problem(std::string_view id, std::string_view problem);

// Whether a model has this version; an empty one means any.
inline bool has_version(std::string_view version) { return version.empty() || version == kModelVersion; }
CallProblem model_not_found(const std::string& name);
void write_metadata(const ServedModel& model, inference::ModelMetadataResponse& out);
// The same as over HTTP.
void write_config(const ServedModel& model, inference::ModelConfig& out);
void write_statistics(const ServedModel& model, const ServiceTally& tally, inference::ModelStatistics& out);

}  // namespace tangram::serve

#endif
