// Elements of BYTES tensors.
//
// On the wire each has a length of its own. Inside, each has a slot of one size, so that texts are padded, batched and
// cut as numbers are: four bytes that say how long it is, little-endian, the bytes, and zeros. An empty slot is zeros.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tangram {

inline constexpr std::size_t kBytesSlot = 1024;
inline constexpr std::size_t kBytesElementMax = kBytesSlot - 4;
// Of the slots of one request together: an empty element takes four bytes of a message and a slot here.
inline constexpr std::size_t kBytesSlotsMax = std::size_t{64} << 20;

// Appends the slot of `element`. False: it is too long, or there are too many.
bool append_bytes_slot(std::string_view element, std::string& slots);
// The element in a slot, as a view into it.
std::string_view element_of_slot(const char* slot);

// The wire form: one element after the other, each preceded by its length in four bytes; and back. wire_to_slots()
// returns what is wrong with the bytes, in words, or nullopt.
std::string slots_to_wire(std::string_view slots);
std::optional<std::string> wire_to_slots(std::string_view wire, std::string& slots);

}  // namespace tangram
