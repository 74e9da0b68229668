// Conversion between protobuf messages of the protocol and calls.
//
// A request carries its tensors in one of two forms: raw_input_contents, one string of bytes per input, or typed
// contents inside each input. Raw numbers are used where they are, inside the message; typed contents and all BYTES
// tensors are converted into call.converted. As in infer_json.cc, views of that string are made only after the last
// conversion, because it moves while it grows. Answers are always raw, so only BYTES need a conversion there.

#ifdef TANGRAM_WITH_GRPC

#include "serve/grpc_codec.h"

#include <fmt/format.h>

#include <functional>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "core/bytes_slot.h"
#include "serve/grpc_server.h"

namespace tangram::serve {
namespace {

// ---- Requests ----

// Appends each value as a T. The protocol stores small integers in 32-bit fields, so the value is narrowed.
template <typename Repeated, typename T>
void append_all(const Repeated& values, std::string& out) {
  for (const auto value : values) {
    const T element = static_cast<T>(value);
    out.append(reinterpret_cast<const char*>(&element), sizeof element);
  }
}

// Appends typed contents as the bytes of the tensor. A field of another type is ignored, and the byte count then does
// not match the shape, which accept_inputs() reports.
void append_contents(const inference::InferTensorContents& c, Datatype datatype, std::string& out) {
  switch (datatype) {
    case Datatype::boolean: return append_all<decltype(c.bool_contents()), std::uint8_t>(c.bool_contents(), out);
    case Datatype::int8: return append_all<decltype(c.int_contents()), std::int8_t>(c.int_contents(), out);
    case Datatype::int16: return append_all<decltype(c.int_contents()), std::int16_t>(c.int_contents(), out);
    case Datatype::int32: return append_all<decltype(c.int_contents()), std::int32_t>(c.int_contents(), out);
    case Datatype::int64: return append_all<decltype(c.int64_contents()), std::int64_t>(c.int64_contents(), out);
    case Datatype::uint8: return append_all<decltype(c.uint_contents()), std::uint8_t>(c.uint_contents(), out);
    case Datatype::uint16: return append_all<decltype(c.uint_contents()), std::uint16_t>(c.uint_contents(), out);
    case Datatype::uint32: return append_all<decltype(c.uint_contents()), std::uint32_t>(c.uint_contents(), out);
    case Datatype::uint64: return append_all<decltype(c.uint64_contents()), std::uint64_t>(c.uint64_contents(), out);
    case Datatype::fp32: return append_all<decltype(c.fp32_contents()), float>(c.fp32_contents(), out);
    case Datatype::fp64: return append_all<decltype(c.fp64_contents()), double>(c.fp64_contents(), out);
    case Datatype::fp16:
    case Datatype::bf16:
    case Datatype::bytes: return;  // FP16 and BF16 have no typed contents; BYTES may not fit, see append_input.
  }
}

// Appends the bytes of one input to `out` if they cannot be used as they are. Returns the problem with them, or
// nullopt. Requires one raw string for each input if there are any.
std::optional<std::string> append_input(const inference::ModelInferRequest& request, int index, std::string& out) {
  const auto& input = request.inputs(index);
  const auto datatype = parse_datatype(input.datatype());
  const bool raw = request.raw_input_contents_size() > 0;
  // An unknown datatype is reported when the inputs are compared with the model.
  if (!datatype) return std::nullopt;
  if (*datatype != Datatype::bytes) {
    if (!raw) append_contents(input.contents(), *datatype, out);
    return std::nullopt;
  }
  if (raw) return wire_to_slots(request.raw_input_contents(index), out);
  for (const auto& element : input.contents().bytes_contents()) {
    if (!append_bytes_slot(element, out)) return fmt::format("an element is longer than {} bytes", kBytesElementMax);
  }
  return std::nullopt;
}

// Numbers become doubles, which are exact up to kNaturalMax; larger values fail the range checks of parameters.
ParameterValue value_of(const inference::InferParameter& parameter) {
  switch (parameter.parameter_choice_case()) {
    case inference::InferParameter::kBoolParam: return ParameterValue::of(parameter.bool_param());
    case inference::InferParameter::kInt64Param:
      return ParameterValue::of(static_cast<double>(parameter.int64_param()));
    case inference::InferParameter::kUint64Param:
      return ParameterValue::of(static_cast<double>(parameter.uint64_param()));
    case inference::InferParameter::kDoubleParam: return ParameterValue::of(parameter.double_param());
    case inference::InferParameter::kStringParam: return ParameterValue::of_text(parameter.string_param());
    default: return ParameterValue::of_other("nothing");
  }
}

// Applies the parameters of the request to the call and rejects unsupported ones of its inputs and outputs.
std::optional<CallProblem> read_grpc_parameters(const inference::ModelInferRequest& request, Call& call,
                                                std::optional<std::int64_t>& input_size) {
  for (const auto& [name, parameter] : request.parameters()) {
    if (auto problem = apply_parameter(name, value_of(parameter), call, input_size)) return problem;
  }
  for (const auto& input : request.inputs()) {
    for (const auto& [name, parameter] : input.parameters()) {
      if (auto problem = check_input_parameter(name)) return problem;
    }
  }
  for (const auto& output : request.outputs()) {
    for (const auto& [name, parameter] : output.parameters()) {
      if (auto problem = check_output_parameter(name, value_of(parameter))) return problem;
    }
  }
  return std::nullopt;
}

// Finds the bytes of each input: in the request, or in `converted` if they had to be converted. Requires that the
// request outlives `given`.
std::optional<CallProblem> locate_inputs(const inference::ModelInferRequest& request, std::string& converted,
                                         std::vector<GivenInput>& given) {
  const bool raw = request.raw_input_contents_size() > 0;
  if (raw && request.raw_input_contents_size() != request.inputs_size()) {
    return CallProblem{CallStatus::invalid, fmt::format("expected {} raw inputs, got {}", request.inputs_size(),
                                                        request.raw_input_contents_size())};
  }
  // Where each input ends in `converted`. An input that is used in place adds nothing, so its end equals its begin.
  std::vector<std::size_t> ends;
  for (const auto& input : request.inputs()) {
    const auto datatype = parse_datatype(input.datatype());
    if (raw && input.has_contents()) {
      return CallProblem{CallStatus::invalid, fmt::format("input '{}' has both raw and typed contents", input.name())};
    }
    if (const auto problem = append_input(request, static_cast<int>(ends.size()), converted)) {
      return CallProblem{CallStatus::invalid, fmt::format("input '{}': {}", input.name(), *problem)};
    }
    ends.push_back(converted.size());
    given.push_back({input.name(),
                     datatype,
                     input.datatype(),
                     input.shape().data(),
                     static_cast<std::size_t>(input.shape_size()),
                     {}});
  }
  // The second pass: `converted` no longer moves.
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::size_t begin = i == 0 ? 0 : ends[i - 1];
    const bool as_it_came = raw && given[i].datatype != Datatype::bytes;
    given[i].data = as_it_came ? std::string_view(request.raw_input_contents(static_cast<int>(i)))
                               : std::string_view(converted).substr(begin, ends[i] - begin);
  }
  return std::nullopt;
}

// ---- Descriptions ----

// The first axis is the number of samples, which the signature leaves out.
template <typename Add>
void describe_tensors(const std::vector<TensorSpec>& specs, Add&& add) {
  for (const auto& spec : specs) {
    auto* tensor = add();
    tensor->set_name(spec.name);
    tensor->set_datatype(std::string(to_string(spec.datatype)));
    tensor->add_shape(-1);
    for (const std::int64_t axis : spec.shape) tensor->add_shape(axis);
  }
}

// The configuration has an enum where the metadata has text, with TYPE_STRING for BYTES.
inference::DataType data_type(Datatype datatype) {
  inference::DataType type = inference::TYPE_INVALID;
  inference::DataType_Parse("TYPE_" + (datatype == Datatype::bytes ? "STRING" : std::string(to_string(datatype))),
                            &type);
  return type;
}

// Dimensions without the samples, which max_batch_size implies.
template <typename Add>
void configure_tensors(const std::vector<TensorSpec>& specs, Add&& add) {
  for (const auto& spec : specs) {
    auto* tensor = add();
    tensor->set_name(spec.name);
    tensor->set_data_type(data_type(spec.datatype));
    for (const std::int64_t axis : spec.shape) tensor->add_dims(axis);
  }
}

// The protocol's pair of a count and a sum in nanoseconds.
void set_duration(inference::StatisticDuration* stat, std::uint64_t count, std::int64_t ns) {
  stat->set_count(count);
  stat->set_ns(static_cast<std::uint64_t>(ns));
}

}  // namespace

