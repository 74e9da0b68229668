#include "serve/grpc_status.h"

#include <gtest/gtest.h>

namespace tangram::serve {
namespace {

using namespace std::chrono_literals;

TEST(GrpcStatus, ReadsTimeLimitsInEveryUnit) {
  EXPECT_EQ(parse_grpc_timeout("2H"), Duration(2h));
  EXPECT_EQ(parse_grpc_timeout("3M"), Duration(3min));
  EXPECT_EQ(parse_grpc_timeout("4S"), Duration(4s));
  EXPECT_EQ(parse_grpc_timeout("5m"), Duration(5ms));
  EXPECT_EQ(parse_grpc_timeout("6u"), Duration(6us));
  EXPECT_EQ(parse_grpc_timeout("00000007n"), Duration(7ns));
  EXPECT_GT(parse_grpc_timeout("99999999H"), Duration(1000h));  // More nanoseconds than 64 bits hold.
  for (const char* wrong : {"", "S", "5", "5s", "-5S", "5.0S", "123456789S", "5 S"}) {
    EXPECT_EQ(parse_grpc_timeout(wrong), std::nullopt) << wrong;
  }
}

// Percent signs, line ends and all beyond ASCII; a long message is cut rather than refused by the client.
TEST(GrpcStatus, EncodesMessagesAsTheProtocolWants) {
  EXPECT_EQ(percent_encoded("as it is: ~!"), "as it is: ~!");
  EXPECT_EQ(percent_encoded("100%\n\xc3\xa4"), "100%25%0A%C3%A4");
  EXPECT_EQ(percent_encoded(std::string(5000, 'a')).size(), 1024u);
}

}  // namespace
}  // namespace tangram::serve
