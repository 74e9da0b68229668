// The wire format of protobuf, as far as ONNX files need it: written and read without the library, because the files
// use five of its features.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tangram::engines {

// Builds one message.
class ProtoWriter {
 public:
  void integer(int field, std::int64_t value);
  void real(int field, float value);
  void bytes(int field, std::string_view value);
  void message(int field, const ProtoWriter& value) { bytes(field, value.text_); }
  const std::string& text() const { return text_; }

 private:
  void varint(std::uint64_t value);
  void key(int field, int wire) { varint((static_cast<std::uint64_t>(field) << 3) | static_cast<std::uint64_t>(wire)); }

  std::string text_;
};

// One field of a message. `value` is that of a number, `bytes` the content of a text or a message within.
struct ProtoField {
  int number = 0;
  std::uint64_t value = 0;
  std::string_view bytes;
  bool has_bytes = false;
};

// Walks the fields of a message in their order. Nothing is copied: fields refer to the text.
class ProtoReader {
 public:
  explicit ProtoReader(std::string_view text) : rest_(text) {}
  // The next field; nothing at the end, or where the text is damaged.
  std::optional<ProtoField> next();
  // True once next() has met a text that is no message.
  bool damaged() const { return damaged_; }

 private:
  std::optional<std::uint64_t> varint();
  std::optional<std::string_view> take(std::uint64_t bytes);

  std::string_view rest_;
  bool damaged_ = false;
};

}  // namespace tangram::engines
