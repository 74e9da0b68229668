// Fields are keys and values; a key is the number of the field and how long its value is.
#include "engines/onnx/protobuf.h"

#include <bit>

namespace tangram::engines {
namespace {

constexpr int kVarint = 0;
constexpr int kFixed64 = 1;
constexpr int kLengthDelimited = 2;
constexpr int kFixed32 = 5;

}  // namespace

void ProtoWriter::varint(std::uint64_t value) {
  while (value >= 0x80) {
    text_.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  text_.push_back(static_cast<char>(value));
}

void ProtoWriter::integer(int field, std::int64_t value) {
  key(field, kVarint);
  varint(static_cast<std::uint64_t>(value));
}

// Little endian, whatever this machine is.
void ProtoWriter::real(int field, float value) {
  key(field, kFixed32);
  const auto bits = std::bit_cast<std::uint32_t>(value);
  for (int shift = 0; shift < 32; shift += 8) text_.push_back(static_cast<char>(bits >> shift));
}

void ProtoWriter::bytes(int field, std::string_view value) {
  key(field, kLengthDelimited);
  varint(value.size());
  text_ += value;
}

std::optional<std::uint64_t> ProtoReader::varint() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
    const auto byte = static_cast<std::uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

std::optional<std::string_view> ProtoReader::take(std::uint64_t bytes) {
  if (bytes > rest_.size()) return std::nullopt;
  const std::string_view taken = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  return taken;
}

std::optional<ProtoField> ProtoReader::next() {
  if (rest_.empty() || damaged_) return std::nullopt;
  damaged_ = true;  // Until the whole field was read.
  const auto key = varint();
  if (!key || (*key >> 3) == 0 || (*key >> 3) > 0x1FFFFFFF) return std::nullopt;
  ProtoField field{.number = static_cast<int>(*key >> 3), .value = 0, .bytes = {}, .has_bytes = false};
  switch (static_cast<int>(*key & 7)) {
    case kVarint: {
      const auto value = varint();
      if (!value) return std::nullopt;
      field.value = *value;
      break;
    }
    case kFixed64:
      if (!take(8)) return std::nullopt;
      break;
    case kFixed32:
      if (!take(4)) return std::nullopt;
      break;
    case kLengthDelimited: {
      const auto length = varint();
      const auto bytes = length ? take(*length) : std::nullopt;
      if (!bytes) return std::nullopt;
      field.bytes = *bytes;
      field.has_bytes = true;
      break;
    }
    default: return std::nullopt;  // Groups are not in use any more.
  }
  damaged_ = false;
  return field;
}

}  // namespace tangram::engines
