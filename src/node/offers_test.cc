#include "node/offers.h"

#include <gtest/gtest.h>

namespace tangram::node {
namespace {

TEST(Offers, SlicesHaveNumbersOrTheirUuid) {
  const auto board = parse_slices("2x1g.10gb,3g.40gb, MIG-4a2:1g.10gb");
  ASSERT_TRUE(board);
  ASSERT_EQ(board->slices.size(), 4u);
  EXPECT_EQ(board->slices[1], (OfferedSlice{"1", "1g.10gb", -1}));
  EXPECT_EQ(board->slices[2], (OfferedSlice{"2", "3g.40gb", -1}));
  EXPECT_EQ(board->slices[3], (OfferedSlice{"MIG-4a2", "1g.10gb", -1}));
  EXPECT_FALSE(board->whole);
}

TEST(Offers, ThatMakeNoSenseAreErrors) {
  for (const char* text : {"", ",", "9g.10gb", "0x1g.10gb", "-1x1g.10gb", "300x1g.10gb", "200x1g.10gb,200x1g.10gb",
                           "MIG-4a2", "x1g.10gb", "1g.10gb 2g.20gb"}) {
    EXPECT_FALSE(parse_slices(text)) << text;
  }
  for (const char* text : {"", "=a100-80gb", "a1000", "n=", "cpu"}) EXPECT_FALSE(parse_device(text)) << text;
}

TEST(Offers, DevicesMayHaveTheNameThatThePlanGivesThem) {
  const auto board = parse_device("rack1-0=a100-80gb");
  ASSERT_TRUE(board);
  EXPECT_EQ(board->name, "rack1-0");
  EXPECT_EQ(board->type, "a100-80gb");
  EXPECT_TRUE(board->whole);
  EXPECT_TRUE(parse_device("h100-80gb")->name.empty());
}

TEST(Offers, TheHostHasTheCoresOfThisProcess) {
  const auto board = host_board();
  EXPECT_EQ(board.type, "cpu");
  EXPECT_GE(board.cores, 1);
  EXPECT_TRUE(board.whole);
}

}  // namespace
}  // namespace tangram::node
