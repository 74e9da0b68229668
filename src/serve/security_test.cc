#include "serve/security.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "serve/test_calls.h"

namespace tangram::serve {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

std::string warning(const Security& security, const ListenAddresses& addresses) {
  const int file = memfd_create("log", 0);
  {
    host::LogWriter log(file);
    warn_of_openness(log, security, addresses);
  }
  const std::string text = test::written_to(file);
  close(file);
  return text;
}

TEST(Openness, IsNotWarnedOfOnThisMachineAlone) { EXPECT_THAT(warning({}, {"127.0.0.1", "::1"}), IsEmpty()); }

// Both interfaces at one address: one line, with what may be done at either.
TEST(Openness, IsWarnedOfOncePerAddress) {
  const std::string text = warning({}, {"0.0.0.0", "0.0.0.0"});
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_THAT(text, HasSubstr("anyone can use, load and unload every model, reload and stop the server"));
}

TEST(Openness, EndsWithTlsAndSomethingThatAsksWhoCalls) {
  Security security;
  security.access.emplace();
  EXPECT_THAT(warning(security, {"0.0.0.0", "127.0.0.1"}), HasSubstr("without TLS"));
  security.tls.emplace();
  EXPECT_THAT(warning(security, {"0.0.0.0", "0.0.0.0"}), IsEmpty());
  security.access.reset();
  EXPECT_THAT(warning(security, {"0.0.0.0", "127.0.0.1"}), HasSubstr("without authentication"));
  security.tls->authorities_file = "clients.pem";
  EXPECT_THAT(warning(security, {"0.0.0.0", "127.0.0.1"}), IsEmpty());
}

}  // namespace
}  // namespace tangram::serve
