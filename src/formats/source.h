// The input of a parser: a text that the caller has read, and its name for messages.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"

namespace tangram::formats {

// `name` begins every message about the text: "fleet.yaml:12:9: ...".
struct Source {
  std::string name;
  std::string text;
};

// How a file that is named inside another is read. The path is passed as it is written there; it is
// meant relative to the file that names it, and resolving it is the caller's part, for this room opens no file.
using ReadFile = std::function<Result<std::string>(const std::string& path)>;

}  // namespace tangram::formats
