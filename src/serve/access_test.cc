#include "serve/access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "serve/gateway.h"

namespace tangram::serve {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr std::int64_t kNoonOfDay100 = 100 * 86400 + 43200;

AccessTime at(Duration since_start, std::int64_t wall_s = kNoonOfDay100) { return {TimePoint(since_start), wall_s}; }

// One tenant and its key.
struct Tried {
  explicit Tried(formats::AccessTenant tenant = {}) : key(make_key()) {
    if (tenant.name.empty()) tenant.name = "search";
    tenant.keys.push_back(key.kept);
    said = {{tenant}};
    access.set(said);
    table = access.table();
  }
  const TenantRule* who(const std::string& authorization, std::int64_t wall_s = kNoonOfDay100) {
    return table->identify({authorization, {}, {}}, wall_s, why);
  }
  const TenantRule& rule() { return *who("Bearer " + key.text); }

  NewKey key;
  formats::Access said;
  Access access;
  std::shared_ptr<const AccessTable> table;
  std::string why;
};

TEST(Access, KnowsATenantByItsKeyInEitherField) {
  Tried tried;
  EXPECT_EQ(tried.rule().said.name, "search");
  EXPECT_EQ(tried.rule().state->id, TenantId(1));
  EXPECT_NE(tried.who("bearer   " + tried.key.text), nullptr);
  EXPECT_NE(tried.table->identify({{}, tried.key.text, {}}, 0, tried.why), nullptr);
}

TEST(Access, KnowsNobodyByAKeyThatIsWrongInOneLetter) {
  Tried tried;
  std::string bent = tried.key.text;
  bent.back() = bent.back() == 'A' ? 'B' : 'A';
  EXPECT_EQ(tried.who("Bearer " + bent), nullptr);
  EXPECT_EQ(tried.why, "unknown key");
  EXPECT_EQ(tried.who("Bearer " + make_key().text), nullptr);
  EXPECT_EQ(tried.who("Bearer " + tried.key.text + "A"), nullptr);
  EXPECT_EQ(tried.who("Basic " + tried.key.text), nullptr);
  EXPECT_THAT(tried.why, HasSubstr("Authorization: Bearer KEY"));
  for (const char* text : {"", "Bearer", "Bearer ", "Bearer tangram_", "Bearer tangram__", "Bearer tangram_a_"}) {
    EXPECT_EQ(tried.who(text), nullptr) << text;
  }
}

// A kept key says nothing of the text: neither the secret nor its digest without salt stands in it.
TEST(Access, MakesEveryKeyAndSaltAnew) {
  const NewKey a = make_key();
  const NewKey b = make_key();
  EXPECT_NE(a.text, b.text);
  EXPECT_NE(a.kept.salt, b.kept.salt);
  EXPECT_EQ(a.text.size(), std::string("tangram_k").size() + 12 + 1 + 43);
  EXPECT_EQ(*key_id(a.text), a.kept.id);
  EXPECT_TRUE(is_key(a.text, a.kept));
  formats::AccessKey salted_otherwise = a.kept;
  salted_otherwise.salt[0] ^= 1;
  EXPECT_FALSE(is_key(a.text, salted_otherwise));
}

// It expires at noon of day 100: a second before it is good.
TEST(Access, RefusesAKeyFromTheInstantThatItExpires) {
  Tried tried;
  tried.said.tenants[0].keys[0].expires_s = kNoonOfDay100;
  tried.access.set(tried.said);
  tried.table = tried.access.table();
  EXPECT_NE(tried.who("Bearer " + tried.key.text, kNoonOfDay100 - 1), nullptr);
  EXPECT_EQ(tried.who("Bearer " + tried.key.text, kNoonOfDay100), nullptr);
  EXPECT_THAT(tried.why, HasSubstr("expired on 1970-04-11T12:00:00Z"));
}

TEST(Access, KnowsATenantByACertificateUnlessAKeyIsShown) {
  formats::AccessTenant tenant;
  tenant.certificate_names = {"search.example"};
  Tried tried(tenant);
  const std::vector<std::string> names{"client-7", "search.example"};
  EXPECT_NE(tried.table->identify({{}, {}, names}, 0, tried.why), nullptr);
  EXPECT_EQ(tried.table->identify({"Bearer wrong", {}, names}, 0, tried.why), nullptr);
  const std::vector<std::string> others{"client-7"};
  EXPECT_EQ(tried.table->identify({{}, {}, others}, 0, tried.why), nullptr);
  EXPECT_THAT(tried.why, HasSubstr("client certificate"));
}

// Two a second with a burst of three: three pass at 0 s, the fourth waits half a second for its turn. At 0.5 s one more
// passes, and at 10 s the bucket is full again, not fuller.
TEST(Access, KeepsTheRateAndAllowsTheBurst) {
  formats::AccessTenant tenant;
  tenant.rate_per_s = 2;
  tenant.burst = 3;
  Tried tried(tenant);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(begin_request(tried.rule(), at(0s)));
  const auto denied = begin_request(tried.rule(), at(0s));
  ASSERT_TRUE(denied);
  EXPECT_EQ(denied->status, CallStatus::refused);
  EXPECT_EQ(denied->retry_after, 500ms);
  EXPECT_FALSE(begin_request(tried.rule(), at(500ms)));
  EXPECT_TRUE(begin_request(tried.rule(), at(500ms)));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(begin_request(tried.rule(), at(10s)));
  EXPECT_TRUE(begin_request(tried.rule(), at(10s)));
  EXPECT_EQ(tried.rule().state->refusals[static_cast<std::size_t>(AccessRefusal::rate)], 3U);
  EXPECT_EQ(tried.rule().state->in_flight, 7);  // Those that passed; none of them has been answered.
}

// Four threads ask a thousand times each at one instant, and the burst is a hundred.
TEST(Access, KeepsTheRateWhenThreadsAskAtOnce) {
  formats::AccessTenant tenant;
  tenant.rate_per_s = 1;
  tenant.burst = 100;
  Tried tried(tenant);
  const TenantRule& rule = tried.rule();
  std::atomic<int> passed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) passed += begin_request(rule, at(0s)) ? 0 : 1;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(passed, 100);
  EXPECT_EQ(rule.state->in_flight, 100);
}

