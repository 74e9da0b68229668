// The table of example models. The parameter counts are computed from the shapes that torch_models.cc draws.
#include "engines/example_models.h"

#include <algorithm>

namespace tangram::engines {
namespace {

// The larger encoder has the proportions of small BERTs in production: most of its time goes into the layers,
// most of its file into the vocabulary.
constexpr ExampleModel kModels[] = {
    {"text-encoder", "embed-texts", "Token ids of any length to a vector of 192; 3.5 million parameters.",
     TextEncoder{}},
    {"text-encoder-large", "embed-texts-large", "The same with a vector of 256 and 11 million parameters.",
     TextEncoder{.vocabulary = 30522, .width = 256, .layers = 4, .heads = 8, .length_max = 512}},
    {"image-classifier", "classify-images", "Images of 96 x 96 pixels to ten scores, by convolutions.", ImageNetwork{}},
};

TensorSpec tensor(std::string name, Datatype datatype, std::vector<std::int64_t> shape, bool mask = false) {
  return {std::move(name), datatype, std::move(shape), 0, mask};
}

Signature signature(const TextEncoder& network) {
  return {{tensor("input_ids", Datatype::int64, {kVariableAxis}),
           tensor("attention_mask", Datatype::int64, {kVariableAxis}, true)},
          {tensor("embedding", Datatype::fp32, {network.width})}};
}

Signature signature(const ImageNetwork& network) {
  return {{tensor("image", Datatype::uint8, {3, network.side, network.side})},
          {tensor("scores", Datatype::fp32, {network.classes})}};
}

// A layer has four square matrices for attention and two of four times the width, each with a bias, and two
// normalisations; one more normalisation follows the last layer.
std::int64_t parameters(const TextEncoder& network) {
  const std::int64_t d = network.width;
  const std::int64_t layer = 4 * (d * d + d) + (4 * d * d + 4 * d) + (4 * d * d + d) + 4 * d;
  return (network.vocabulary + network.length_max) * d + network.layers * layer + 2 * d;
}

// Three convolutions of 3 x 3, each with twice the channels of the one before, and a matrix.
std::int64_t parameters(const ImageNetwork& network) {
  const std::int64_t c = network.channels;
  const std::int64_t convolutions = (3 * c * 9 + c) + (c * 2 * c * 9 + 2 * c) + (2 * c * 4 * c * 9 + 4 * c);
  return convolutions + 4 * c * network.classes + network.classes;
}

}  // namespace

std::span<const ExampleModel> example_models() { return kModels; }

const ExampleModel* find_example_model(std::string_view name) {
  const auto* const found = std::ranges::find(kModels, name, &ExampleModel::name);
  return found == std::end(kModels) ? nullptr : found;
}

Signature signature_of(const ExampleModel& model) {
  return std::visit([](const auto& network) { return signature(network); }, model.network);
}

std::int64_t parameters_of(const ExampleModel& model) {
  return std::visit([](const auto& network) { return parameters(network); }, model.network);
}

}  // namespace tangram::engines
