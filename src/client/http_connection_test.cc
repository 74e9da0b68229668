#include "client/http_connection.h"

#include <gtest/gtest.h>

#include <optional>

#include "client/test_listener.h"

namespace tangram::client {
namespace {

using Event = HttpConnection::Event;

class HttpConnectionTest : public testing::Test {
 protected:
  HttpConnectionTest() { connect(); }
  void connect() {
    EXPECT_TRUE(connection_.stream().open({listener_.endpoint()}, StreamWaiting::connecting));
    peer_.emplace(listener_.accept());
  }
  // What the connection reports once the socket has something for it.
  Event next_event() {
    test::wait_for(connection_.stream().descriptor(), POLLIN);
    return connection_.on_ready(true, false);
  }

  test::Listener listener_;
  HttpConnection connection_{{.head_max = 1024, .body_max = 1024}};
  std::optional<test::Peer> peer_;
};

TEST_F(HttpConnectionTest, CarriesOneRequestAfterTheOther) {
  for (const std::string word : {"first", "later"}) {
    connection_.begin(word);
    EXPECT_TRUE(connection_.busy());
    EXPECT_EQ(connection_.write(), Event::none);
    EXPECT_FALSE(connection_.wants_write());
    EXPECT_EQ(peer_->hear(5), word);
    peer_->say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" + word);
    EXPECT_EQ(next_event(), Event::answered);
    EXPECT_FALSE(connection_.busy());
    EXPECT_EQ(connection_.answer().status(), 200);
    EXPECT_EQ(connection_.take_body(), word);
  }
}

// 64 MiB are more than the two sockets hold, so the rest goes out as the server reads.
TEST_F(HttpConnectionTest, SendsALongRequestAsTheServerTakesIt) {
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  connection_.begin(std::string(kBytes, 'x'));
  EXPECT_EQ(connection_.write(), Event::none);
  EXPECT_TRUE(connection_.wants_write());
  std::size_t heard = 0;
  while (heard < kBytes) {
    heard += peer_->hear_available();
    ASSERT_EQ(connection_.on_ready(false, true), Event::none);
  }
  EXPECT_EQ(heard, kBytes);
  EXPECT_FALSE(connection_.wants_write());
}

TEST_F(HttpConnectionTest, TellsALossUnderARequestFromAnEndWhileIdle) {
  peer_->hang_up();
  EXPECT_EQ(next_event(), Event::ended);
  connect();
  connection_.begin("question");
  EXPECT_EQ(connection_.write(), Event::none);
  EXPECT_EQ(peer_->hear(8), "question");
  peer_->hang_up();
  EXPECT_EQ(next_event(), Event::lost);
  EXPECT_FALSE(connection_.busy());
}

TEST_F(HttpConnectionTest, IsUselessOnceAnAnswerComesThatNobodyAskedFor) {
  peer_->say("HTTP/1.1 200 OK\r\n\r\n");
  EXPECT_EQ(next_event(), Event::ended);
}

TEST_F(HttpConnectionTest, ReportsAnswersThatAreGarbledOrTooLong) {
  for (const char* answer : {"220 smtp.example\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1025\r\n\r\n"}) {
    connect();
    connection_.begin("question");
    EXPECT_EQ(connection_.write(), Event::none);
    peer_->say(answer);
    EXPECT_EQ(next_event(), Event::garbled) << answer;
  }
}

TEST_F(HttpConnectionTest, TakesABodyThatEndsWithTheConnection) {
  connection_.begin("question");
  EXPECT_EQ(connection_.write(), Event::none);
  EXPECT_EQ(peer_->hear(8), "question");
  peer_->say("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall of it");
  peer_->hang_up();
  Event event = next_event();
  if (event == Event::none) event = next_event();
  EXPECT_EQ(event, Event::answered);
  EXPECT_EQ(connection_.answer().body(), "all of it");
  EXPECT_FALSE(connection_.answer().keep_alive());
}

TEST_F(HttpConnectionTest, SendsTheSameRequestOverANewConnection) {
  connection_.begin("question");
  EXPECT_EQ(connection_.write(), Event::none);
  EXPECT_EQ(peer_->hear(8), "question");
  connect();
  connection_.begin_again();
  EXPECT_EQ(connection_.write(), Event::none);
  EXPECT_EQ(peer_->hear(8), "question");
}

}  // namespace
}  // namespace tangram::client