grpc::StatusCode code_of(CallStatus status) {
  switch (status) {
    case CallStatus::ok: return grpc::StatusCode::OK;
    case CallStatus::invalid: return grpc::StatusCode::INVALID_ARGUMENT;
    case CallStatus::not_found: return grpc::StatusCode::NOT_FOUND;
    case CallStatus::refused: return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case CallStatus::unavailable: return grpc::StatusCode::UNAVAILABLE;
    case CallStatus::failed: return grpc::StatusCode::INTERNAL;
    case CallStatus::unsupported: return grpc::StatusCode::UNIMPLEMENTED;
    case CallStatus::unauthenticated: return grpc::StatusCode::UNAUTHENTICATED;
    case CallStatus::forbidden: return grpc::StatusCode::PERMISSION_DENIED;
    case CallStatus::abandoned: return grpc::StatusCode::CANCELLED;
  }
  return grpc::StatusCode::INTERNAL;
}

// The message is Triton's.
CallProblem unknown_model(const std::string& name) {
  return {CallStatus::not_found, fmt::format("Request for unknown model: '{}' is not found", name)};
}

// The steps are those of read_infer_request(). Outputs are always binary, since there is no JSON to put them into.
std::optional<CallProblem> read_grpc_request(const inference::ModelInferRequest& request, const InferHeaders& headers,
                                             Call& call) {
  // An empty version means any. Every model has the one version kModelVersion.
  const std::string& version = request.model_version();
  if (call.model == nullptr || (!version.empty() && version != kModelVersion))
    return unknown_model(request.model_name());
  std::optional<std::int64_t> input_size;
  if (auto problem = read_headers(headers, call, input_size)) return problem;
  if (auto problem = read_grpc_parameters(request, call, input_size)) return problem;
  std::vector<GivenInput> given;
  if (auto problem = locate_inputs(request, call.converted, given)) return problem;
  if (auto problem = accept_inputs(given, input_size, call)) return problem;
  // As over HTTP, a request that names no outputs asks for all.
  if (request.outputs_size() == 0) request_all_outputs(true, call);
  for (const auto& output : request.outputs()) {
    if (auto problem = request_output(output.name(), true, call)) return problem;
  }
  return std::nullopt;
}

