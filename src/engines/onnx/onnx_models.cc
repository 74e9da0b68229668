// The example models as ONNX graphs: the same arithmetic on the same weights as their TorchScript.
#include "engines/onnx/onnx_models.h"

#include <fmt/format.h>

#include <cmath>

#include "engines/example_weights.h"
#include "engines/onnx/onnx_graph.h"

namespace tangram::engines {
namespace {

// A matrix that TorchScript multiplies from the right, {out, in}, as ONNX multiplies it: {in, out}.
std::vector<float> transposed(const WeightTensor& matrix) {
  const auto rows = static_cast<std::size_t>(matrix.shape[0]);
  const auto columns = static_cast<std::size_t>(matrix.shape[1]);
  std::vector<float> turned(matrix.values.size());
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) turned[j * rows + i] = matrix.values[i * columns + j];
  }
  return turned;
}

// What both networks are made of.
class Builder {
 public:
  OnnxGraph graph;

  std::string linear(const std::string& x, const std::string& name) {
    return graph.node("Add", {graph.node("MatMul", {x, "w_" + name}), "b_" + name});
  }

  // With the epsilon of libtorch, 1e-5, over the last axis.
  std::string normalise(const std::string& x, const std::string& name) {
    const std::string mean = mean_of(x);
    const std::string apart = graph.node("Sub", {x, mean});
    const std::string variance = mean_of(graph.node("Pow", {apart, graph.number(2)}));
    const std::string deviation = graph.node("Sqrt", {graph.node("Add", {variance, graph.number(1e-5F)})});
    const std::string scaled = graph.node("Mul", {graph.node("Div", {apart, deviation}), "w_" + name});
    return graph.node("Add", {scaled, "b_" + name});
  }

  std::string gelu(const std::string& x) {
    const std::string erf = graph.node("Erf", {graph.node("Div", {x, graph.number(std::sqrt(2.0F))})});
    const std::string sum = graph.node("Add", {erf, graph.number(1)});
    return graph.node("Mul", {graph.node("Mul", {x, sum}), graph.number(0.5F)});
  }

 private:
  std::string mean_of(const std::string& x) {
    return graph.node("ReduceMean", {x}, {.integers = {{"keepdims", 1}}, .lists = {{"axes", {-1}}}});
  }
};

// [b, n, d] to [b, heads, n, width], or with the last two axes exchanged.
std::string heads_of(OnnxGraph& graph, const std::string& x, const TextEncoder& network, bool turned) {
  const std::string split =
      graph.node("Reshape", {x, graph.integers({0, 0, network.heads, network.width / network.heads})});
  return graph.node(
      "Transpose", {split},
      {.lists = {{"perm", turned ? std::vector<std::int64_t>{0, 2, 3, 1} : std::vector<std::int64_t>{0, 2, 1, 3}}}});
}

std::string attend(Builder& builder, const std::string& y, const std::string& bias, const TextEncoder& network,
                   std::int64_t layer) {
  OnnxGraph& graph = builder.graph;
  const auto of_layer = [&](const char* name) { return fmt::format("{}_{}", name, layer); };
  const std::string query = heads_of(graph, builder.linear(y, of_layer("query")), network, false);
  const std::string key = heads_of(graph, builder.linear(y, of_layer("key")), network, true);
  const std::string value = heads_of(graph, builder.linear(y, of_layer("value")), network, false);
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(network.width / network.heads)));
  const std::string scores = graph.node("Mul", {graph.node("MatMul", {query, key}), graph.number(scale)});
  const std::string shares = graph.node("Softmax", {graph.node("Add", {scores, bias})}, {.integers = {{"axis", 3}}});
  const std::string mixed =
      graph.node("Transpose", {graph.node("MatMul", {shares, value})}, {.lists = {{"perm", {0, 2, 1, 3}}}});
  const std::string joined = graph.node("Reshape", {mixed, graph.integers({0, 0, network.width})});
  return builder.linear(joined, of_layer("attended"));
}

