// TorchScript models in this process.
#pragma once

#include <memory>

#include "engines/batch_engine.h"

namespace tangram::engines {

// TorchLibrary::make_engine. Errors with the code `exhausted` say that memory did not suffice; a smaller batch may.
// As TorchLibrary::why_no_gpu().
std::string why_no_torch_gpu();
std::unique_ptr<BatchEngine> make_torch_engine(const BatchEngineConfig& config);

}  // namespace tangram::engines
