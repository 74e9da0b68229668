#include "host/listen_socket.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

namespace tangram::host {
namespace {

TEST(ListenSocket, SaysThatAPortIsTaken) {
  const auto socket = listen_at("127.0.0.1", 0, false);
  ASSERT_TRUE(socket);
  const std::uint16_t port = port_of(*socket);
  const auto again = listen_at("127.0.0.1", port, false);
  ASSERT_FALSE(again);
  EXPECT_NE(again.error().message.find("cannot listen at 127.0.0.1 port " + std::to_string(port)), std::string::npos);
  EXPECT_FALSE(listen_at("localhost", 0, false));
  close(*socket);
}

// A path of 108 bytes does not fit into a sockaddr_un, whose last byte ends the text.
TEST(ListenSocket, RefusesAPathThatIsTooLong) {
  const auto socket = listen_at_path("/" + std::string(107, 'a'));
  ASSERT_FALSE(socket);
  EXPECT_EQ(socket.error().code, ErrorCode::invalid);
}

}  // namespace
}  // namespace tangram::host