// Noon is twelve hours before the next day; from its first second on there is a new quota.
TEST(Access, CountsTheQuotaByDays) {
  formats::AccessTenant tenant;
  tenant.quota_per_day = 2;
  Tried tried(tenant);
  EXPECT_FALSE(use_quota(tried.rule(), at(0s)));
  EXPECT_FALSE(use_quota(tried.rule(), at(0s)));
  const auto denied = use_quota(tried.rule(), at(0s));
  ASSERT_TRUE(denied);
  EXPECT_EQ(denied->retry_after, 12h);
  EXPECT_THAT(denied->message, HasSubstr("today's quota of 2 requests"));
  EXPECT_TRUE(use_quota(tried.rule(), at(0s, 101 * 86400 - 1)));
  EXPECT_FALSE(use_quota(tried.rule(), at(0s, 101 * 86400)));
}

// What a request of that day used is given back on the same day only, and never more than was used.
TEST(Access, GivesBackTheQuotaOfWhatDidNotRun) {
  formats::AccessTenant tenant;
  tenant.quota_per_day = 1;
  Tried tried(tenant);
  TenantState& state = *tried.rule().state;
  EXPECT_FALSE(use_quota(tried.rule(), at(0s)));
  EXPECT_TRUE(use_quota(tried.rule(), at(0s)));
  return_quota(state, quota_day(at(0s)) - 1);
  EXPECT_TRUE(use_quota(tried.rule(), at(0s)));
  return_quota(state, quota_day(at(0s)));
  return_quota(state, quota_day(at(0s)));
  EXPECT_FALSE(use_quota(tried.rule(), at(0s)));
  EXPECT_TRUE(use_quota(tried.rule(), at(0s)));
}

