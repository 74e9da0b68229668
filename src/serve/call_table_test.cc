#include "serve/call_table.h"

#include <gtest/gtest.h>

namespace tangram::serve {
namespace {

// The second call takes the place of the first, but not its number: an answer to the first would not find the second.
TEST(CallTable, UsesPlacesAgainAndNumbersNever) {
  CallTable table;
  Call first;
  Call second;
  const RequestId one = table.add(&first);
  EXPECT_EQ(table.at(one), &first);
  EXPECT_EQ(table.take(one), &first);
  EXPECT_EQ(table.count(), 0u);
  const RequestId two = table.add(&second);
  EXPECT_NE(one, two);
  EXPECT_EQ(one.value() % kCallsMax, two.value() % kCallsMax);
  EXPECT_EQ(table.at(two), &second);
  EXPECT_EQ(table.count(), 1u);
}

TEST(CallTableDeathTest, AnswersNoCallTwice) {
  CallTable table;
  Call call;
  const RequestId request = table.add(&call);
  table.take(request);
  EXPECT_DEATH(table.take(request), "a call is answered once");
}

}  // namespace
}  // namespace tangram::serve
