#include "serve/page_desk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>

#include "serve/live_world.h"
#include "serve/test_deployment.h"

namespace tangram::serve {
namespace {

using host::HttpMethod;
using testing::HasSubstr;

// The page's desk between a gateway and a world with one service.
struct PageFixture {
  explicit PageFixture(PageConfig config = {})
      : deployment(test::deployment()),
        models(served_models(deployment, test::workload(), "emulated")),
        desk(std::move(config), 1'000'000) {
    LiveWorldConfig world_config;
    world_config.watcher = &desk.history();
    world = std::make_unique<LiveWorld>(deployment, models, world_config);
    gateway = std::make_unique<Gateway>(models, GatewayConfig{});
    gateway->set_page(&desk);
  }
  Reply ask(HttpMethod method, std::string_view path, std::string_view body = "") {
    const Target target = gateway->route(Port::admin, method, path);
    if (target.refusal) return *target.refusal;
    auto handled = gateway->handle(target, body);
    if (Reply* reply = std::get_if<Reply>(&handled)) return *reply;
    ControlCall call;
    std::get<ControlWork>(handled)(*world, call);
    return {http_status(call.status), answer_type(target.endpoint), call.answer};
  }

  sched::Deployment deployment;
  std::vector<ServedModel> models;
  PageDesk desk;
  std::unique_ptr<LiveWorld> world;
  std::unique_ptr<Gateway> gateway;
};

TEST(PageDesk, AnswersItsAddressesAndNoOthers) {
  PageFixture page({.html = "<p>", .policy = "default-src 'none'", .history = {}, .what_if = {}});
  const Reply html = page.ask(HttpMethod::get, "/");
  EXPECT_EQ(html.status, 200);
  EXPECT_THAT(html.headers, HasSubstr("Content-Security-Policy: default-src 'none'\r\n"));
  EXPECT_EQ(page.ask(HttpMethod::post, "/").status, 405);
  EXPECT_EQ(page.ask(HttpMethod::get, "/events").status, 200);
  EXPECT_EQ(page.ask(HttpMethod::get, "/events/17").status, 200);
  for (const char* wrong : {"/events/", "/events/x", "/events/-1", "/events/99999999999999999999"}) {
    EXPECT_EQ(page.ask(HttpMethod::get, wrong).status, 400) << wrong;
  }
  EXPECT_EQ(page.ask(HttpMethod::get, "/requests").status, 200);
  EXPECT_EQ(page.ask(HttpMethod::get, "/requests/a%20b").status, 404);
  EXPECT_EQ(page.ask(HttpMethod::get, "/requests/a%2").status, 400);
  EXPECT_EQ(page.ask(HttpMethod::get, "/requests/%ff").status, 400);
  EXPECT_EQ(page.ask(HttpMethod::get, "/pages").status, 404);
}

TEST(PageDesk, NeedsTheRightsOfItsAddresses) {
  EXPECT_EQ(access_need(Port::admin, Endpoint::page), AccessNeed::nothing);
  EXPECT_EQ(access_need(Port::admin, Endpoint::events), AccessNeed::viewer);
  EXPECT_EQ(access_need(Port::admin, Endpoint::request_story), AccessNeed::viewer);
  EXPECT_EQ(access_need(Port::admin, Endpoint::what_if), AccessNeed::admin);
}

TEST(PageDesk, SendsEventsThatBeginWithTheServerItself) {
  PageFixture page;
  // Nothing has happened yet: the first question makes the first frame.
  const Reply reply = page.ask(HttpMethod::get, "/events");
  EXPECT_EQ(reply.type, "text/event-stream; charset=utf-8");
  EXPECT_THAT(reply.body, HasSubstr("retry: 1000\n"));
  EXPECT_LT(reply.body.find("event: about"), reply.body.find("event: fleet"));
  EXPECT_LT(reply.body.find("event: fleet"), reply.body.find("event: frame"));
  EXPECT_THAT(reply.body, HasSubstr("\"start_ms\":1000000"));
}

// While one question is planned, another is refused; the answer stays until the next question.
TEST(PageDesk, PlansOneQuestionAtATime) {
  std::mutex mutex;
  std::condition_variable changed;
  bool may_end = false;
  PageConfig config;
  config.what_if = [&](const WhatIfQuestion& question) -> Result<WhatIfAnswer> {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return may_end; });
    return WhatIfAnswer{.answer = question.service + " needs 3 devices.", .bound = {}, .binding = {}, .price = {}};
  };
  PageFixture page(std::move(config));
  const auto state = [&] {
    return nlohmann::json::parse(page.ask(HttpMethod::get, "/what-if").body)["state"].get<std::string>();
  };
  EXPECT_EQ(state(), "none");
  for (const char* wrong : {"", "[]", "{", R"({"service":""})", R"({"service":"rank","rate_factor":0})",
                            R"({"service":"rank","promise_factor":1e9})"}) {
    EXPECT_EQ(page.ask(HttpMethod::post, "/what-if", wrong).status, 400) << wrong;
  }
  EXPECT_EQ(page.ask(HttpMethod::post, "/what-if", std::string(5000, ' ')).status, 400);
  const std::string question = R"({"service":"rank","rate_factor":2})";
  EXPECT_EQ(page.ask(HttpMethod::post, "/what-if", question).status, 200);
  EXPECT_EQ(state(), "running");
  EXPECT_EQ(page.ask(HttpMethod::post, "/what-if", question).status, 429);
  {
    const std::lock_guard lock(mutex);
    may_end = true;
  }
  changed.notify_all();
  while (state() == "running") std::this_thread::yield();
  EXPECT_THAT(page.ask(HttpMethod::get, "/what-if").body, HasSubstr("rank needs 3 devices."));
}

TEST(PageDesk, SaysThatItCannotPlan) {
  PageFixture page;
  EXPECT_THAT(page.ask(HttpMethod::post, "/what-if", R"({"service":"rank"})").body, HasSubstr("cannot plan"));
}

}  // namespace
}  // namespace tangram::serve
