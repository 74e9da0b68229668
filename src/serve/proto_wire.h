// The wire format of Protobuf, read in place and written without objects.
//
// A message of inference is mostly tensors. Read in place, it takes no memory beyond its own bytes, whatever it holds;
// generated code would make an object of each of a million empty fields. Other messages are small and use generated
// code.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tangram::serve {

enum class ProtoType : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

// One field as it stands in the message.
struct ProtoField {
  std::uint32_t number = 0;
  ProtoType type = ProtoType::varint;
  std::uint64_t value = 0;      // Of numbers, ...
  std::string_view bytes = {};  // ... and of everything else.

  bool is(std::uint32_t which, ProtoType wanted) const { return number == which && type == wanted; }
  bool is_bytes(std::uint32_t which) const { return is(which, ProtoType::bytes); }
};

// The fields of a message, one after the other. Groups, which proto3 does not have, count as malformed.
class ProtoReader {
 public:
  explicit ProtoReader(std::string_view message) : at_(message.data()), end_(message.data() + message.size()) {}

  // The next field; false at the end and when the rest is malformed.
  bool next(ProtoField& field);
  // The next varint of a packed field; false at the end and when the rest is malformed.
  bool next_varint(std::uint64_t& value);
  // Nothing was malformed so far.
  bool good() const { return good_; }

 private:
  bool fail() {
    good_ = false;
    return false;
  }

  const char* at_;
  const char* end_;
  bool good_ = true;
};

// How many varints a packed field holds, and none of them is read.
std::size_t count_varints(std::string_view packed);

// Appends fields to a message. Empty texts and zeros are left out, as proto3 has it.
class ProtoWriter {
 public:
  explicit ProtoWriter(std::string& out) : out_(out) {}

  void varint(std::uint64_t value);
  void number(std::uint32_t field, std::uint64_t value);
  void text(std::uint32_t field, std::string_view value) {
    if (!value.empty()) bytes(field, value);
  }
  // Also where it is empty: an element of a repeated field, or a message.
  void bytes(std::uint32_t field, std::string_view value);
  // The head of a field of `size` bytes, which the caller appends.
  void bytes_follow(std::uint32_t field, std::size_t size);

 private:
  void tag(std::uint32_t field, ProtoType type) { varint(field << 3 | static_cast<std::uint32_t>(type)); }

  std::string& out_;
};

}  // namespace tangram::serve
