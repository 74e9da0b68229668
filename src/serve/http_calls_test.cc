#include "serve/http_calls.h"

#include <gtest/gtest.h>

#include "serve/access.h"

namespace tangram::serve {
namespace {

struct Owner final : CallOwner, ControlOwner {
  void on_answered(Call*) override {}
  void on_controlled(ControlCall*) override {}
};

TEST(HttpCalls, FreesTenantAndBytesOfACallThatIsOver) {
  Owner owner;
  Inbox inbox;
  HttpCalls calls(owner, owner, inbox, false);
  TenantState tenant(TenantId(1), "search");
  tenant.in_flight = 1;
  HttpCall* call = calls.take();
  calls.body_bytes = 150;
  call->body_bytes = 100;
  call->tenant_state = &tenant;
  call->id = "a";
  calls.give_back(call);
  EXPECT_EQ(calls.body_bytes, 50u);
  EXPECT_EQ(tenant.in_flight, 0);
  HttpCall* again = calls.take();
  EXPECT_EQ(again, call);
  EXPECT_EQ(again->id, "");
  EXPECT_EQ(again->owner, &owner);
}

TEST(HttpCalls, SaysOnceThatSomethingWasPosted) {
  Owner owner;
  Inbox inbox;
  HttpCalls calls(owner, owner, inbox, false);
  EXPECT_FALSE(calls.take_posted());
  calls.post(calls.take());
  calls.post(calls.take_control());
  EXPECT_TRUE(calls.take_posted());
  EXPECT_FALSE(calls.take_posted());
  Inbox::Contents taken;
  inbox.take(taken);
  EXPECT_EQ(taken.calls.size(), 2u);
}

}  // namespace
}  // namespace tangram::serve
