#include "serve/client_stream.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

namespace tangram::serve {
namespace {

// Two connected sockets: the stream has the first, the test the second.
struct StreamPair {
  StreamPair() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets.data()), 0); }
  ~StreamPair() {
    if (sockets[1] >= 0) close(sockets[1]);
  }

  void hang_up() {
    close(sockets[1]);
    sockets[1] = -1;
  }
  // What the client side reads now; "" at the end of the connection, "blocked" if there is nothing.
  std::string heard() const {
    std::array<char, 64> buffer;
    const ssize_t count = recv(sockets[1], buffer.data(), buffer.size(), 0);
    return count < 0 ? "blocked" : std::string(buffer.data(), static_cast<std::size_t>(count));
  }

  std::array<int, 2> sockets{-1, -1};
};

TEST(ClientStream, MovesBytesWithTheResultsOfTheSystemCalls) {
  const StreamPair pair;
  ClientStream stream(pair.sockets[0], nullptr);
  std::array<char, 64> buffer;
  EXPECT_EQ(stream.receive(buffer.data(), buffer.size()), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_FALSE(stream.shaking_hands());
  EXPECT_EQ(send(pair.sockets[1], "GET", 3, 0), 3);
  EXPECT_EQ(stream.receive(buffer.data(), buffer.size()), 3);
  EXPECT_EQ(std::string(buffer.data(), 3), "GET");
  EXPECT_EQ(stream.send("HTTP"), 4);
  EXPECT_EQ(pair.heard(), "HTTP");
}

// A client that has gone gives EPIPE. Without MSG_NOSIGNAL the signal would end this program.
TEST(ClientStream, ReportsAClientThatHasGone) {
  StreamPair pair;
  ClientStream stream(pair.sockets[0], nullptr);
  pair.hang_up();
  EXPECT_EQ(stream.send("HTTP"), -1);
  EXPECT_EQ(errno, EPIPE);
  std::array<char, 64> buffer;
  EXPECT_EQ(stream.receive(buffer.data(), buffer.size()), 0);
}

// The client sees the end of the answer and can still send; closing twice is allowed.
TEST(ClientStream, EndsSendingBeforeReceiving) {
  const StreamPair pair;
  ClientStream stream(pair.sockets[0], nullptr);
  EXPECT_EQ(pair.heard(), "blocked");
  stream.end_sending();
  EXPECT_EQ(pair.heard(), "");
  EXPECT_EQ(send(pair.sockets[1], "rest", 4, 0), 4);
  std::array<char, 64> buffer;
  EXPECT_EQ(stream.receive_plain(buffer.data(), buffer.size()), 4);
  stream.close();
  EXPECT_FALSE(stream.is_open());
  stream.close();
}

}  // namespace
}  // namespace tangram::serve
