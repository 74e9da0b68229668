#include "host/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <memory>

#include "serve/gateway.h"

namespace tangram::serve {
namespace {

using testing::HasSubstr;
using testing::Not;

// What `use` writes to a log.
template <typename Use>
std::string logged(Use&& use) {
  std::array<int, 2> ends{};
  EXPECT_EQ(pipe(ends.data()), 0);
  {
    host::LogWriter log(ends[1]);
    use(log);
  }  // Everything is written when it goes.
  close(ends[1]);
  std::string text(4096, '\0');
  const ssize_t got = ::read(ends[0], text.data(), text.size());
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  close(ends[0]);
  return text;
}

// A pipe takes 64 KiB; nobody reads the rest of a megabyte. Without an end, this test would never end.
TEST(Log, EndsAlthoughNobodyReadsIt) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  {
    host::LogWriter log(ends[1]);
    for (int i = 0; i < 1024; ++i) log.write(std::string(1024, 'x'));
  }
  std::string text(1 << 20, '\0');
  EXPECT_GT(::read(ends[0], text.data(), text.size()), 0);
  close(ends[0]);
  close(ends[1]);
}

TEST(Log, WritesWhatItsLevelHolds) {
  const std::string text = logged([](host::LogWriter& log) {
    log.set_level(host::LogLevel::warning);
    log.write(host::LogLine(host::LogLevel::error, "one").text("reason", "a"));
    log.write(host::LogLine(host::LogLevel::warning, "two").text("reason", "a"));
    log.write(host::LogLine(host::LogLevel::info, "three").text("reason", "a"));
    log.set_level(host::LogLevel::info);
    log.write(host::LogLine(host::LogLevel::info, "four").text("reason", "a"));
    log.write(host::LogLine(host::LogLevel::requests, "five").text("reason", "a"));
  });
  EXPECT_THAT(text, HasSubstr(R"("event":"one")"));
  EXPECT_THAT(text, HasSubstr(R"("event":"two")"));
  EXPECT_THAT(text, Not(HasSubstr("three")));
  EXPECT_THAT(text, HasSubstr(R"("event":"four")"));
  EXPECT_THAT(text, Not(HasSubstr("five")));
}

// The level as the logging address leaves it after `body`, from `before`.
std::string level_after(const std::string& body, host::LogLevel before, int status = 200) {
  const std::vector<ServedModel> models;
  Gateway gateway(models, {});
  gateway.set_log_level(before);
  const auto handled = gateway.handle({Endpoint::logging, nullptr, {}}, body);
  const Reply& reply = std::get<Reply>(handled);
  EXPECT_EQ(reply.status, status) << reply.body;
  return std::string(to_string(gateway.log_level()));
}

TEST(Log, TakesItsLevelInOurWordsAndInTritons) {
  EXPECT_EQ(level_after(R"({"level":"error"})", host::LogLevel::info), "error");
  EXPECT_EQ(level_after(R"({"log_verbose_level":1})", host::LogLevel::info), "requests");
  EXPECT_EQ(level_after(R"({"log_verbose_level":0})", host::LogLevel::requests), "info");
  EXPECT_EQ(level_after(R"({"log_info":false})", host::LogLevel::requests), "warning");
  EXPECT_EQ(level_after(R"({"log_warning":false})", host::LogLevel::info), "error");
  EXPECT_EQ(level_after(R"({"log_info":true,"log_file":"x"})", host::LogLevel::error), "info");
  EXPECT_EQ(level_after("", host::LogLevel::warning), "warning");
  EXPECT_EQ(level_after(R"({"level":"loud"})", host::LogLevel::info, 400), "info");
  EXPECT_EQ(level_after("{", host::LogLevel::info, 400), "info");
}

}  // namespace
}  // namespace tangram::serve
