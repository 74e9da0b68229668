// What a model takes and what it answers, in the words of the Open Inference Protocol.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tangram {

// The datatypes of the protocol. Elements of BYTES have lengths of their own, and inside slots of a fixed size.
enum class Datatype : std::uint8_t {
  boolean,
  uint8,
  uint16,
  uint32,
  uint64,
  int8,
  int16,
  int32,
  int64,
  fp16,
  bf16,
  fp32,
  fp64,
  bytes,
};

// "FP32"; nothing for a name that is none.
std::string_view to_string(Datatype datatype);
std::optional<Datatype> parse_datatype(std::string_view name);
// Bytes of one element; of BYTES, those of its slot (bytes_slot.h).
std::size_t size_of(Datatype datatype);
// Every datatype, in the order of the enumeration.
std::span<const Datatype> all_datatypes();

// An axis of a TensorSpec that is as long as the input is large.
inline constexpr std::int64_t kVariableAxis = -1;

// One tensor of a model, for one sample. In requests and batches an axis for the samples comes first.
struct TensorSpec {
  std::string name;
  Datatype datatype = Datatype::fp32;
  std::vector<std::int64_t> shape;  // kVariableAxis where it grows with the input.
  double pad = 0;                   // Of an input: the value of elements that only fill it up to its bucket.
  bool mask = false;                // Of an input: 1 where an element is real and 0 where it is padding. Clients may
                                    // leave it out; then it is made for them.

  bool operator==(const TensorSpec&) const = default;
};

// The inputs and outputs of a model, in the order in which engines see them.
struct Signature {
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;

  bool operator==(const Signature&) const = default;
};

// What a service has whose file says nothing about tensors: one input and one output of 32-bit numbers, the input as
// long as it likes.
const Signature& default_signature();

// Elements of one sample of the tensor whose variable axes are `size` long; nothing if they are more than an int64
// counts.
std::optional<std::int64_t> elements_of(const TensorSpec& spec, std::int64_t size);
// The same in bytes, of a fixed-size datatype.
std::optional<std::int64_t> bytes_of(const TensorSpec& spec, std::int64_t size);
bool has_variable_axis(const TensorSpec& spec);

// `value` as the bits of one element, in the low bytes: rounded to the nearest for numbers with a point, cut to whole
// numbers and to the width of the type otherwise. Zero for BYTES.
std::uint64_t element_bits(Datatype datatype, double value);

// A tensor of one sample as places along its variable axis: `outer` blocks of `length` places with `inner` elements
// each. Without a variable axis there is one place.
struct TensorAxes {
  std::int64_t outer = 1;
  std::int64_t length = 1;
  std::int64_t inner = 1;
};
TensorAxes axes_of(const TensorSpec& spec, std::int64_t size);

}  // namespace tangram
