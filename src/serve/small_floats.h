// FP16 and BF16 as numbers, for JSON: C++20 has no types for them.
#pragma once

#include <cstdint>
#include <optional>

#include "core/tensor.h"

namespace tangram::serve {

// The bits of the value of `datatype`, fp16 or bf16, that is nearest to `value`; of two, the even one. Nothing if a
// finite value rounds to infinity. Infinities and NaN are themselves.
std::optional<std::uint16_t> to_small_float(Datatype datatype, double value);
// The value of the bits, exactly.
float from_small_float(Datatype datatype, std::uint16_t bits);

}  // namespace tangram::serve
