// Where a text stops being UTF-8.
#pragma once

#include <optional>
#include <string_view>

#include "formats/problems.h"

namespace tangram::formats {

// The text without the byte-order mark that some editors put in front.
std::string_view without_byte_order_mark(std::string_view text);

// The place of the first byte that is not well-formed UTF-8, or is zero; nullopt if there is none.
std::optional<Position> first_bad_byte(std::string_view text);

// The place of the byte `offset`.
Position position_of(std::string_view text, std::size_t offset);

}  // namespace tangram::formats
