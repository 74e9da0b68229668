#include "serve/proto_wire.h"

#include <gtest/gtest.h>

namespace tangram::serve {
namespace {

// Field 1 is 300 (ac 02), field 2 the bytes "ab", field 3 a fixed 64, field 4 a fixed 32.
TEST(ProtoWire, ReadsEachKindOfField) {
  const std::string message(
      "\x08\xac\x02\x12\x02"
      "ab\x19\x01\0\0\0\0\0\0\0\x25\x02\0\0\0",
      21);
  ProtoReader reader(message);
  ProtoField field;
  ASSERT_TRUE(reader.next(field));
  EXPECT_TRUE(field.is(1, ProtoType::varint));
  EXPECT_EQ(field.value, 300u);
  ASSERT_TRUE(reader.next(field));
  EXPECT_TRUE(field.is_bytes(2));
  EXPECT_EQ(field.bytes, "ab");
  ASSERT_TRUE(reader.next(field));
  EXPECT_TRUE(field.is(3, ProtoType::fixed64));
  ASSERT_TRUE(reader.next(field));
  EXPECT_TRUE(field.is(4, ProtoType::fixed32));
  EXPECT_EQ(field.value, 2u);
  EXPECT_FALSE(reader.next(field));
  EXPECT_TRUE(reader.good());
}

// Cut anywhere but between fields, a message is malformed; so are field 0, groups and varints that do not end.
TEST(ProtoWire, NoticesWhatIsMalformed) {
  const auto good = [](std::string_view message) {
    ProtoReader reader(message);
    ProtoField field;
    while (reader.next(field)) continue;
    return reader.good();
  };
  const std::string message(
      "\x08\xac\x02\x12\x02"
      "ab",
      7);
  for (std::size_t cut = 0; cut <= message.size(); ++cut) {
    EXPECT_EQ(good(std::string_view(message).substr(0, cut)), cut == 0 || cut == 3 || cut == 7) << cut;
  }
  EXPECT_FALSE(good(std::string("\0\1", 2)));
  EXPECT_FALSE(good("\x0b\x0c"));
  EXPECT_FALSE(good(std::string(1, '\x08') + std::string(11, '\xff')));
  EXPECT_FALSE(good("\x12\xff\xff\xff\xff\xff\xff\xff\xff\x7f"));
}

TEST(ProtoWire, WritesWhatItReads) {
  std::string message;
  ProtoWriter writer(message);
  writer.number(1, 300);
  writer.number(2, 0);
  writer.text(3, "");
  writer.bytes(4, "");
  writer.text(5, "abc");
  EXPECT_EQ(message, std::string("\x08\xac\x02\x22\0\x2a\x03"
                                 "abc",
                                 10));
  EXPECT_EQ(count_varints("\x01\xac\x02\x03"), 3u);
}

}  // namespace
}  // namespace tangram::serve
