// The error for a file of an offline job, in the words of its user.
#pragma once

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tangram::client {

// "rows.jsonl: cannot be read: No such file or directory". `error` is an errno.
inline Error file_failure(const std::string& path, std::string_view what, int error) {
  const ErrorCode code = error == ENOENT ? ErrorCode::not_found : ErrorCode::denied;
  return {code, fmt::format("{}: {}: {}", path, what, std::strerror(error))};
}

}  // namespace tangram::client
