#include "formats/access_file.h"

#include <gtest/gtest.h>

namespace tangram::formats {
namespace {

const std::string kHash = "sha256:000102030405060708090a0b0c0d0e0f:" + std::string(64, 'a');

std::string access_problems(const std::string& text) {
  const auto access = parse_access({"access.yaml", text});
  return access ? "" : access.error().message;
}

TEST(AccessFile, ReadsEveryKey) {
  const auto access =
      parse_access({"access.yaml",
                    "tenants:\n"
                    "  - name: search\n    role: viewer\n    keys:\n"
                    "      - {id: k1, hash: \"" +
                        kHash +
                        "\", expires: 2027-01-31}\n"
                        "    certificate_names: [search.example]\n    models: [rank-answers]\n"
                        "    rate_per_s: 2.5\n    burst: 10\n    quota_per_day: 1000\n    in_flight_max: 8\n"
                        "  - name: ops\n    role: admin\n    certificate_names: [ops.example]\n"});
  ASSERT_TRUE(access) << access.error().message;
  const AccessTenant& search = access->tenants[0];
  EXPECT_EQ(search.role, AccessRole::viewer);
  ASSERT_EQ(search.keys.size(), 1U);
  EXPECT_EQ(search.keys[0].salt[15], 0x0f);
  EXPECT_EQ(search.keys[0].digest[31], 0xaa);
  EXPECT_EQ(search.keys[0].expires_s, 1801353600);  // 20,849 days of 86,400 s.
  EXPECT_EQ(search.certificate_names, std::vector<std::string>{"search.example"});
  EXPECT_EQ(search.models, std::vector<std::string>{"rank-answers"});
  EXPECT_EQ(search.rate_per_s, 2.5);
  EXPECT_EQ(search.burst, 10);
  EXPECT_EQ(search.quota_per_day, 1000);
  EXPECT_EQ(search.in_flight_max, 8);
  EXPECT_EQ(access->tenants[1].role, AccessRole::admin);
  const auto again = parse_access({"again.yaml", write_access(*access)});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, *access);
}

// Without a word, as many may come at once as are allowed in a second, and one at least.
TEST(AccessFile, AllowsABurstOfOneSecond) {
  const auto burst_of = [](const std::string& rate) {
    const auto access =
        parse_access({"a", "tenants:\n  - {name: a, certificate_names: [a], rate_per_s: " + rate + "}\n"});
    return access ? access->tenants[0].burst : -1;
  };
  EXPECT_EQ(burst_of("20"), 20);
  EXPECT_EQ(burst_of("0.1"), 1);
}

TEST(AccessFile, ReportsAllProblemsAtOnce) {
  EXPECT_EQ(access_problems("tenants:\n"
                            "  - name: a\n    keys: [{id: k1, hash: secret}]\n"
                            "  - name: a\n    keys: [{id: k1, hash: \"" +
                            kHash +
                            "\", expires: 2027-02-29}]\n"
                            "  - {name: b, burst: 2, quotas: 1}\n"),
            "access.yaml:3:27: hash must be sha256:SALT:DIGEST with 32 and 64 hexadecimal digits in lower case, as "
            "`tangram key make` prints it\n"
            "access.yaml:4:11: name \"a\" is already used in line 2\n"
            "access.yaml:5:17: key id \"k1\" is already used in line 3\n"
            "access.yaml:5:144: expires must be a date like 2027-01-31 or 2027-01-31T12:30:00Z, not \"2027-02-29\"\n"
            "access.yaml:6:12: a tenant needs keys or certificate_names, to identify its requests\n"
            "access.yaml:6:22: burst needs rate_per_s\n"
            "access.yaml:6:25: key is unknown: \"quotas\"; known: name, role, keys, certificate_names, models, "
            "rate_per_s, burst, quota_per_day, in_flight_max, weight, priority_best, deadline_max_ms");
}

TEST(AccessFile, WantsSomebody) {
  EXPECT_EQ(access_problems("tenants: []\n"), "access.yaml:1:10: tenants must not be empty");
  EXPECT_NE(access_problems("{}\n"), "");
}

TEST(AccessFile, ReadsAndWritesInstants) {
  EXPECT_EQ(parse_instant("1970-01-01"), 0);
  EXPECT_EQ(parse_instant("1970-01-02T00:00:01Z"), 86401);
  for (const char* wrong : {"", "2027", "2027-1-1", "2027-13-01", "2027-01-01T24:00:00Z", "2027-01-01 00:00:00",
                            "1969-12-31", "2027-01-01T00:00:00"}) {
    EXPECT_EQ(parse_instant(wrong), std::nullopt) << wrong;
  }
  for (const std::int64_t s :
       {std::int64_t{0}, std::int64_t{86399}, std::int64_t{1801353600}, std::int64_t{1801353601}}) {
    EXPECT_EQ(parse_instant(write_instant(s)), s);
  }
}

}  // namespace
}  // namespace tangram::formats
