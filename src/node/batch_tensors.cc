#include "node/batch_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "client/infer_message.h"
#include "core/bytes_slot.h"
#include "engines/tensor_memory.h"

namespace tangram::node {
namespace {

// JSON around tensors: names, shapes and sizes.
constexpr std::size_t kRequestJsonMax = 128 << 10;

Error no_batch(std::string why) { return {ErrorCode::invalid, "this is not a batch of the model: " + std::move(why)}; }

Result<Nothing> take_input(const TensorSpec& spec, std::string_view bytes, std::span<std::byte> place) {
  std::string slots;
  if (spec.datatype == Datatype::bytes) {
    if (const auto problem = wire_to_slots(bytes, slots)) return no_batch(*problem);
    bytes = slots;
  }
  if (bytes.size() != place.size()) {
    return no_batch(fmt::format("input '{}' has {} bytes instead of {}", spec.name, bytes.size(), place.size()));
  }
  if (!bytes.empty()) std::memcpy(place.data(), bytes.data(), bytes.size());
  return Nothing{};
}

}  // namespace

Result<Nothing> read_batch_tensors(const engines::ModelSpec& model, const engines::BatchJob& job, std::string_view body,
                                   std::size_t json_length, const engines::BatchMemory& memory) {
  if (json_length > body.size() || json_length > kRequestJsonMax) return no_batch("its JSON is too long");
  try {
    const auto json = nlohmann::json::parse(body.substr(0, json_length));
    const auto& inputs = json.at("inputs");
    const auto& specs = model.signature.inputs;
    if (inputs.size() != specs.size()) return no_batch("it has other inputs");
    std::string_view rest = body.substr(json_length);
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const auto& input = inputs.at(i);
      const auto& bytes = input.at("parameters").at("binary_data_size");
      if (!bytes.is_number_unsigned()) return no_batch("the size of an input is no count");
      const auto size = bytes.get<std::size_t>();
      const bool same = input.at("name").get_ref<const std::string&>() == specs[i].name &&
                        input.at("datatype").get_ref<const std::string&>() == to_string(specs[i].datatype) &&
                        input.at("shape").get<std::vector<std::int64_t>>() ==
                            client::batched_shape(specs[i], job.samples, job.size);
      if (!same) return no_batch(fmt::format("input {} is not '{}' of its type and shape", i, specs[i].name));
      if (size > rest.size()) return no_batch("bytes are missing");
      TANGRAM_RETURN_IF_ERROR(take_input(specs[i], rest.substr(0, size), memory.inputs[i]));
      rest.remove_prefix(size);
    }
    if (!rest.empty()) return no_batch("it has bytes behind its tensors");
    return Nothing{};
  } catch (const std::exception& problem) {
    return no_batch(problem.what());
  }
}

std::string write_batch_answer(const engines::ModelSpec& model, const engines::BatchJob& job,
                               const engines::BatchMemory& memory, std::string_view fields) {
  const auto& specs = model.signature.outputs;
  std::string json = R"({"outputs":[)";
  std::size_t bytes = 0;
  std::vector<std::string> converted(specs.size());
  std::vector<std::string_view> parts(specs.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    parts[i] = {reinterpret_cast<const char*>(memory.outputs[i].data()), memory.outputs[i].size()};
    if (specs[i].datatype == Datatype::bytes) {
      converted[i] = slots_to_wire(parts[i]);
      parts[i] = converted[i];
    }
    bytes += parts[i].size();
    json += fmt::format(R"({}{{"name":{},"datatype":"{}","shape":[{}],"parameters":{{"binary_data_size":{}}}}})",
                        i == 0 ? "" : ",",
                        nlohmann::json(specs[i].name).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
                        to_string(specs[i].datatype),
                        fmt::join(client::batched_shape(specs[i], job.samples, job.size), ","), parts[i].size());
  }
  json += "]}";
  std::string answer = fmt::format(
      "HTTP/1.1 200 OK\r\n{}Content-Type: application/octet-stream\r\nInference-Header-Content-Length: {}\r\n"
      "Content-Length: {}\r\n\r\n",
      fields, json.size(), json.size() + bytes);
  answer.reserve(answer.size() + json.size() + bytes);
  answer += json;
  for (const auto part : parts) answer += part;
  return answer;
}

// Texts travel without their slots, so that a request has at most the bytes of its memory.
std::optional<std::size_t> batch_request_max(const engines::ModelSpec& model) {
  std::size_t most = 0;
  for (const auto& shape : model.shapes) {
    const auto needed = engines::memory_needed(model.signature, {.service = model.service,
                                                                 .samples = static_cast<std::int32_t>(shape.batch),
                                                                 .size = shape.size});
    if (!needed) return std::nullopt;
    most = std::max(most, *needed);
  }
  return most + kRequestJsonMax;
}

}  // namespace tangram::node
