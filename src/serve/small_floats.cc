// Both formats are IEEE 754 binary formats that differ in the number of bits of exponent and fraction, so one function
// with these as parameters serves both. A double rounds once, straight to the small format: by way of a float, a value
// just beside the middle of two neighbours could round to the wrong one.

#include "serve/small_floats.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tangram::serve {
namespace {

struct Format {
  int exponent_bits;
  int fraction_bits;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int exponent_max() const { return (1 << exponent_bits) - 1; }  // Of infinities and NaN.
};

constexpr Format format_of(Datatype datatype) { return datatype == Datatype::fp16 ? Format{5, 10} : Format{8, 7}; }

constexpr std::uint16_t kSign = 0x8000;

}  // namespace

std::optional<std::uint16_t> to_small_float(Datatype datatype, double value) {
  const Format format = format_of(datatype);
  const auto infinity = static_cast<std::uint16_t>(format.exponent_max() << format.fraction_bits);
  const std::uint16_t sign = std::signbit(value) ? kSign : 0;
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | infinity | (1 << (format.fraction_bits - 1)));
  if (std::isinf(value)) return static_cast<std::uint16_t>(sign | infinity);
  const double size = std::abs(value);
  // Below 1 in steps of the least value: subnormal numbers share the exponent of the smallest normal ones.
  const int exponent = size == 0 ? 1 - format.bias() : std::max(std::ilogb(size), 1 - format.bias());
  // In units of the last place: a whole number of up to fraction_bits + 1 bits after rounding. A carry into one bit
  // more is the next exponent with a fraction of zero, which the sum below makes of it by itself.
  const auto units = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(size, format.fraction_bits - exponent)));
  const auto implicit = std::uint32_t{1} << format.fraction_bits;
  const std::uint32_t bits =
      units < implicit
          ? units
          : (static_cast<std::uint32_t>(exponent + format.bias()) << format.fraction_bits) + units - implicit;
  if (bits >= infinity) return std::nullopt;
  return static_cast<std::uint16_t>(sign | bits);
}

float from_small_float(Datatype datatype, std::uint16_t bits) {
  const Format format = format_of(datatype);
  const int exponent = (bits & ~kSign) >> format.fraction_bits;
  const int fraction = bits & ((1 << format.fraction_bits) - 1);
  const float sign = (bits & kSign) != 0 ? -1.0F : 1.0F;
  if (exponent == format.exponent_max()) {
    return sign * (fraction == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN());
  }
  const int units = exponent == 0 ? fraction : fraction + (1 << format.fraction_bits);
  const int of_last_place = std::max(exponent, 1) - format.bias() - format.fraction_bits;
  return sign * std::ldexp(static_cast<float>(units), of_last_place);
}

}  // namespace tangram::serve
