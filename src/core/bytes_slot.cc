// Conversion between BYTES elements on the wire and slots of a fixed size.
//
// Lengths are written byte by byte in little-endian order, so the result does not depend on the machine. Everything
// from the wire is checked before it is used: lengths may be wrong or larger than the message.

#include "core/bytes_slot.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace tangram {
namespace {

constexpr std::size_t kLength = sizeof(std::uint32_t);

// Requires a length that fits into 32 bits; elements are at most kBytesElementMax long.
void append_length(std::size_t length, std::string& out) {
  const auto value = static_cast<std::uint32_t>(length);
  for (unsigned byte = 0; byte < kLength; ++byte) out += static_cast<char>((value >> (8 * byte)) & 0xff);
}

std::uint32_t length_at(const char* bytes) {
  std::uint32_t value = 0;
  for (unsigned byte = 0; byte < kLength; ++byte) {
    value |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[byte])) << (8 * byte);
  }
  return value;
}

}  // namespace

bool append_bytes_slot(std::string_view element, std::string& slots) {
  // Written as a subtraction on the constant side, so that it cannot overflow.
  if (element.size() > kBytesElementMax || slots.size() > kBytesSlotsMax - kBytesSlot) return false;
  append_length(element.size(), slots);
  slots += element;
  slots.append(kBytesElementMax - element.size(), '\0');
  return true;
}

std::string_view element_of_slot(const char* slot) {
  // The length is clamped: an engine may write anything into a slot, and a view must never leave it.
  return {slot + kLength, std::min<std::size_t>(length_at(slot), kBytesElementMax)};
}

std::string slots_to_wire(std::string_view slots) {
  std::string wire;
  // An incomplete slot at the end is ignored rather than read beyond its end.
  for (std::size_t at = 0; at + kBytesSlot <= slots.size(); at += kBytesSlot) {
    const std::string_view element = element_of_slot(slots.data() + at);
    append_length(element.size(), wire);
    wire += element;
  }
  return wire;
}

std::optional<std::string> wire_to_slots(std::string_view wire, std::string& slots) {
  while (!wire.empty()) {
    // Each test comes before the bytes it guards are read.
    if (wire.size() < kLength) return "its last element has no length";
    const std::size_t length = length_at(wire.data());
    wire.remove_prefix(kLength);
    if (length > wire.size()) return "an element is longer than what is left";
    if (!append_bytes_slot(wire.substr(0, length), slots)) {
      return length > kBytesElementMax ? "an element is longer than " + std::to_string(kBytesElementMax) + " bytes"
                                       : "there are too many elements";
    }
    wire.remove_prefix(length);
  }
  return std::nullopt;
}

}  // namespace tangram
