// Writes the example models as ONNX files, without ONNX or ONNX Runtime.
#pragma once

#include <cstdint>
#include <string>

#include "engines/example_models.h"

namespace tangram::engines {

// The content of the file. The same seed gives the same bytes, and the same weights as in other formats.
std::string write_onnx_model(const ExampleModel& model, std::uint64_t seed);

}  // namespace tangram::engines
