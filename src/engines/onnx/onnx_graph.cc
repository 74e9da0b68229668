// The numbers of the fields are those of onnx.proto, version 1.
#include "engines/onnx/onnx_graph.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

namespace tangram::engines {
namespace {

// Old enough for ONNX Runtime 1.11, and for everything that the example models use.
constexpr std::int64_t kIrVersion = 7;
constexpr std::int64_t kOpsetVersion = 13;

// Attributes say of what kind they are.
constexpr std::int64_t kIntegerAttribute = 2;
constexpr std::int64_t kIntegersAttribute = 7;

template <typename T>
std::string raw_bytes(const std::vector<T>& values) {
  static_assert(std::endian::native == std::endian::little, "ONNX files are little endian");
  std::string raw(values.size() * sizeof(T), '\0');
  std::memcpy(raw.data(), values.data(), raw.size());
  return raw;
}

}  // namespace

std::string OnnxGraph::node(const std::string& operation, const Names& inputs, const Attributes& attributes) {
  std::string name = fmt::format("{}_{}", operation, ++names_);
  node_to(name, operation, inputs, attributes);
  return name;
}

void OnnxGraph::node_to(const std::string& output, const std::string& operation, const Names& inputs,
                        const Attributes& attributes) {
  ProtoWriter node;
  for (const auto& input : inputs) node.bytes(1, input);
  node.bytes(2, output);
  node.bytes(3, output);
  node.bytes(4, operation);
  for (const auto& [name, value] : attributes.integers) {
    ProtoWriter attribute;
    attribute.bytes(1, name);
    attribute.integer(3, value);
    attribute.integer(20, kIntegerAttribute);
    node.message(5, attribute);
  }
  for (const auto& [name, values] : attributes.lists) {
    ProtoWriter attribute;
    attribute.bytes(1, name);
    for (const auto value : values) attribute.integer(8, value);
    attribute.integer(20, kIntegersAttribute);
    node.message(5, attribute);
  }
  nodes_.push_back(std::move(node));
}

std::string OnnxGraph::constant(const std::string& name, ort::ElementType type, const std::vector<std::int64_t>& shape,
                                std::string_view raw) {
  ProtoWriter tensor;
  for (const auto axis : shape) tensor.integer(1, axis);
  tensor.integer(2, type);
  tensor.bytes(8, name);
  tensor.bytes(9, raw);
  constants_.push_back(std::move(tensor));
  return name;
}

std::string OnnxGraph::tensor(const std::string& name, const std::vector<std::int64_t>& shape,
                              const std::vector<float>& values) {
  return constant(name, ort::kFloat, shape, raw_bytes(values));
}

std::string OnnxGraph::number(float value) {
  return constant(fmt::format("number_{}", ++names_), ort::kFloat, {}, raw_bytes(std::vector<float>{value}));
}

std::string OnnxGraph::integers(const std::vector<std::int64_t>& values) {
  return constant(fmt::format("integers_{}", ++names_), ort::kInt64, {static_cast<std::int64_t>(values.size())},
                  raw_bytes(values));
}

ProtoWriter OnnxGraph::value_info(const std::string& name, ort::ElementType type, const std::vector<GraphAxis>& axes) {
  ProtoWriter shape;
  for (const auto& axis : axes) {
    ProtoWriter dimension;
    if (axis.name.empty()) {
      dimension.integer(1, axis.length);
    } else {
      dimension.bytes(2, axis.name);
    }
    shape.message(1, dimension);
  }
  ProtoWriter tensor;
  tensor.integer(1, type);
  tensor.message(2, shape);
  ProtoWriter kind;
  kind.message(1, tensor);
  ProtoWriter info;
  info.bytes(1, name);
  info.message(2, kind);
  return info;
}

std::string OnnxGraph::file(const std::string& name) const {
  ProtoWriter graph;
  for (const auto& node : nodes_) graph.message(1, node);
  graph.bytes(2, name);
  for (const auto& constant : constants_) graph.message(5, constant);
  for (const auto& input : inputs_) graph.message(11, input);
  for (const auto& output : outputs_) graph.message(12, output);
  ProtoWriter opset;
  opset.bytes(1, "");
  opset.integer(2, kOpsetVersion);
  ProtoWriter model;
  model.integer(1, kIrVersion);
  model.bytes(2, "tangram");
  model.message(7, graph);
  model.message(8, opset);
  return model.text();
}

}  // namespace tangram::engines
