#include "serve/cross_site.h"

#include <gtest/gtest.h>

namespace tangram::serve {
namespace {

// Parses a request with these fields. The text outlives the head.
host::HttpHead head_with(const std::string& text) {
  host::HttpHead head;
  EXPECT_EQ(host::parse_http_head(text, 4096, head).kind, host::HttpHeadResult::Kind::complete);
  return head;
}

TEST(CrossSite, NumbersLocalhostAndAllowedNamesAreKnownHosts) {
  for (const char* host : {"127.0.0.1", "127.0.0.1:8002", "[::1]:8002", "localhost", "LocalHost:1"}) {
    EXPECT_TRUE(is_known_host(host, {})) << host;
  }
  for (const char* host :
       {"", "evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8002", "[::1", ":80"}) {
    EXPECT_FALSE(is_known_host(host, {"ops.example"})) << host;
  }
  EXPECT_TRUE(is_known_host("OPS.example:8002", {"ops.example"}));
}

TEST(CrossSite, PagesOfOtherSitesAreRefusedAndClientsThatAreNoBrowsersAreNot) {
  const std::string post = "POST /drain HTTP/1.1\r\nHost: 127.0.0.1:8002\r\n";
  const auto refused = [&](const std::string& fields, const std::vector<std::string>& origins = {}) {
    const std::string text = post + fields + "\r\n";
    return why_cross_site(head_with(text), origins).has_value();
  };
  EXPECT_FALSE(refused(""));
  EXPECT_FALSE(refused("Origin: http://127.0.0.1:8002\r\n"));
  EXPECT_FALSE(refused("Origin: http://127.0.0.1:8002\r\nSec-Fetch-Site: same-origin\r\n"));
  EXPECT_TRUE(refused("Origin: http://evil.example\r\n"));
  EXPECT_TRUE(refused("Origin: http://127.0.0.1:8003\r\n"));
  EXPECT_TRUE(refused("Origin: null\r\n"));
  EXPECT_TRUE(refused("Sec-Fetch-Site: cross-site\r\n"));
  EXPECT_TRUE(refused("Sec-Fetch-Site: same-site\r\n"));
  EXPECT_FALSE(refused("Origin: https://app.example\r\nSec-Fetch-Site: cross-site\r\n", {"https://app.example"}));
}

TEST(CrossSite, OnlyAllowedOriginsAreNamedInTheAnswer) {
  const std::string text = "GET /v2 HTTP/1.1\r\nHost: a\r\nOrigin: https://app.example\r\n\r\n";
  const auto head = head_with(text);
  const auto fields = [&](const std::string& origin) {
    return std::string(cors_fields(head, {{}, {origin}, {cors_answer_fields(origin)}}));
  };
  EXPECT_EQ(cors_fields(head, {}), "");
  EXPECT_EQ(fields("https://other.example"), "");
  EXPECT_NE(fields("*").find("Allow-Origin: *\r\n"), std::string::npos);
  EXPECT_NE(fields("https://app.example").find("Allow-Origin: https://app.example\r\nVary: Origin\r\n"),
            std::string::npos);
}

TEST(CrossSite, AnOriginHasASchemeAndAHostAndNothingElse) {
  for (const char* good : {"*", "https://app.example", "http://10.0.0.1:3000"}) EXPECT_TRUE(is_origin(good)) << good;
  for (const char* bad : {"", "app.example", "https://", "https://app.example/", "https://App.example", "a://b\r\nc"}) {
    EXPECT_FALSE(is_origin(bad)) << bad;
  }
}

}  // namespace
}  // namespace tangram::serve
