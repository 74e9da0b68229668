// Builds an ONNX graph, node by node.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engines/onnx/ort_api.h"
#include "engines/onnx/protobuf.h"

namespace tangram::engines {

// An axis of an input or output: a length, or a name for one that varies.
struct GraphAxis {
  std::int64_t length = 0;
  std::string name = {};  // Not empty: it varies.
};

class OnnxGraph {
 public:
  using Names = std::vector<std::string>;

  // Adds a node and returns the name of its one output. `integers` and `lists` are its attributes.
  struct Attributes {
    std::vector<std::pair<std::string, std::int64_t>> integers = {};
    std::vector<std::pair<std::string, std::vector<std::int64_t>>> lists = {};
  };
  std::string node(const std::string& operation, const Names& inputs, const Attributes& attributes);
  std::string node(const std::string& operation, const Names& inputs) { return node(operation, inputs, {}); }
  // As node(), with a name of its own for the output.
  void node_to(const std::string& output, const std::string& operation, const Names& inputs,
               const Attributes& attributes);

  // Constants. They return their name.
  std::string tensor(const std::string& name, const std::vector<std::int64_t>& shape, const std::vector<float>& values);
  std::string number(float value);
  std::string integers(const std::vector<std::int64_t>& values);

  void input(const std::string& name, ort::ElementType type, const std::vector<GraphAxis>& axes) {
    inputs_.push_back(value_info(name, type, axes));
  }
  void output(const std::string& name, ort::ElementType type, const std::vector<GraphAxis>& axes) {
    outputs_.push_back(value_info(name, type, axes));
  }

  // The whole file.
  std::string file(const std::string& name) const;

 private:
  static ProtoWriter value_info(const std::string& name, ort::ElementType type, const std::vector<GraphAxis>& axes);
  std::string constant(const std::string& name, ort::ElementType type, const std::vector<std::int64_t>& shape,
                       std::string_view raw);

  std::vector<ProtoWriter> nodes_;
  std::vector<ProtoWriter> constants_;
  std::vector<ProtoWriter> inputs_;
  std::vector<ProtoWriter> outputs_;
  int names_ = 0;
};

}  // namespace tangram::engines
