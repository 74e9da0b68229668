#include "host/resolve.h"

#include <gtest/gtest.h>

namespace tangram::host {
namespace {

TEST(Resolve, TakesNumbersAsTheyAre) {
  EXPECT_EQ(*resolve_host("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(*resolve_host("::1"), "::1");
}

TEST(Resolve, KnowsThisMachine) {
  const auto found = resolve_host("localhost");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_TRUE(*found == "127.0.0.1" || *found == "::1") << *found;
}

TEST(Resolve, TakesBracketsOff) {
  EXPECT_EQ(*addresses_of("[::1]"), std::vector<std::string>{"::1"});
  EXPECT_FALSE(addresses_of("[localhost]"));
  EXPECT_FALSE(addresses_of("[]"));
}

// RFC 6761 reserves `.invalid` for names that nobody has.
TEST(Resolve, SaysThatANameIsNotKnown) {
  EXPECT_FALSE(resolve_host(""));
  EXPECT_FALSE(resolve_host("tangram.invalid"));
}

}  // namespace
}  // namespace tangram::host
