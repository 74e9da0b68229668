// Brackets and quotes in YAML, for better words about a text that does not parse.
#pragma once

#include <optional>
#include <string_view>

#include "formats/problems.h"

namespace tangram::formats {

struct OpenBracket {
  Position at;
  char bracket = '[';
};

// The innermost `[` or `{` that nothing closes; nothing where all are closed, or where another bracket closes one.
// Quotes and comments are respected, the text of blocks is not, so the answer is for texts that are wrong anyway.
std::optional<OpenBracket> unclosed_bracket(std::string_view text);

// The quote with which the value at `offset` begins, behind its anchor and tag, if nothing closes it; nothing where it
// is closed or the value is not quoted.
std::optional<OpenBracket> unclosed_quote(std::string_view text, std::size_t offset);

}  // namespace tangram::formats
