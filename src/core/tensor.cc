// Datatypes of the Open Inference Protocol: names, sizes and the bits of single elements.
//
// Narrow floating-point formats are converted by hand, because C++20 has no types for them. Both round to nearest,
// ties to even, as hardware does.

#include "core/tensor.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "core/bytes_slot.h"

namespace tangram {
namespace {

struct DatatypeInfo {
  Datatype datatype;
  std::string_view name;
  std::size_t size;
};

// In the order of the enumeration: info_of() indexes by it. BYTES elements have a slot of fixed size (bytes_slot.h).
constexpr std::array kDatatypes{
    DatatypeInfo{Datatype::boolean, "BOOL", 1},  DatatypeInfo{Datatype::uint8, "UINT8", 1},
    DatatypeInfo{Datatype::uint16, "UINT16", 2}, DatatypeInfo{Datatype::uint32, "UINT32", 4},
    DatatypeInfo{Datatype::uint64, "UINT64", 8}, DatatypeInfo{Datatype::int8, "INT8", 1},
    DatatypeInfo{Datatype::int16, "INT16", 2},   DatatypeInfo{Datatype::int32, "INT32", 4},
    DatatypeInfo{Datatype::int64, "INT64", 8},   DatatypeInfo{Datatype::fp16, "FP16", 2},
    DatatypeInfo{Datatype::bf16, "BF16", 2},     DatatypeInfo{Datatype::fp32, "FP32", 4},
    DatatypeInfo{Datatype::fp64, "FP64", 8},     DatatypeInfo{Datatype::bytes, "BYTES", kBytesSlot},
};

constexpr auto kAll = [] {
  std::array<Datatype, kDatatypes.size()> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = kDatatypes[i].datatype;
  return all;
}();

template <typename To, typename From>
To bits_as(From value) {
  static_assert(sizeof(To) == sizeof(From));
  return std::bit_cast<To>(value);
}

// Rounds to the nearest half-precision float, ties to even; values that are too large become infinite. A half has 5
// bits of exponent with bias 15 and 10 bits of fraction; a float has 8 with bias 127 and 23.
std::uint64_t half_bits(float value) {
  const auto bits = bits_as<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000;
  const std::uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;   // NaN.
  if (magnitude >= 0x47800000) return sign | 0x7c00;  // 65536 and beyond.
  if (magnitude < 0x38800000) {                       // Below 2^-14: counted in steps of 2^-24.
    // Subnormal halves: the result is the number of steps itself. Multiplying by a power of two is exact.
    const float steps = bits_as<float>(magnitude) * 0x1p24f;
    const auto whole = static_cast<std::uint32_t>(steps);
    const float rest = steps - static_cast<float>(whole);
    const bool up = rest > 0.5f || (rest == 0.5f && (whole & 1) != 0);
    return sign | (whole + (up ? 1 : 0));
  }
  // 0x38000000 is the difference of the biases, 112 << 23. Adding 0xfff and the last kept bit before the shift rounds
  // ties to even; a carry into the exponent is right, up to infinity.
  return sign | ((magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13);
}

// bfloat16 is the upper half of a float, so rounding is one addition. A NaN could lose all its fraction bits, so one
// is set.
std::uint64_t brain_bits(float value) {
  const auto bits = bits_as<std::uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return (bits >> 16) | 0x40;  // NaN stays one.
  return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}

const DatatypeInfo& info_of(Datatype datatype) { return kDatatypes[static_cast<std::size_t>(datatype)]; }

}  // namespace

std::string_view to_string(Datatype datatype) { return info_of(datatype).name; }

std::optional<Datatype> parse_datatype(std::string_view name) {
  const auto* const found = std::ranges::find(kDatatypes, name, &DatatypeInfo::name);
  if (found == kDatatypes.end()) return std::nullopt;
  return found->datatype;
}

std::size_t size_of(Datatype datatype) { return info_of(datatype).size; }

std::span<const Datatype> all_datatypes() { return kAll; }

// The plainest model: one input of any length, one number as its output. Built once, since many services share it.
const Signature& default_signature() {
  static const Signature signature{{{.name = "INPUT", .shape = {kVariableAxis}}}, {{.name = "OUTPUT", .shape = {1}}}};
  return signature;
}

// Sizes come from clients and shapes from files, so products are checked for overflow.
std::optional<std::int64_t> elements_of(const TensorSpec& spec, std::int64_t size) {
  std::int64_t count = 1;
  for (const std::int64_t axis : spec.shape) {
    if (__builtin_mul_overflow(count, axis == kVariableAxis ? size : axis, &count)) return std::nullopt;
  }
  return count;
}

std::optional<std::int64_t> bytes_of(const TensorSpec& spec, std::int64_t size) {
  auto count = elements_of(spec, size);
  const auto width = static_cast<std::int64_t>(size_of(spec.datatype));
  if (!count || __builtin_mul_overflow(*count, width, &*count)) return std::nullopt;
  return count;
}

TensorAxes axes_of(const TensorSpec& spec, std::int64_t size) {
  TensorAxes axes;
  bool found = false;
  for (const std::int64_t axis : spec.shape) {
    // Meant for at most one variable axis: axes before it are outer, axes after it inner.
    if (axis == kVariableAxis) {
      axes.length = size;
      found = true;
    } else {
      (found ? axes.inner : axes.outer) *= axis;
    }
  }
  // Without a variable axis the whole tensor is one place: all elements are inner.
  if (!found) std::swap(axes.outer, axes.inner);
  return axes;
}

std::uint64_t element_bits(Datatype datatype, double value) {
  switch (datatype) {
    case Datatype::fp16: return half_bits(static_cast<float>(value));
    case Datatype::bf16: return brain_bits(static_cast<float>(value));
    case Datatype::fp32: return bits_as<std::uint32_t>(static_cast<float>(value));
    case Datatype::fp64: return bits_as<std::uint64_t>(value);
    case Datatype::boolean: return value != 0 ? 1 : 0;
    case Datatype::bytes: return 0;
    default: break;
  }
  // Through the signed type, because converting a negative double to an unsigned type is undefined.
  const auto whole = static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
  const std::size_t width = size_of(datatype);
  return width == 8 ? whole : whole & ((std::uint64_t{1} << (8 * width)) - 1);
}

bool has_variable_axis(const TensorSpec& spec) {
  return std::ranges::find(spec.shape, kVariableAxis) != spec.shape.end();
}

}  // namespace tangram
