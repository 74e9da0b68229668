#include "client/http_answer.h"

#include <gtest/gtest.h>

#include <string>

namespace tangram::client {
namespace {

using namespace std::chrono_literals;
using State = HttpAnswerReader::State;

// The reader after `text` came whole, and after it came byte by byte: both must agree.
State read_both_ways(const std::string& text, HttpAnswerReader& reader, HttpAnswerLimits limits = {}) {
  reader = HttpAnswerReader(limits);
  HttpAnswerReader slow(limits);
  for (const char c : text) {
    if (slow.state() == State::reading) slow.feed({&c, 1});
  }
  reader.feed(text);
  EXPECT_EQ(slow.state(), reader.state()) << text;
  EXPECT_EQ(slow.body(), reader.body()) << text;
  EXPECT_EQ(slow.status(), reader.status()) << text;
  return reader.state();
}

TEST(HttpAnswer, EndsAfterItsLength) {
  HttpAnswerReader reader;
  ASSERT_EQ(read_both_ways("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nRetry-After: 2\r\n\r\nhello", reader),
            State::complete);
  EXPECT_EQ(reader.status(), 200);
  EXPECT_EQ(reader.body(), "hello");
  EXPECT_EQ(reader.head(), "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nRetry-After: 2\r\n");
  EXPECT_TRUE(reader.keep_alive());
  EXPECT_EQ(reader.retry_after(), 2s);
  EXPECT_FALSE(reader.json_length());
}

// 5 + 6 bytes in two chunks, with an extension and a trailer that say nothing to us.
TEST(HttpAnswer, EndsWithItsLastChunk) {
  HttpAnswerReader reader;
  ASSERT_EQ(read_both_ways("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n6;x=1\r\n world\r\n0\r\n"
                           "Trailer: 1\r\n\r\n",
                           reader),
            State::complete);
  EXPECT_EQ(reader.body(), "hello world");
}

TEST(HttpAnswer, EndsWithTheConnectionWhereTheServerClosesAndGivesNoLength) {
  HttpAnswerReader reader;
  for (const char* head : {"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\n"}) {
    EXPECT_EQ(read_both_ways(std::string(head) + "hello", reader), State::reading);
    EXPECT_EQ(reader.end(), State::complete);
    EXPECT_EQ(reader.body(), "hello");
    EXPECT_FALSE(reader.keep_alive());
  }
}

// A server that was asked to close may leave the field out.
TEST(HttpAnswer, EndsWithTheConnectionWhereTheRequestAskedForThat) {
  HttpAnswerReader reader;
  reader.begin(true);
  EXPECT_EQ(reader.feed("HTTP/1.1 200 OK\r\n\r\nhello"), State::reading);
  EXPECT_EQ(reader.end(), State::complete);
}

TEST(HttpAnswer, IsEmptyWhereAKeptConnectionGivesNoLength) {
  HttpAnswerReader reader;
  EXPECT_EQ(read_both_ways("HTTP/1.1 200 OK\r\n\r\n", reader), State::complete);
  EXPECT_EQ(reader.body(), "");
}

TEST(HttpAnswer, IsNotCompleteIfTheConnectionEndsTooSoon) {
  HttpAnswerReader reader;
  for (const char* text : {"", "HTTP/1.1 20", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhell",
                           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"}) {
    EXPECT_EQ(read_both_ways(text, reader), State::reading);
    EXPECT_EQ(reader.end(), State::reading) << text;
    EXPECT_EQ(reader.anything(), *text != '\0');
  }
}

TEST(HttpAnswer, IsGarbledIfItIsNotOneOfHttp) {
  HttpAnswerReader reader;
  for (const char* text :
       {"SSH-2.0-OpenSSH_9.2\r\n\r\n", "HTTP/2 200 OK\r\n\r\n", "HTTP/1.1 2x0 OK\r\n\r\n", "HTTP/1.1 20\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno field\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfive\r\n"}) {
    EXPECT_EQ(read_both_ways(text, reader), State::garbled) << text;
  }
}

TEST(HttpAnswer, IsGarbledIfBytesComeBehindIt) {
  HttpAnswerReader reader;
  EXPECT_EQ(reader.feed("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello!"), State::garbled);
  reader.begin();
  EXPECT_EQ(reader.feed("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n!"), State::garbled);
}

// Limits of 64 bytes for the head and 4 for the body.
TEST(HttpAnswer, IsTooLongBeyondItsLimits) {
  const HttpAnswerLimits limits{.head_max = 64, .body_max = 4};
  HttpAnswerReader reader;
  const std::string ok = "HTTP/1.1 200 OK\r\n";
  EXPECT_EQ(read_both_ways(ok + "Content-Length: 4\r\n\r\nfour", reader, limits), State::complete);
  EXPECT_EQ(read_both_ways(ok + "Content-Length: 5\r\n\r\n", reader, limits), State::too_long);
  EXPECT_EQ(read_both_ways(ok + "Transfer-Encoding: chunked\r\n\r\n5\r\n", reader, limits), State::too_long);
  EXPECT_EQ(read_both_ways(ok + "X: " + std::string(64, 'x'), reader, limits), State::too_long);
  reader = HttpAnswerReader(limits);
  EXPECT_EQ(reader.feed(ok + "Connection: close\r\n\r\n12345"), State::too_long);
}

TEST(HttpAnswer, ReadsRetryAfterWithinReason) {
  const auto retry_after = [](const std::string& value) {
    HttpAnswerReader reader;
    EXPECT_EQ(reader.feed("HTTP/1.1 429 Too Many Requests\r\nretry-after: " + value + "\r\n\r\n"), State::complete);
    return reader.retry_after();
  };
  EXPECT_EQ(retry_after("0.5"), 500ms);
  EXPECT_EQ(retry_after("86400"), 1h);
  for (const char* value : {"0", "-1", "Wed, 21 Oct 2026 07:28:00 GMT", "nan", ""}) EXPECT_FALSE(retry_after(value));
}

TEST(HttpAnswer, ReadsSeveralOnOneConnection) {
  HttpAnswerReader reader;
  EXPECT_EQ(reader.feed("HTTP/1.1 503 Busy\r\nInference-Header-Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x"),
            State::complete);
  EXPECT_EQ(reader.json_length(), 2U);
  reader.begin();
  EXPECT_FALSE(reader.anything());
  EXPECT_EQ(reader.feed("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), State::complete);
  EXPECT_EQ(reader.status(), 200);
  EXPECT_EQ(reader.take_body(), "ok");
  EXPECT_FALSE(reader.json_length());
}

TEST(ErrorBody, IsReadAsTheProtocolWritesIt) {
  EXPECT_EQ(error_in(R"({"error":"no such model"})"), "no such model");
  for (const char* body : {"", "no", "[]", "{}", R"({"error":7})"}) EXPECT_FALSE(error_in(body)) << body;
}

}  // namespace
}  // namespace tangram::client