// The shape is that of the request: its own samples and extent, not those of the padded batch.
void write_grpc_response(const Call& call, inference::ModelInferResponse& response) {
  response.set_model_name(call.model->name);
  response.set_model_version(std::string(kModelVersion));
  response.set_id(call.id);
  for (const auto& output : call.outputs) {
    const TensorSpec& spec = call.model->signature.outputs[output.index];
    auto* tensor = response.add_outputs();
    tensor->set_name(spec.name);
    tensor->set_datatype(std::string(to_string(spec.datatype)));
    tensor->add_shape(call.samples);
    for (const std::int64_t axis : spec.shape) tensor->add_shape(axis == kVariableAxis ? call.extent : axis);
    const std::string_view raw = raw_output(call, output.index);
    // On the wire BYTES elements have their length in front and no padding.
    if (spec.datatype == Datatype::bytes) {
      response.add_raw_output_contents(slots_to_wire(raw));
    } else {
      response.add_raw_output_contents(raw.data(), raw.size());
    }
  }
}

void write_metadata(const ServedModel& model, inference::ModelMetadataResponse& out) {
  out.set_name(model.name);
  out.add_versions(std::string(kModelVersion));
  out.set_platform(model.platform);
  describe_tensors(model.signature.inputs, [&] { return out.add_inputs(); });
  describe_tensors(model.signature.outputs, [&] { return out.add_outputs(); });
}

