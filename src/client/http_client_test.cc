#include "client/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "client/test_listener.h"

namespace tangram::client {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// Asks a server that says `told` to whoever connects, and hangs up.
Result<HttpAnswer> ask_server_that_says(const std::string& told, const host::Endpoint& place = {},
                                        HttpStage* reached = nullptr) {
  const test::Listener listener(place);
  std::thread server([&] {
    const test::Peer peer = listener.accept();
    peer.hear(4);  // "GET "; the rest lies in the socket.
    peer.say(told);
    ::shutdown(peer.descriptor(), SHUT_WR);
    peer.hear(1 << 20);  // Until the client closes: an early close would reset what it has not read.
  });
  const host::Endpoint& endpoint = listener.endpoint();
  auto answer = ask_http(
      {.address = endpoint.address, .port = endpoint.port, .timeout = 30s, .socket_path = endpoint.socket_path},
      reached);
  server.join();
  return answer;
}

TEST(AskHttp, TakesAnswersOfEveryFraming) {
  for (const char* framed : {"Content-Length: 5\r\n\r\nhello", "\r\nhello", "Connection: close\r\n\r\nhello",
                             "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"}) {
    const auto answer = ask_server_that_says(std::string("HTTP/1.1 404 Not Found\r\n") + framed);
    ASSERT_TRUE(answer) << framed << ": " << answer.error().message;
    EXPECT_EQ(answer->status, 404);
    EXPECT_EQ(answer->body, "hello");
    EXPECT_THAT(answer->head, testing::StartsWith("HTTP/1.1 404 Not Found\r\n"));
  }
}

TEST(AskHttp, TalksOverAUnixSocket) {
  const std::string path = testing::TempDir() + "ask_http_" + std::to_string(getpid());
  const auto answer = ask_server_that_says("HTTP/1.1 200 OK\r\n\r\n", {.socket_path = path});
  std::filesystem::remove(path);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->status, 200);
}

TEST(AskHttp, TellsAnAnswerThatIsCutOffFromNone) {
  HttpStage reached = HttpStage::connecting;
  const auto cut = ask_server_that_says("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello", {}, &reached);
  ASSERT_FALSE(cut);
  EXPECT_THAT(cut.error().message, HasSubstr("incomplete answer: the connection was closed"));
  EXPECT_EQ(reached, HttpStage::asking);
  for (const char* told : {"", "220 smtp.example\r\n\r\n"}) {
    const auto other = ask_server_that_says(told);
    ASSERT_FALSE(other);
    EXPECT_THAT(other.error().message, HasSubstr("does not speak HTTP"));
  }
}

// The machine may have an IPv6 address, too, at which nobody listens.
TEST(AskHttp, TriesAllAddressesOfAName) {
  const test::Listener listener;
  std::thread server([&] {
    const test::Peer peer = listener.accept();
    peer.hear(4);
    peer.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    ::shutdown(peer.descriptor(), SHUT_WR);
    peer.hear(1 << 20);
  });
  const auto answer = ask_http({.address = "localhost", .port = listener.endpoint().port, .timeout = 30s});
  server.join();
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->body, "ok");
}

TEST(AskHttp, SaysThatNobodyListens) {
  HttpStage reached = HttpStage::asking;
  HttpQuestion question{.address = "tangram.invalid", .port = 1};
  EXPECT_THAT(ask_http(question, &reached).error().message,
              HasSubstr("tangram.invalid:1: the machine \"tangram.invalid\" is not known: "));
  EXPECT_EQ(reached, HttpStage::connecting);
  question.address = "127.0.0.1";
  {
    const test::Listener listener;
    question.port = listener.endpoint().port;
  }
  EXPECT_THAT(ask_http(question).error().message, HasSubstr("cannot connect: Connection refused"));
}

}  // namespace
}  // namespace tangram::client
