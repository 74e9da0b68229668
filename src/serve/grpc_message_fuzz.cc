// Messages of the protocol over gRPC, from their bytes on. What is accepted fits the model exactly, and its response is
// a message again.

#include <cstdlib>

#include "serve/grpc_server.h"

namespace {

using namespace tangram;
using namespace tangram::serve;

void require(bool holds) {
  if (!holds) std::abort();
}

const std::vector<ServedModel>& models() {
  static const std::vector<ServedModel> kModels = [] {
    ServedModel m;
    m.name = "m";
    m.signature.inputs = {{"a", Datatype::fp32, {kVariableAxis, 2}, 0, false},
                          {"b", Datatype::boolean, {kVariableAxis}, 0, true},
                          {"c", Datatype::uint8, {3}, 0, false}};
    m.signature.outputs = {{"o", Datatype::fp32, {1}, 0, false}, {"p", Datatype::int64, {kVariableAxis}, 0, false}};
    ServedModel texts;
    texts.name = "t";
    texts.signature = {{{"a", Datatype::bytes, {kVariableAxis}, 0, false}}, {{"o", Datatype::bytes, {2}, 0, false}}};
    return std::vector<ServedModel>{m, texts};
  }();
  return kModels;
}

void answer(Call& call) {
  require(call.model != nullptr && call.samples >= 1 && call.extent >= 1 && call.size >= call.extent);
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
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Gateway kGateway(models(), {});
  const auto problem = try_grpc_message({reinterpret_cast<const char*>(data), size}, kGateway, answer);
  require(!problem || !problem->message.empty());
  return 0;
}
