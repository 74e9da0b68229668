// Bodies of inference requests: JSON, JSON with binary tensors behind it, or a raw tensor. What is accepted fits the
// model exactly, and its answer is JSON again.

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/json_reader.h"
#include "serve/infer_json.h"

namespace {

using namespace tangram;
using namespace tangram::serve;

void require(bool holds) {
  if (!holds) std::abort();
}

const ServedModel& model() {
  static const ServedModel kModel = [] {
    ServedModel m;
    m.name = "m";
    m.signature.inputs = {{"a", Datatype::fp32, {kVariableAxis, 2}, 0, false},
                          {"b", Datatype::boolean, {kVariableAxis}, 0, true},
                          {"c", Datatype::uint8, {3}, 0, false}};
    m.signature.outputs = {{"o", Datatype::fp32, {1}, 0, false}, {"p", Datatype::int64, {kVariableAxis}, 0, false}};
    return m;
  }();
  return kModel;
}

// For bodies that speak of BYTES.
const ServedModel& texts() {
  static const ServedModel kModel = [] {
    ServedModel m;
    m.name = "t";
    m.signature = {{{"a", Datatype::bytes, {kVariableAxis}, 0, false}}, {{"o", Datatype::bytes, {2}, 0, false}}};
    return m;
  }();
  return kModel;
}

void check_accepted(Call& call) {
  require(call.samples >= 1 && call.extent >= 1 && call.size >= call.extent);
  const auto& specs = call.model->signature.inputs;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    require(call.inputs[i].given || specs[i].mask);
    if (!call.inputs[i].given) continue;
    require(call.inputs[i].data.size() == static_cast<std::size_t>(*bytes_of(specs[i], call.extent) * call.samples));
  }
  for (const auto& spec : call.model->signature.outputs) {
    call.answer.resize(call.answer.size() + static_cast<std::size_t>(*bytes_of(spec, call.extent) * call.samples),
                       '\1');
    call.answer_ends.push_back(call.answer.size());
  }
  InferBody body;
  write_infer_answer(call, body);
  require(nlohmann::json::accept(body.text.substr(0, body.json_length.value_or(body.text.size()))));
}

}  // namespace

// The first byte says how long the JSON is said to be: 0 raw, 255 everything, else that many bytes from the end are
// binary.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  Call call;
  call.body.assign(reinterpret_cast<const char*>(data) + 1, size - 1);
  call.model = call.body.find("BYTES") == std::string::npos ? &model() : &texts();
  InferHeaders headers;
  const std::size_t binary = data[0];
  const std::string length = std::to_string(binary == 0 || binary > size - 1 ? 0 : size - 1 - binary);
  if (binary != 255) headers.json_length = length;
  if (const auto problem = read_infer_request(headers, call)) {
    require(!problem->message.empty());
  } else {
    check_accepted(call);
  }
  // The reader agrees with an independent one on what is JSON, but for its limits; the other takes a zero byte for the
  // end of the text.
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  JsonReader json(text);
  const bool mine = json.skip() && json.end();
  const bool deep = json.problem().starts_with("nested") || json.problem().starts_with("number out");
  if (!deep && text.find('\0') == std::string_view::npos) require(mine == nlohmann::json::accept(text));
  return 0;
}