void build(Builder& builder, const TextEncoder& network) {
  OnnxGraph& graph = builder.graph;
  const std::vector<GraphAxis> text{{.name = "batch"}, {.name = "length"}};
  graph.input("input_ids", ort::kInt64, text);
  graph.input("attention_mask", ort::kInt64, text);
  graph.output("embedding", ort::kFloat, {{.name = "batch"}, {.length = network.width}});
  const std::string mask = graph.node("Cast", {"attention_mask"}, {.integers = {{"to", ort::kFloat}}});
  // Padding gets -1e9 before the softmax, whose exponential is exactly zero.
  const std::string outside = graph.node("Mul", {graph.node("Sub", {graph.number(1), mask}), graph.number(-1e9F)});
  const std::string bias = graph.node("Unsqueeze", {outside, graph.integers({1, 2})});
  const std::string length =
      graph.node("Slice", {graph.node("Shape", {"input_ids"}), graph.integers({1}), graph.integers({2})});
  const std::string places = graph.node("Slice", {"positions", graph.integers({0}), length, graph.integers({0})});
  std::string x = graph.node("Add", {graph.node("Gather", {"tokens", "input_ids"}), places});
  for (std::int64_t i = 0; i < network.layers; ++i) {
    const auto of_layer = [&](const char* name) { return fmt::format("{}_{}", name, i); };
    x = graph.node("Add", {x, attend(builder, builder.normalise(x, of_layer("before")), bias, network, i)});
    const std::string wide = builder.gelu(builder.linear(builder.normalise(x, of_layer("between")), of_layer("wide")));
    x = graph.node("Add", {x, builder.linear(wide, of_layer("narrow"))});
  }
  x = builder.normalise(x, "last");
  // The mean over real tokens only; at least one, so that a sample that is all padding divides by no zero.
  const std::string weight = graph.node("Unsqueeze", {mask, graph.integers({2})});
  const OnnxGraph::Attributes dropped{.integers = {{"keepdims", 0}}};
  const std::string sum = graph.node("ReduceSum", {graph.node("Mul", {x, weight}), graph.integers({1})}, dropped);
  const std::string count = graph.node("ReduceSum", {weight, graph.integers({1})}, dropped);
  graph.node_to("embedding", "Div", {sum, graph.node("Max", {count, graph.number(1)})}, {});
}

void build(Builder& builder, const ImageNetwork& network) {
  OnnxGraph& graph = builder.graph;
  graph.input("image", ort::kUint8,
              {{.name = "batch"}, {.length = 3}, {.length = network.side}, {.length = network.side}});
  graph.output("scores", ort::kFloat, {{.name = "batch"}, {.length = network.classes}});
  std::string x = graph.node("Cast", {"image"}, {.integers = {{"to", ort::kFloat}}});
  x = graph.node("Sub", {graph.node("Div", {x, graph.number(255)}), graph.number(0.5F)});
  for (const char* name : {"first", "second", "third"}) {
    x = graph.node("Conv", {x, fmt::format("w_{}", name), fmt::format("b_{}", name)},
                   {.lists = {{"kernel_shape", {3, 3}}, {"pads", {1, 1, 1, 1}}, {"strides", {1, 1}}}});
    x = graph.node("MaxPool", {graph.node("Relu", {x})}, {.lists = {{"kernel_shape", {2, 2}}, {"strides", {2, 2}}}});
  }
  x = graph.node("ReduceMean", {x}, {.integers = {{"keepdims", 0}}, .lists = {{"axes", {2, 3}}}});
  // A sum of products instead of a matrix product, as in TorchScript: the same order of additions in every batch.
  const std::string products = graph.node("Mul", {graph.node("Unsqueeze", {x, graph.integers({1})}), "w_scores"});
  const std::string sums = graph.node("ReduceSum", {products, graph.integers({2})}, {.integers = {{"keepdims", 0}}});
  graph.node_to("scores", "Add", {sums, "b_scores"}, {});
}

// Matrices of a linear layer are turned; the scores of the image network are multiplied as they are.
bool is_turned(const WeightTensor& weight) {
  return weight.shape.size() == 2 && weight.name.starts_with("w_") && weight.name != "w_scores";
}

}  // namespace

std::string write_onnx_model(const ExampleModel& model, std::uint64_t seed) {
  Builder builder;
  for (const auto& weight : draw_weights(model, seed)) {
    if (is_turned(weight)) {
      builder.graph.tensor(weight.name, {weight.shape[1], weight.shape[0]}, transposed(weight));
    } else {
      builder.graph.tensor(weight.name, weight.shape, weight.values);
    }
  }
  std::visit([&](const auto& network) { build(builder, network); }, model.network);
  return builder.graph.file(std::string(model.name));
}

}  // namespace tangram::engines
