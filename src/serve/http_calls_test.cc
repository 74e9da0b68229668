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
  MemoryAccount whole(1000);
  call->memory = Charge(MemoryPlaces{nullptr, nullptr, &whole});
  ASSERT_TRUE(call->memory.grow(100));
  call->tenant_state = &tenant;
  call->id = "a";
  calls.give_back(call);
  EXPECT_EQ(whole.used(), 0u);
  EXPECT_EQ(tenant.in_flight, 0);
  HttpCall* again = calls.take();
  EXPECT_EQ(again, call);
  EXPECT_EQ(again->id, "");
  EXPECT_EQ(again->owner, &owner);
}

// A quarter of 16 KiB is four calls of 1 KiB, which stay charged: they are pooled and never freed.
TEST(HttpCalls, ArePooledWithinAQuarterOfTheMemory) {
  Owner owner;
  Inbox inbox;
  MemoryAccount whole(16 << 10);
  HttpCalls calls(owner, owner, inbox, false, &whole);
  std::vector<HttpCall*> taken;
  while (HttpCall* call = calls.take()) taken.push_back(call);
  EXPECT_EQ(taken.size(), 4u);
  for (HttpCall* call : taken) calls.give_back(call);
  EXPECT_EQ(whole.used(), 4u << 10);
  EXPECT_NE(calls.take(), nullptr);
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
