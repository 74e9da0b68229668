#include "serve/frontdoor.h"

#include <gtest/gtest.h>

namespace tangram::serve {
namespace {

// A gateway with one model, and one tenant with a key.
struct Door {
  explicit Door(formats::AccessTenant tenant = {}) {
    ServedModel& model = models.emplace_back();
    model.service = ServiceId(0);
    model.name = "rank";
    gateway = std::make_unique<Gateway>(models, GatewayConfig{});
    tenant.name = "search";
    tenant.keys.push_back(key.kept);
    gateway->access.set({{tenant}});
    frontdoor = std::make_unique<Frontdoor>(*gateway, clock);
  }
  std::optional<AccessDenial> identify(std::string_view shown_key) {
    const auto show = [&](Credentials& shown) -> std::optional<AccessDenial> {
      shown.api_key = shown_key;
      return std::nullopt;
    };
    return frontdoor->identify(AccessNeed::client, models.data(), show, caller);
  }
  // Admits one more call, whose reading ends with `problem`.
  std::optional<AccessDenial> admit(Call& call, const std::optional<CallProblem>& problem = {}) {
    call.model = models.data();
    return frontdoor->admit(caller, call, [&](Call&) {
      ++read;
      return problem;
    });
  }
  std::uint64_t refused(RequestRefusal why) { return gateway->refused_count(models.data(), why); }
  std::int64_t in_flight() { return gateway->access.tenants().front()->in_flight.load(); }

  NewKey key = make_key();
  std::vector<ServedModel> models;
  std::unique_ptr<Gateway> gateway;
  host::LiveClock clock;
  std::unique_ptr<Frontdoor> frontdoor;
  Caller caller;
  int read = 0;
};

TEST(Frontdoor, IdentifiesBeforeItAuthorises) {
  formats::AccessTenant tenant;
  tenant.models = {"other"};
  Door door(tenant);
  const auto unknown = door.identify("tangram_a_b");
  ASSERT_TRUE(unknown);
  EXPECT_EQ(unknown->status, CallStatus::unauthenticated);
  EXPECT_EQ(door.gateway->access.unauthenticated.load(), 1u);
  const auto forbidden = door.identify(door.key.text);
  ASSERT_TRUE(forbidden);
  EXPECT_EQ(forbidden->status, CallStatus::not_found);
  EXPECT_NE(door.caller.tenant, nullptr);
}

TEST(Frontdoor, AsksNobodyWhereThereIsNoAccessFile) {
  const std::vector<ServedModel> models;
  Gateway gateway(models, {});
  const host::LiveClock clock;
  Frontdoor frontdoor(gateway, clock);
  Caller caller;
  bool asked = false;
  const auto show = [&](Credentials&) -> std::optional<AccessDenial> {
    asked = true;
    return std::nullopt;
  };
  EXPECT_FALSE(frontdoor.identify(AccessNeed::admin, nullptr, show, caller));
  EXPECT_FALSE(asked);
}

// One request may be in flight: the second is refused before anything of it is read.
TEST(Frontdoor, LimitsBeforeItReads) {
  formats::AccessTenant tenant;
  tenant.in_flight_max = 1;
  Door door(tenant);
  ASSERT_FALSE(door.identify(door.key.text));
  Call first;
  Call second;
  EXPECT_FALSE(door.admit(first));
  ASSERT_TRUE(door.admit(second));
  EXPECT_EQ(door.read, 1);
  EXPECT_EQ(door.refused(RequestRefusal::in_flight), 1u);
  Frontdoor::leave(first);
  Frontdoor::leave(first);
  EXPECT_EQ(door.in_flight(), 0);
  EXPECT_FALSE(door.admit(second));
}

// The quota of today is one request. The first makes no sense and costs nothing, the second takes it, the third is too
// many; only the second is in flight then.
TEST(Frontdoor, TakesNoQuotaForARequestThatMakesNoSense) {
  formats::AccessTenant tenant;
  tenant.quota_per_day = 1;
  Door door(tenant);
  ASSERT_FALSE(door.identify(door.key.text));
  Call calls[3];
  const auto senseless = door.admit(calls[0], invalid_request("no inputs"));
  ASSERT_TRUE(senseless);
  EXPECT_EQ(senseless->message, "no inputs");
  EXPECT_EQ(door.refused(RequestRefusal::invalid), 1u);
  EXPECT_FALSE(door.admit(calls[1]));
  ASSERT_TRUE(door.admit(calls[2]));
  EXPECT_EQ(door.refused(RequestRefusal::quota), 1u);
  EXPECT_EQ(door.in_flight(), 1);
}

}  // namespace
}  // namespace tangram::serve
