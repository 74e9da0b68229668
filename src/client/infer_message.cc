// Inference requests and answers of the Open Inference Protocol with the binary tensor extension: a JSON header,
// then the raw bytes of each tensor in the order of the header.
#include "client/infer_message.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

namespace tangram::client {
namespace {

// Messages are formatted by hand, because a load generator builds one per request; a JSON tree takes several times as
// long. Only names go through the JSON library, for their escapes.
std::string in_quotes(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Shape and size are both sent: the server checks one against the other.
std::string json_of(const InferInput& input) {
  return fmt::format(R"({{"name":{},"datatype":"{}","shape":[{}],"parameters":{{"binary_data_size":{}}}}})",
                     in_quotes(input.name), to_string(input.datatype), fmt::join(input.shape, ","), input.bytes.size());
}

std::string json_of(const InferRequest& request) {
  std::string inputs;
  for (const auto& input : request.inputs) inputs += (inputs.empty() ? "" : ",") + json_of(input);
  std::string outputs;
  for (const auto name : request.outputs) {
    outputs += fmt::format(R"({}{{"name":{},"parameters":{{"binary_data":true}}}})", outputs.empty() ? "" : ",",
                           in_quotes(name));
  }
  // Without this parameter, a request that names no outputs gets all of them as JSON numbers.
  const std::string wanted = outputs.empty() ? std::string(R"("parameters":{"binary_data_output":true})")
                                             : fmt::format(R"("outputs":[{}])", outputs);
  return fmt::format(R"({{"id":{},{},"inputs":[{}]}})", in_quotes(request.id), wanted, inputs);
}

}  // namespace

std::vector<std::int64_t> batched_shape(const TensorSpec& spec, std::int64_t samples, std::int64_t size) {
  std::vector<std::int64_t> shape{samples};
  for (const auto axis : spec.shape) shape.push_back(axis == kVariableAxis ? size : axis);
  return shape;
}

std::string write_infer_request(const InferRequest& request, std::string_view fields) {
  const std::string json = json_of(request);
  std::size_t bytes = json.size();
  for (const auto& input : request.inputs) bytes += input.bytes.size();
  std::string message = fmt::format(
      "POST /v2/models/{}/infer HTTP/1.1\r\n{}Content-Type: application/octet-stream\r\n"
      "Inference-Header-Content-Length: {}\r\nContent-Length: {}\r\n\r\n",
      request.model, fields, json.size(), bytes);
  // One allocation; tensors can be megabytes.
  message.reserve(message.size() + bytes);
  message += json;
  for (const auto& input : request.inputs) message += input.bytes;
  return message;
}

Result<std::vector<InferOutput>> read_infer_answer(std::string_view body, std::size_t json_length) {
  const auto wrong = [](std::string what) { return Error{ErrorCode::invalid, std::move(what)}; };
  if (json_length > body.size()) return wrong("its JSON is longer than the answer");
  // The answer is untrusted input, and the JSON library throws at the first unexpected type.
  try {
    const auto json = nlohmann::json::parse(body.substr(0, json_length));
    std::vector<InferOutput> outputs;
    std::string_view rest = body.substr(json_length);  // Not yet given to an output.
    for (const auto& output : json.at("outputs")) {
      const auto size = output.at("parameters").at("binary_data_size").get<std::size_t>();
      if (size > rest.size()) return wrong("bytes are missing");
      outputs.push_back(
          {output.at("name").get<std::string>(), output.at("datatype").get<std::string>(), rest.substr(0, size)});
      rest.remove_prefix(size);
    }
    return outputs;
  } catch (const std::exception& problem) {
    return wrong(problem.what());
  }
}

}  // namespace tangram::client