// A request that is let in may turn out to make no sense: until it asks for some of the quota, all of it is there.
TEST(Access, TakesNothingOfTheQuotaForRequestsThatAreOnlyLetIn) {
  formats::AccessTenant tenant;
  tenant.quota_per_day = 1;
  Tried tried(tenant);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(begin_request(tried.rule(), at(0s)));
  EXPECT_FALSE(use_quota(tried.rule(), at(0s)));
  const auto denied = use_quota(tried.rule(), at(0s));
  ASSERT_TRUE(denied);
  EXPECT_EQ(denied->why, AccessRefusal::quota);
}

TEST(Access, CountsWhatIsInFlight) {
  formats::AccessTenant tenant;
  tenant.in_flight_max = 2;
  Tried tried(tenant);
  EXPECT_FALSE(begin_request(tried.rule(), at(0s)));
  EXPECT_FALSE(begin_request(tried.rule(), at(0s)));
  EXPECT_TRUE(begin_request(tried.rule(), at(0s)));
  end_request(*tried.rule().state);
  EXPECT_FALSE(begin_request(tried.rule(), at(0s)));
}

// The tenant keeps its number and what it has used; a key that the new file lacks is of no use any more.
TEST(Access, KeepsCountsWhenTheFileIsReadAgain) {
  formats::AccessTenant tenant;
  tenant.quota_per_day = 1;
  Tried tried(tenant);
  EXPECT_FALSE(use_quota(tried.rule(), at(0s)));
  const NewKey next = make_key();
  formats::Access changed = tried.said;
  changed.tenants[0].keys = {next.kept};
  changed.tenants.insert(changed.tenants.begin(), formats::AccessTenant{.name = "other"});
  tried.access.set(changed);
  EXPECT_NE(tried.who("Bearer " + tried.key.text), nullptr);  // Whoever holds the old table still reads it.
  tried.table = tried.access.table();
  EXPECT_EQ(tried.who("Bearer " + tried.key.text), nullptr);
  const TenantRule* rule = tried.who("Bearer " + next.text);
  ASSERT_NE(rule, nullptr);
  EXPECT_EQ(rule->state->id, TenantId(1));
  EXPECT_TRUE(use_quota(*rule, at(0s)));
  EXPECT_EQ(tried.access.tenants().size(), 2U);
}

TEST(Access, LetsRolesAndModelsDecide) {
  ServedModel rank;
  rank.name = "rank";
  formats::AccessTenant tenant;
  tenant.models = {"embed"};
  Tried client(tenant);
  const auto forbidden = [&](const TenantRule& rule, AccessNeed need, const ServedModel* model = nullptr) {
    return why_forbidden(rule, need, model).has_value();
  };
  EXPECT_TRUE(forbidden(client.rule(), AccessNeed::client, &rank));
  EXPECT_FALSE(forbidden(client.rule(), AccessNeed::client));
  EXPECT_TRUE(forbidden(client.rule(), AccessNeed::every_model));
  EXPECT_TRUE(forbidden(client.rule(), AccessNeed::viewer));
  Tried viewer({.name = "watch", .role = formats::AccessRole::viewer});
  EXPECT_FALSE(forbidden(viewer.rule(), AccessNeed::viewer));
  EXPECT_TRUE(forbidden(viewer.rule(), AccessNeed::admin));
  Tried admin({.name = "ops", .role = formats::AccessRole::admin});
  EXPECT_FALSE(forbidden(admin.rule(), AccessNeed::admin, &rank));
}

// Whatever changes the server needs the role admin, wherever it is asked for; whether it lives needs nothing.
TEST(Access, NeedsAdminForWhateverChangesTheServer) {
  for (const Port port : {Port::data, Port::admin}) {
    for (const Endpoint e : {Endpoint::load, Endpoint::unload, Endpoint::logging, Endpoint::reload, Endpoint::drain}) {
      EXPECT_EQ(access_need(port, e), AccessNeed::admin);
    }
    EXPECT_EQ(access_need(port, Endpoint::live), AccessNeed::nothing);
    EXPECT_EQ(access_need(port, Endpoint::ready), AccessNeed::nothing);
    EXPECT_EQ(access_need(port, Endpoint::infer), AccessNeed::client);
  }
}

}  // namespace
}  // namespace tangram::serve
