#include "core/bytes_slot.h"

#include <gtest/gtest.h>

#include "core/tensor.h"

namespace tangram {
namespace {

using namespace std::string_literals;

// "ab", nothing, and "c" are 4 + 2 + 4 + 4 + 1 bytes on the wire and three slots inside.
TEST(BytesSlot, KeepsElementsOnTheirWayInAndOut) {
  const std::string wire = "\x02\0\0\0ab\0\0\0\0\x01\0\0\0c"s;
  std::string slots;
  ASSERT_EQ(wire_to_slots(wire, slots), std::nullopt);
  ASSERT_EQ(slots.size(), 3 * kBytesSlot);
  EXPECT_EQ(size_of(Datatype::bytes), kBytesSlot);
  EXPECT_EQ(element_of_slot(slots.data()), "ab");
  EXPECT_EQ(element_of_slot(slots.data() + kBytesSlot), "");
  EXPECT_EQ(slots.substr(kBytesSlot, kBytesSlot), std::string(kBytesSlot, '\0'));
  EXPECT_EQ(slots_to_wire(slots), wire);
}

TEST(BytesSlot, SaysWhatDoesNotFit) {
  std::string slots;
  EXPECT_EQ(wire_to_slots("\1\0\0", slots), "its last element has no length");
  EXPECT_EQ(wire_to_slots("\5\0\0\0abcd"s, slots), "an element is longer than what is left");
  std::string longest;
  ASSERT_TRUE(append_bytes_slot(std::string(kBytesElementMax, 'x'), longest));
  EXPECT_EQ(element_of_slot(longest.data()).size(), kBytesElementMax);
  EXPECT_EQ(wire_to_slots("\xfd\x03\0\0"s + std::string(1021, 'x'), slots), "an element is longer than 1020 bytes");
  // 64 MiB hold 65,536 slots; one empty element more is too many, though it takes four bytes of the message.
  slots.clear();
  EXPECT_EQ(wire_to_slots(std::string(4 * 65536, '\0'), slots), std::nullopt);
  EXPECT_EQ(wire_to_slots(std::string(4, '\0'), slots), "there are too many elements");
}

// A length that no one wrote is cut to the slot.
TEST(BytesSlot, NeverReadsBeyondASlot) {
  const std::string rubbish(kBytesSlot, '\xff');
  EXPECT_EQ(element_of_slot(rubbish.data()).size(), kBytesElementMax);
}

}  // namespace
}  // namespace tangram
