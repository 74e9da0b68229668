#include "client/offline_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/test_listener.h"

namespace tangram::client {
namespace {

using namespace std::chrono_literals;

RowClientConfig config_for(const test::Listener& listener) {
  return {.address = listener.endpoint().address,
          .port = listener.endpoint().port,
          .path = "/v2/models/rank/infer",
          .headers = {"X-Team: a"},
          .key = "secret"};
}

// The answers to the rows under way; at least one.
std::vector<RowAnswer> next_answers(RowClient& client) {
  for (int tries = 0; tries < 1000; ++tries) {
    if (auto answers = client.wait(30ms); !answers.empty()) return answers;
  }
  return {};
}

// The head of a request, up to the blank line.
std::string hear_head(const test::Peer& peer) {
  std::string heard;
  while (!heard.ends_with("\r\n\r\n")) {
    const std::string byte = peer.hear(1);
    if (byte.empty()) break;
    heard += byte;
  }
  return heard;
}

TEST(RowClient, TakesChunkedAnswersOverIpv6OnOneConnection) {
  const test::Listener listener({.address = "::1"});
  if (!listener.open()) GTEST_SKIP() << "no IPv6 here";
  RowClient client(config_for(listener));
  ASSERT_TRUE(client.send(1, "{}", "Tangram-Background: 1"));
  const test::Peer peer = listener.accept();
  const std::string head = hear_head(peer);
  EXPECT_THAT(head, testing::StartsWith("POST /v2/models/rank/infer HTTP/1.1\r\n"));
  for (const char* field : {"Host: [::1]:", "X-Team: a\r\n", "Authorization: Bearer secret\r\n",
                            "Content-Length: 2\r\n", "Tangram-Background: 1\r\n"}) {
    EXPECT_THAT(head, testing::HasSubstr(field));
  }
  EXPECT_EQ(peer.hear(2), "{}");
  peer.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{\"a\r\n4\r\n\":1}\r\n0\r\n\r\n");
  const auto first = next_answers(client);
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].status, 200);
  EXPECT_EQ(first[0].body, R"({"a":1})");
  EXPECT_EQ(client.under_way(), 0U);
  ASSERT_TRUE(client.send(2, "{}", ""));
  hear_head(peer);
  peer.say("HTTP/1.1 429 Too Many Requests\r\nRetry-After: 2\r\nContent-Length: 0\r\n\r\n");
  const auto second = next_answers(client);
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(second[0].row, 2U);
  EXPECT_EQ(second[0].status, 429);
  EXPECT_EQ(second[0].retry_after, 2s);
}

TEST(RowClient, ReportsALostConnectionAsAnAnswerAndOpensAnother) {
  const test::Listener listener;
  RowClient client(config_for(listener));
  ASSERT_TRUE(client.send(1, "{}", ""));
  {
    const test::Peer peer = listener.accept();
    hear_head(peer);
    EXPECT_EQ(peer.hear(2), "{}");
  }
  const auto lost = next_answers(client);
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost[0].status, 0);
  EXPECT_EQ(lost[0].body, "the connection was closed");
  ASSERT_TRUE(client.send(1, "{}", ""));
  const test::Peer peer = listener.accept();
  hear_head(peer);
  peer.say("HTTP/1.1 200 OK\r\nInference-Header-Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x");
  const auto answered = next_answers(client);
  ASSERT_EQ(answered.size(), 1U);
  EXPECT_TRUE(answered[0].binary);
}

// The end of an idle connection is no answer to anything.
TEST(RowClient, ForgetsIdleConnectionsThatTheServerCloses) {
  const test::Listener listener;
  RowClient client(config_for(listener));
  ASSERT_TRUE(client.send(1, "{}", ""));
  {
    const test::Peer peer = listener.accept();
    hear_head(peer);
    EXPECT_EQ(peer.hear(2), "{}");
    peer.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
    EXPECT_EQ(next_answers(client).size(), 1U);
  }
  EXPECT_TRUE(client.wait(30s).empty());  // Returns as soon as the end is seen.
  EXPECT_EQ(client.under_way(), 0U);
  ASSERT_TRUE(client.send(2, "{}", ""));
  EXPECT_EQ(client.under_way(), 1U);
}

TEST(RowClient, SaysThatNobodyListens) {
  RowClientConfig config{.path = "/"};
  config.address = "tangram.invalid";
  EXPECT_THAT(RowClient(config).send(1, "", "").error().message,
              testing::HasSubstr("the machine \"tangram.invalid\" is not known: "));
  config.address = "127.0.0.1";
  {
    const test::Listener listener;
    config.port = listener.endpoint().port;
  }
  const auto refused = RowClient(config).send(1, "", "");
  EXPECT_EQ(refused.error().code, ErrorCode::unavailable);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("cannot connect: Connection refused"));
}

}  // namespace
}  // namespace tangram::client
