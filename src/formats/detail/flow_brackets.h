// Unclosed brackets and quotes in YAML, for better messages about a text that does not parse.
#pragma once

#include <optional>
#include <string_view>

#include "formats/problems.h"

namespace tangram::formats {

struct OpenBracket {
  Position at;
  char bracket = '[';
};

// The innermost `[` or `{` that is never closed; nullopt if all are closed, or if a closing bracket does not match.
// Quotes and comments are respected but block scalars are not, so it is meant for texts that have already failed to
// parse.
std::optional<OpenBracket> unclosed_bracket(std::string_view text);

// The opening quote of the value at `offset`, after its anchor and tag, if it is never closed; nullopt if it is closed
// or the value is not quoted.
std::optional<OpenBracket> unclosed_quote(std::string_view text, std::size_t offset);

}  // namespace tangram::formats
