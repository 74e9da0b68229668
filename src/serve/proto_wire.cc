// Tags, varints and lengths. Nothing here allocates, except the text that a writer appends to.

#include "serve/proto_wire.h"

#include <algorithm>
#include <cstring>

namespace tangram::serve {

bool ProtoReader::next_varint(std::uint64_t& value) {
  value = 0;
  if (at_ == end_) return false;
  // Ten bytes of seven bits hold 64; of the tenth, all but one bit fall off, as in every implementation.
  for (int shift = 0; shift < 70 && at_ != end_; shift += 7) {
    const auto byte = static_cast<std::uint8_t>(*at_++);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return true;
  }
  return fail();
}

bool ProtoReader::next(ProtoField& field) {
  std::uint64_t tag = 0;
  if (!next_varint(tag)) return false;
  if (tag > UINT32_MAX || tag >> 3 == 0) return fail();
  field.number = static_cast<std::uint32_t>(tag >> 3);
  field.type = static_cast<ProtoType>(tag & 7);
  const auto left = static_cast<std::size_t>(end_ - at_);
  switch (field.type) {
    case ProtoType::varint: return at_ != end_ ? next_varint(field.value) : fail();
    case ProtoType::bytes: {
      std::uint64_t size = 0;
      if (at_ == end_ || !next_varint(size) || size > static_cast<std::size_t>(end_ - at_)) return fail();
      field.bytes = {at_, static_cast<std::size_t>(size)};
      at_ += size;
      return true;
    }
    case ProtoType::fixed64:
      if (left < 8) return fail();
      std::memcpy(&field.value, at_, 8);
      at_ += 8;
      return true;
    case ProtoType::fixed32: {
      std::uint32_t value = 0;
      if (left < 4) return fail();
      std::memcpy(&value, at_, 4);
      field.value = value;
      at_ += 4;
      return true;
    }
  }
  return fail();
}

// Each varint has one byte without the highest bit: its last.
std::size_t count_varints(std::string_view packed) {
  return static_cast<std::size_t>(std::ranges::count_if(packed, [](char c) { return (c & '\x80') == 0; }));
}

void ProtoWriter::varint(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out_.push_back(static_cast<char>(value | 0x80));
  out_.push_back(static_cast<char>(value));
}

void ProtoWriter::number(std::uint32_t field, std::uint64_t value) {
  if (value == 0) return;
  tag(field, ProtoType::varint);
  varint(value);
}

void ProtoWriter::bytes(std::uint32_t field, std::string_view value) {
  bytes_follow(field, value.size());
  out_ += value;
}

void ProtoWriter::bytes_follow(std::uint32_t field, std::size_t size) {
  tag(field, ProtoType::bytes);
  varint(size);
}

}  // namespace tangram::serve
