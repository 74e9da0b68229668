// The weights of the example models, drawn from a seed: the same numbers in every format that a model is written in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engines/example_models.h"

namespace tangram::engines {

struct WeightTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;  // Row-major.
};

// In the order in which the layers use them. Each tensor has its own stream of random numbers, named after it, so a
// change of one layer does not change the others.
std::vector<WeightTensor> draw_weights(const ExampleModel& model, std::uint64_t seed);

}  // namespace tangram::engines
