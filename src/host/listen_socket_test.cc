#include "host/listen_socket.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
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

// The reason is that of the call that failed, here bind(): the folder does not exist.
TEST(ListenSocket, SaysWhyAPathCannotBeBound) {
  const std::string path = testing::TempDir() + "listen_socket_test_no_such_folder/socket";
  const auto socket = listen_at_path(path);
  ASSERT_FALSE(socket);
  EXPECT_EQ(socket.error().code, ErrorCode::unavailable);
  EXPECT_EQ(socket.error().message, "cannot listen at " + path + ": No such file or directory");
}

// A socket that no server listens on is replaced; one with a server is an error, and so is any other kind of file.
TEST(ListenSocket, ReplacesOnlyASocketThatNoServerUses) {
  const std::string path = testing::TempDir() + "listen_socket_test_" + std::to_string(getpid());
  const auto first = listen_at_path(path);
  ASSERT_TRUE(first);
  const auto second = listen_at_path(path);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().message, path + ": another server listens on this socket");
  close(*first);
  const auto third = listen_at_path(path);
  ASSERT_TRUE(third);
  close(*third);
  unlink(path.c_str());
  std::ofstream(path) << "text";
  const auto fourth = listen_at_path(path);
  ASSERT_FALSE(fourth);
  EXPECT_EQ(fourth.error().message, path + ": exists and is not a socket");
  unlink(path.c_str());
}

}  // namespace
}  // namespace tangram::host