void write_config(const ServedModel& model, inference::ModelConfig& out) {
  out.set_name(model.name);
  out.set_platform(model.platform);
  out.set_backend("tangram");
  out.set_max_batch_size(model.samples_max);
  configure_tensors(model.signature.inputs, [&] { return out.add_input(); });
  configure_tensors(model.signature.outputs, [&] { return out.add_output(); });
  // Only says that requests are batched: there are no settings.
  out.mutable_dynamic_batching();
}

// Mirrors statistics_of() in reports.cc. Input and output times are 0: copying is part of the run time.
void write_statistics(const ServedModel& model, const ServiceTally& tally, inference::ModelStatistics& out) {
  const std::uint64_t answered = tally.latency.count();
  out.set_name(model.name);
  out.set_version(std::string(kModelVersion));
  out.set_last_inference(static_cast<std::uint64_t>(tally.last_ms));
  out.set_inference_count(tally.samples);
  out.set_execution_count(tally.batches);
  auto* stats = out.mutable_inference_stats();
  set_duration(stats->mutable_success(), answered, tally.latency.sum_ns());
  // Rejected and failed requests, by OutcomeKind.
  set_duration(stats->mutable_fail(), tally.outcomes[2] + tally.outcomes[3],
               static_cast<std::int64_t>(tally.failed_ns));
  set_duration(stats->mutable_queue(), answered, tally.queue.sum_ns());
  set_duration(stats->mutable_compute_input(), answered, 0);
  set_duration(stats->mutable_compute_infer(), answered, tally.compute.sum_ns());
  set_duration(stats->mutable_compute_output(), answered, 0);
  set_duration(stats->mutable_cache_hit(), 0, 0);
  set_duration(stats->mutable_cache_miss(), 0, 0);
  for (const auto& [size, batch] : tally.by_batch_size) {
    auto* entry = out.add_batch_stats();
    entry->set_batch_size(static_cast<std::uint64_t>(size));
    set_duration(entry->mutable_compute_input(), batch.count, 0);
    set_duration(entry->mutable_compute_infer(), batch.count, batch.compute_ns);
    set_duration(entry->mutable_compute_output(), batch.count, 0);
  }
}

// Does what the server does with a message, without a server, for the fuzzer and tests.
std::optional<CallProblem> try_grpc_message(std::string_view bytes, const Gateway& gateway,
                                            const std::function<void(Call&)>& accepted) {
  inference::ModelInferRequest request;
  if (!request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return CallProblem{CallStatus::invalid, "not a message of the protocol"};
  }
  Call call;
  call.model = gateway.find_model(request.model_name());
  call.id = request.id();
  if (auto problem = read_grpc_request(request, {}, call)) return problem;
  accepted(call);
  inference::ModelInferResponse response;
  write_grpc_response(call, response);
  inference::ModelInferResponse again;
  // Reading the response back proves that it is a valid message, whatever the request held.
  TANGRAM_CHECK(again.ParseFromString(response.SerializeAsString()), "a response is a message of the protocol");
  TANGRAM_CHECK(again.outputs_size() == static_cast<int>(call.outputs.size()), "every output that was asked for");
  return std::nullopt;
}

}  // namespace tangram::serve

#endif
