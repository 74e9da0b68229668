// Example models as TorchScript.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "engines/example_models.h"

namespace tangram::engines {

// TorchLibrary::write_model.
Result<Nothing> write_torch_model(const ExampleModel& model, std::uint64_t seed, const std::string& path);

}  // namespace tangram::engines
