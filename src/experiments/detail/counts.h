// Numbers of GPUs in answers, where 0 means that no number is enough.
#pragma once

#include <string>

#include "report/yaml.h"

namespace tangram::experiments::detail {

inline report::Json count_json(int gpus) { return gpus > 0 ? report::Json(gpus) : report::Json(nullptr); }
inline std::string count_text(int gpus) { return gpus > 0 ? std::to_string(gpus) : "none"; }

}  // namespace tangram::experiments::detail
