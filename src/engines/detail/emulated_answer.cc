// Computes an answer that depends on every element of a sample's input and on nothing else.
//
// Tests can thus detect a mixed-up sample, a wrong offset or a leak between samples without a real model. Padding is
// left out of the sums, so a sample has the same answer at any padded size and in any batch.
#include "engines/detail/emulated_answer.h"

#include <array>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "core/bytes_slot.h"

namespace tangram::engines {
namespace {

// The finaliser of SplitMix64: a bijection of 64 bits in which every input bit affects every output bit.
std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// An element of BYTES: sixteen hexadecimal digits.
void store_text(std::uint64_t bits, std::byte* at) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string slot;
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[(bits >> shift) & 15];
  append_bytes_slot(text, slot);
  std::memcpy(at, slot.data(), slot.size());
}

// Turns 64 bits into an ordinary number of the type, never NaN or infinity: fp32 and fp64 in [0, 1), half floats in
// [0.5, 1), whose exponent is fixed and whose mantissa is random.
void store(Datatype datatype, std::uint64_t bits, std::byte* at) {
  if (datatype == Datatype::bytes) return store_text(bits, at);
  switch (datatype) {
    case Datatype::fp32: {
      const float value = static_cast<float>(bits >> 40) * 0x1p-24f;
      std::memcpy(at, &value, sizeof value);
      return;
    }
    case Datatype::fp64: {
      const double value = static_cast<double>(bits >> 11) * 0x1p-53;
      std::memcpy(at, &value, sizeof value);
      return;
    }
    case Datatype::fp16: bits = 0x3800 | (bits >> 54); break;
    case Datatype::bf16: bits = 0x3f00 | (bits >> 57); break;
    case Datatype::boolean: bits &= 1; break;
    default: break;
  }
  std::memcpy(at, &bits, size_of(datatype));
}

// Large odd constants, so that an element and its position do not cancel out in the sum.
constexpr std::uint64_t kOuterStep = 0x9e3779b97f4a7c15ULL;
constexpr std::uint64_t kPlaceStep = 0xc2b2ae3d27d4eb4fULL;
constexpr std::uint64_t kInnerStep = 0x165667b19e3779f9ULL;

// Sums over one sample of the inputs: one per place of the variable axis, and one over all. Addition commutes, so the
// order of the elements is encoded by their position in mix().
struct Sums {
  std::span<std::uint64_t> by_place;
  std::uint64_t whole = 0;
};

// A BYTES element as one number; zero for an empty one, which is padding.
struct TextElement {
  std::array<char, kBytesSlot> slot;

  explicit operator std::uint64_t() const {
    std::uint64_t sum = 0;
    for (const char letter : element_of_slot(slot.data())) sum = mix(sum + static_cast<unsigned char>(letter) + 1);
    return sum;
  }
};

// Adds one sample of an input. Elements that equal the padding are left out, so padding changes nothing.
template <typename Element>
void add_elements(const TensorSpec& spec, std::int64_t size, const std::byte* data, Sums& sums) {
  // Elements are widened without a sign, and so is the padding.
  const auto padding = element_bits(spec.datatype, spec.pad);
  const TensorAxes axes = axes_of(spec, size);
  const bool variable = has_variable_axis(spec);
  for (std::int64_t o = 0; o < axes.outer; ++o) {
    for (std::int64_t p = 0; p < axes.length; ++p) {
      std::uint64_t place = static_cast<std::uint64_t>(o) * kOuterStep + static_cast<std::uint64_t>(p) * kPlaceStep;
      std::uint64_t sum = 0;
      for (std::int64_t i = 0; i < axes.inner; ++i, data += sizeof(Element), place += kInnerStep) {
        Element stored;
        std::memcpy(&stored, data, sizeof stored);
        const auto element = static_cast<std::uint64_t>(stored);
        if (variable && element == padding) continue;
        sum += mix(element + place);
      }
      sums.whole += sum;
      if (variable) sums.by_place[static_cast<std::size_t>(p)] += sum;
    }
  }
}

void add_input(const TensorSpec& spec, std::int64_t size, const std::byte* data, Sums& sums) {
  if (spec.datatype == Datatype::bytes) return add_elements<TextElement>(spec, size, data, sums);
  switch (size_of(spec.datatype)) {
    case 1: return add_elements<std::uint8_t>(spec, size, data, sums);
    case 2: return add_elements<std::uint16_t>(spec, size, data, sums);
    case 4: return add_elements<std::uint32_t>(spec, size, data, sums);
    default: return add_elements<std::uint64_t>(spec, size, data, sums);
  }
}

// An output with a variable axis depends, at each place, on that place of the inputs only, as a per-token model does.
void write_output(const TensorSpec& spec, std::int64_t size, const Sums& sums, std::byte* data) {
  const std::size_t width = size_of(spec.datatype);
  const TensorAxes axes = axes_of(spec, size);
  const bool variable = has_variable_axis(spec);
  for (std::int64_t o = 0; o < axes.outer; ++o) {
    for (std::int64_t p = 0; p < axes.length; ++p) {
      const std::uint64_t seed = variable ? sums.by_place[static_cast<std::size_t>(p)] : sums.whole;
      for (std::int64_t i = 0; i < axes.inner; ++i, data += width) {
        store(spec.datatype, mix(seed + static_cast<std::uint64_t>(o * axes.inner + i)), data);
      }
    }
  }
}

}  // namespace

void EmulatedAnswer::write(const Signature& signature, const BatchJob& job, const BatchMemory& memory) {
  for (std::int32_t sample = 0; sample < job.samples; ++sample) write_sample(signature, job, memory, sample);
}

void EmulatedAnswer::write_sample(const Signature& signature, const BatchJob& job, const BatchMemory& memory,
                                  std::int32_t sample) {
  by_place_.assign(static_cast<std::size_t>(job.size), 0);
  Sums sums{by_place_};
  const auto part = [&](std::span<std::byte> tensor) {
    return tensor.data() + tensor.size() / static_cast<std::size_t>(job.samples) * static_cast<std::size_t>(sample);
  };
  for (std::size_t i = 0; i < signature.inputs.size(); ++i) {
    add_input(signature.inputs[i], job.size, part(memory.inputs[i]), sums);
  }
  for (std::size_t i = 0; i < signature.outputs.size(); ++i) {
    write_output(signature.outputs[i], job.size, sums, part(memory.outputs[i]));
  }
}

}  // namespace tangram::engines
