// Draws weights with Tangram's generator, so that they depend on no library.
#include "engines/example_weights.h"

#include <fmt/format.h>

#include <cmath>

#include "base/rng.h"

namespace tangram::engines {
namespace {

std::size_t elements(const std::vector<std::int64_t>& shape) {
  std::int64_t product = 1;
  for (const auto axis : shape) product *= axis;
  return static_cast<std::size_t>(product);
}

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : rng_(seed) {}

  void normal(const std::string& name, std::vector<std::int64_t> shape, double deviation) {
    std::vector<float> values(elements(shape));
    Rng rng = rng_.stream(name);
    for (float& value : values) value = static_cast<float>(rng.normal(0, deviation));
    tensors.push_back({name, std::move(shape), std::move(values)});
  }
  void constant(const std::string& name, std::int64_t length, float value) {
    tensors.push_back({name, {length}, std::vector<float>(static_cast<std::size_t>(length), value)});
  }
  // A matrix and its bias. The deviation 1/sqrt(in) keeps the variance of the activations constant through the layers.
  void linear(const std::string& name, std::int64_t in, std::int64_t out) {
    normal("w_" + name, {out, in}, 1 / std::sqrt(static_cast<double>(in)));
    normal("b_" + name, {out}, 0.01);
  }
  void normalisation(const std::string& name, std::int64_t length) {
    constant("w_" + name, length, 1);
    constant("b_" + name, length, 0);
  }
  // He initialisation: sqrt(2 / fan-in) keeps the variance through a ReLU.
  void convolution(const std::string& name, std::int64_t in, std::int64_t out) {
    normal("w_" + name, {out, in, 3, 3}, std::sqrt(2 / static_cast<double>(9 * in)));
    normal("b_" + name, {out}, 0.01);
  }

  void network(const TextEncoder& network);
  void network(const ImageNetwork& network);

  std::vector<WeightTensor> tensors;

 private:
  Rng rng_;
};

void Draw::network(const TextEncoder& network) {
  const std::int64_t d = network.width;
  normal("tokens", {network.vocabulary, d}, 1);
  normal("positions", {network.length_max, d}, 0.1);
  for (std::int64_t i = 0; i < network.layers; ++i) {
    const auto of_layer = [&](const char* name) { return fmt::format("{}_{}", name, i); };
    for (const char* name : {"query", "key", "value", "attended"}) linear(of_layer(name), d, d);
    linear(of_layer("wide"), d, 4 * d);
    linear(of_layer("narrow"), 4 * d, d);
    normalisation(of_layer("before"), d);
    normalisation(of_layer("between"), d);
  }
  normalisation("last", d);
}

void Draw::network(const ImageNetwork& network) {
  const std::int64_t c = network.channels;
  convolution("first", 3, c);
  convolution("second", c, 2 * c);
  convolution("third", 2 * c, 4 * c);
  linear("scores", 4 * c, network.classes);
}

}  // namespace

std::vector<WeightTensor> draw_weights(const ExampleModel& model, std::uint64_t seed) {
  Draw draw(seed);
  std::visit([&](const auto& network) { draw.network(network); }, model.network);
  return std::move(draw.tensors);
}

}  // namespace tangram::engines
