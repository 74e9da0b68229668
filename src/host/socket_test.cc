#include "host/socket.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/time.h>
#include <sys/un.h>

#include "host/descriptor.h"

namespace tangram::host {
namespace {

TEST(Endpoint, IsWrittenAsAHostFieldHasIt) {
  EXPECT_EQ((Endpoint{.address = "10.0.0.1", .port = 80}.text()), "10.0.0.1:80");
  EXPECT_EQ((Endpoint{.address = "::1", .port = 80}.text()), "[::1]:80");
  EXPECT_EQ((Endpoint{.address = "::1", .port = 80, .socket_path = "/run/a.sock"}.text()), "/run/a.sock");
}

TEST(SocketAddress, KnowsBothFamiliesAndPaths) {
  const auto v4 = socket_address({.address = "127.0.0.1", .port = 8000});
  ASSERT_TRUE(v4);
  EXPECT_EQ(v4->family(), AF_INET);
  EXPECT_EQ(v4->length, sizeof(sockaddr_in));
  EXPECT_EQ(ntohs(reinterpret_cast<const sockaddr_in*>(v4->get())->sin_port), 8000);
  const auto v6 = socket_address({.address = "fe80::1", .port = 8000});
  ASSERT_TRUE(v6);
  EXPECT_EQ(v6->family(), AF_INET6);
  EXPECT_EQ(v6->length, sizeof(sockaddr_in6));
  EXPECT_EQ(ntohs(reinterpret_cast<const sockaddr_in6*>(v6->get())->sin6_port), 8000);
  const auto local = socket_address({.socket_path = "/run/a.sock"});
  ASSERT_TRUE(local);
  EXPECT_EQ(local->family(), AF_UNIX);
  EXPECT_STREQ(reinterpret_cast<const sockaddr_un*>(local->get())->sun_path, "/run/a.sock");
}

// 108 bytes are in the field, and one of them is the zero at the end.
TEST(SocketAddress, RefusesNamesAndPathsThatDoNotFit) {
  for (const char* text : {"", "localhost", "127.0.0", "127.0.0.1:80", "[::1]", "1.2.3.4.5"}) {
    EXPECT_FALSE(socket_address({.address = text})) << text;
    EXPECT_FALSE(is_numeric_address(text)) << text;
  }
  EXPECT_TRUE(socket_address({.socket_path = std::string(107, 'a')}));
  EXPECT_FALSE(socket_address({.socket_path = std::string(108, 'a')}));
}

TEST(SocketOptions, LimitWaitingInBothDirections) {
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  limit_waiting(socket.get(), std::chrono::milliseconds(2500));
  for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO}) {
    timeval limit{};
    socklen_t length = sizeof limit;
    ASSERT_EQ(getsockopt(socket.get(), SOL_SOCKET, option, &limit, &length), 0);
    EXPECT_EQ(limit.tv_sec, 2);
    EXPECT_EQ(limit.tv_usec, 500'000);
  }
}

TEST(SocketOptions, SendWithoutDelay) {
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  send_without_delay(socket.get());
  int on = 0;
  socklen_t length = sizeof on;
  ASSERT_EQ(getsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, &length), 0);
  EXPECT_EQ(on, 1);
}

}  // namespace
}  // namespace tangram::host
