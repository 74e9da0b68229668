#include "host/http_parser.h"

#include <gtest/gtest.h>

namespace tangram::host {
namespace {

using Kind = HttpHeadResult::Kind;

struct Parsed {
  HttpHeadResult result;
  HttpHead head;
};

// `text` must outlive what is returned.
Parsed parse(std::string_view text) {
  Parsed parsed;
  parsed.result = parse_http_head(text, 16 << 10, parsed.head);
  return parsed;
}

int refusal_of(std::string_view text) {
  const Parsed parsed = parse(text);
  return parsed.result.kind == Kind::refused ? parsed.result.refusal.status : 0;
}

TEST(HttpHead, IsReadWithItsFields) {
  const std::string text =
      "POST /v2/models/a/infer?x=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 12\r\nINFERENCE-Header-Content-Length:  7 "
      "\r\n\r\nbody";
  const Parsed parsed = parse(text);
  ASSERT_EQ(parsed.result.kind, Kind::complete);
  EXPECT_EQ(parsed.result.consumed, text.size() - 4);
  EXPECT_EQ(parsed.head.method, HttpMethod::post);
  EXPECT_EQ(parsed.head.path, "/v2/models/a/infer");
  EXPECT_EQ(parsed.head.query, "x=1");
  EXPECT_EQ(parsed.head.content_length, 12u);
  EXPECT_TRUE(parsed.head.keep_alive);
  EXPECT_EQ(parsed.head.find("inference-header-content-length"), "7");
  EXPECT_EQ(parsed.head.find("accept"), std::nullopt);
}

// Every proper prefix of a good head is the beginning of one.
TEST(HttpHead, WaitsForMoreAtEveryByte) {
  const std::string text = "GET /v2 HTTP/1.1\r\nHost: h\r\nAccept: */*\r\n\r\n";
  for (std::size_t n = 0; n < text.size(); ++n) {
    EXPECT_EQ(parse(std::string_view(text).substr(0, n)).result.kind, Kind::need_more) << n;
  }
  EXPECT_EQ(parse(text).result.kind, Kind::complete);
}

TEST(HttpHead, SaysWhetherTheConnectionStays) {
  EXPECT_FALSE(parse("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").head.keep_alive);
  EXPECT_FALSE(parse("GET / HTTP/1.0\r\n\r\n").head.keep_alive);
  EXPECT_TRUE(parse("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n").head.keep_alive);
  EXPECT_FALSE(parse("GET / HTTP/1.1\r\nHost: h\r\nConnection: TE, Close\r\n\r\n").head.keep_alive);
  EXPECT_FALSE(parse("GET / HTTP/1.0\r\nConnection: close, keep-alive\r\n\r\n").head.keep_alive);
  EXPECT_FALSE(
      parse("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nConnection: keep-alive\r\n\r\n").head.keep_alive);
}

// A client of HTTP/1.0 would take the interim answer for the last one.
TEST(HttpHead, PromisesToGoOnToThoseAloneWhoKnowWhatItMeans) {
  EXPECT_TRUE(parse("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n\r\n").head.expects_continue);
  const Parsed old = parse("POST / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(old.result.kind, Kind::complete);
  EXPECT_FALSE(old.head.http_1_1);
  EXPECT_FALSE(old.head.expects_continue);
}

TEST(HttpHead, TakesTheAbsoluteFormAndLinesLeftBehind) {
  EXPECT_EQ(parse("GET http://h:1/v2/x HTTP/1.1\r\nHost: h\r\n\r\n").head.path, "/v2/x");
  const std::string text = "\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n";
  EXPECT_EQ(parse(text).result.consumed, text.size());
}

// What two readers could understand differently.
TEST(HttpHead, RefusesWhatCouldSmuggleARequest) {
  EXPECT_EQ(refusal_of("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n"), 400);
  EXPECT_EQ(refusal_of("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
  EXPECT_EQ(refusal_of("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: +1\r\n\r\n"), 400);
  EXPECT_EQ(refusal_of("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1 2\r\n\r\n"), 400);
  EXPECT_EQ(refusal_of("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999\r\n\r\n"), 400);
  EXPECT_EQ(refusal_of("GET / HTTP/1.1\r\nHost: h\r\nContent-Length : 1\r\n\r\n"), 400);
  EXPECT_EQ(refusal_of("GET / HTTP/1.1\r\nHost: h\r\n folded: 1\r\n\r\n"), 400);
  EXPECT_EQ(refusal_of("GET / HTTP/1.1\r\nHost: h\nX: y\r\n\r\n"), 400);
  EXPECT_EQ(refusal_of("GET / HTTP/1.1\nHost: h\n\n"), 400);
  EXPECT_EQ(refusal_of("GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"), 501);
  EXPECT_EQ(refusal_of("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
  EXPECT_EQ(refusal_of("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), 400);
  EXPECT_EQ(refusal_of("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer b\r\nauthorization: Bearer b\r\n\r\n"), 400);
  EXPECT_EQ(refusal_of("GET / HTTP/1.1\r\nHost: a\r\nX-Api-Key: b\r\nx-api-key: c\r\n\r\n"), 400);
  EXPECT_EQ(refusal_of("GET / HTTP/1.1\r\nHost: a\r\nX-Api-Key: b\r\nAuthorization: c\r\n\r\n"), 0);
  EXPECT_EQ(refusal_of(std::string_view("GET / HTTP/1.1\r\nHost: h\r\nX: a\0b\r\n\r\n", 37)), 400);
}

TEST(HttpHead, RefusesWhatIsNoRequest) {
  EXPECT_EQ(refusal_of("GET /\r\n\r\n"), 400);
  EXPECT_EQ(refusal_of("GET / HTTP/2.0\r\n\r\n"), 505);
  EXPECT_EQ(refusal_of("G@T / HTTP/1.1\r\nHost: h\r\n\r\n"), 400);
  EXPECT_EQ(refusal_of("GET v2 HTTP/1.1\r\nHost: h\r\n\r\n"), 400);
  EXPECT_EQ(refusal_of("GET / HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(refusal_of("GET / HTTP/1.1\r\nHost: h\r\nExpect: tea\r\n\r\n"), 417);
  EXPECT_EQ(refusal_of("GET /" + std::string(9000, 'a') + " HTTP/1.1\r\nHost: h\r\n\r\n"), 414);
}

TEST(HttpHead, HasALimitForItsLengthAndItsFields) {
  HttpHead head;
  const std::string endless = "GET / HTTP/1.1\r\nHost: " + std::string(200, 'a');
  EXPECT_EQ(parse_http_head(endless, 100, head).refusal.status, 431);
  std::string many = "GET / HTTP/1.1\r\nHost: h\r\n";
  for (std::size_t i = 0; i < kHttpFieldsMax; ++i) many += "X: y\r\n";
  EXPECT_EQ(refusal_of(many + "\r\n"), 431);
}

TEST(Chunks, ComeInAnyPieces) {
  const std::string text =
      "4\r\nWiki\r\n6;name=value\r\npedia \r\nE\r\nin \r\n\r\nchunks.\r\n0\r\nTrailer: x\r\n\r\nNEXT";
  for (std::size_t piece = 1; piece <= text.size(); ++piece) {
    ChunkedReader reader;
    std::string body;
    std::size_t consumed = 0;
    for (std::size_t at = 0; at < text.size() && reader.state() == ChunkedReader::State::reading; at += piece) {
      const std::string_view part = std::string_view(text).substr(at, piece);
      consumed = at + reader.feed(part, body, 1000);
    }
    EXPECT_EQ(reader.state(), ChunkedReader::State::complete) << piece;
    EXPECT_EQ(body, "Wikipedia in \r\n\r\nchunks.");
    EXPECT_EQ(text.substr(consumed), "NEXT");
  }
}

TEST(Chunks, AreRefusedWhereTheyAreWrong) {
  const auto status = [](std::string_view text, std::uint64_t body_max = 100) {
    ChunkedReader reader;
    std::string body;
    reader.feed(text, body, body_max);
    EXPECT_LE(body.size(), body_max);
    return reader.state() == ChunkedReader::State::refused ? reader.refusal().status : 0;
  };
  EXPECT_EQ(status("x\r\n"), 400);
  EXPECT_EQ(status("\r\n"), 400);
  EXPECT_EQ(status("-1\r\n"), 400);
  EXPECT_EQ(status("1\nab"), 400);
  EXPECT_EQ(status("1\r\nabc"), 400);
  EXPECT_EQ(status("ffffffffffffffff\r\n"), 400);
  EXPECT_EQ(status("65\r\n"), 413);  // 0x65 = 101 bytes, one more than the limit.
  EXPECT_EQ(status("64\r\n" + std::string(100, 'a') + "\r\n1\r\n"), 413);
  EXPECT_EQ(status("1;" + std::string(2 << 20, 'x')), 400);
}

}  // namespace
}  // namespace tangram::host
