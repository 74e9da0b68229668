#include "serve/http_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tangram::serve {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

std::string written(const AnswerForm& form) {
  const HttpAnswerWriter writer(kTimeZero);
  std::string out;
  writer.write(out, form, Reply{200, kJsonType, "{}"});
  return out;
}

// HTTP/1.1 keeps connections unless told otherwise, HTTP/1.0 closes them unless told otherwise.
TEST(HttpAnswer, SaysWhatBecomesOfTheConnectionWhereThatIsNotTheRule) {
  EXPECT_THAT(written({}), Not(HasSubstr("Connection:")));
  EXPECT_THAT(written({.http_1_1 = false}), HasSubstr("\r\nConnection: keep-alive\r\n"));
  EXPECT_THAT(written({.keep_alive = false}), HasSubstr("\r\nConnection: close\r\n"));
}

TEST(HttpAnswer, HasTheLengthButNotTheBodyForHead) {
  EXPECT_THAT(written({}), testing::EndsWith("Content-Length: 2\r\n\r\n{}"));
  EXPECT_THAT(written({.head_only = true}), testing::EndsWith("Content-Length: 2\r\n\r\n"));
}

// 1.2 s are told as 2: a client that comes a moment too early is refused again.
TEST(HttpAnswer, RoundsTheTimeToTryAgainUp) {
  HttpAnswerWriter writer(kTimeZero);
  Call call;
  call.status = CallStatus::refused;
  call.error = "too many requests are queued";
  call.retry_after = 1200ms;
  std::string out;
  writer.write(out, {}, call);
  EXPECT_THAT(out, testing::StartsWith("HTTP/1.1 429 "));
  EXPECT_THAT(out, HasSubstr("\r\nRetry-After: 2\r\n"));
  EXPECT_THAT(out, testing::EndsWith(R"({"error":"too many requests are queued"})"));
}

}  // namespace
}  // namespace tangram::serve
