// Small networks that come with Tangram, so that everything can be tried for real without a model of one's own.
//
// They are made, not shipped: weights are drawn from a seed, so the answers mean nothing, while tensors, arithmetic and
// times are those of the real thing. What is said here needs no libtorch; making them does (`torch_library.h`).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "core/tensor.h"

namespace tangram::engines {

// A transformer that turns token ids of any length into one vector: layers of attention and feed-forward with
// normalisation in front, the mean over the real tokens behind. What the mask leaves out has weight zero.
struct TextEncoder {
  std::int64_t vocabulary = 8192;
  std::int64_t width = 192;
  std::int64_t layers = 4;
  std::int64_t heads = 6;
  std::int64_t length_max = 512;
};

// Convolutions that halve the image three times, and scores for classes behind them.
struct ImageNetwork {
  std::int64_t side = 96;  // Pixels, of a square with three channels.
  std::int64_t channels = 24;
  std::int64_t classes = 10;
};

struct ExampleModel {
  std::string_view name;
  std::string_view service;  // What a service that uses it may be called.
  std::string_view summary;
  std::variant<TextEncoder, ImageNetwork> network;
};

// In the order of `tangram models`.
std::span<const ExampleModel> example_models();
// The model with this name, or null.
const ExampleModel* find_example_model(std::string_view name);
// What it takes and answers.
Signature signature_of(const ExampleModel& model);
// Numbers that are drawn for it.
std::int64_t parameters_of(const ExampleModel& model);

}  // namespace tangram::engines
