// The error of input that was read and understood to be wrong.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"

namespace tangram::measure::detail {

inline Error invalid(std::string message) { return {ErrorCode::invalid, std::move(message)}; }

}  // namespace tangram::measure::detail
