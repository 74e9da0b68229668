#include "serve/http_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tangram::serve {
namespace {

using testing::HasSubstr;

struct Owner final : CallOwner, ControlOwner {
  void on_answered(Call*) override {}
  void on_controlled(ControlCall*) override {}
};

// One model that takes a row of numbers, and requests for it.
struct Asked {
  Asked()
      : models(1),
        gateway(make_models(models), {}),
        context{.loop = loop,
                .clock = clock,
                .gateway = gateway,
                .limits = {},
                .shared = shared,
                .frontdoor = Frontdoor(gateway, clock),
                .calls = HttpCalls(owner, owner, inbox, false),
                .writer = HttpAnswerWriter(kTimeZero),
                .now = kTimeZero} {}
  static const std::vector<ServedModel>& make_models(std::vector<ServedModel>& models) {
    models[0].name = "rank";
    models[0].signature = {{{"in", Datatype::int32, {2}, 0, false}}, {{"out", Datatype::int32, {2}, 0, false}}};
    return models;
  }
  MemoryPlaces places() { return {nullptr, nullptr, &gateway.memory.data()}; }
  // The whole request in one go.
  std::variant<Reply, HttpAsker*> ask(HttpExchange& exchange, const std::string& head_text, std::string_view body) {
    host::HttpHead head;
    const auto parsed = host::parse_http_head(head_text, 4096, head);
    EXPECT_EQ(parsed.kind, host::HttpHeadResult::Kind::complete);
    exchange.begin(head);
    exchange.identify(head, nullptr);
    EXPECT_FALSE(exchange.open_body(head));
    EXPECT_FALSE(exchange.take_body(body, body.size()));
    EXPECT_FALSE(exchange.end_body());
    return exchange.dispatch(nullptr);
  }

  std::vector<ServedModel> models;
  Gateway gateway;
  host::EventLoop loop;
  host::LiveClock clock;
  Owner owner;
  Inbox inbox;
  HttpShared shared{100, 1 << 20};
  HttpContext context;
};

constexpr std::string_view kInfer = "POST /v2/models/rank/infer HTTP/1.1\r\nHost: a\r\n";

TEST(HttpExchange, PostsAnInferenceThatMakesSense) {
  Asked asked;
  HttpExchange exchange(asked.context, {}, asked.places());
  const auto outcome = asked.ask(exchange, std::string(kInfer) + "Tangram-Input-Size: 9\r\n\r\n",
                                 R"({"inputs":[{"name":"in","datatype":"INT32","shape":[1,2],"data":[3,4]}]})");
  ASSERT_TRUE(std::holds_alternative<HttpAsker*>(outcome));
  Inbox::Contents posted;
  asked.inbox.take(posted);
  ASSERT_EQ(posted.calls.size(), 1u);
  const Call* call = std::get<Call*>(posted.calls[0]);
  EXPECT_EQ(call->model, &asked.models[0]);
  EXPECT_EQ(call->size, 9);
}

// Its bytes are free again, and it is counted with its model.
TEST(HttpExchange, AnswersAtOnceWhatMakesNoSense) {
  Asked asked;
  HttpExchange exchange(asked.context, {}, asked.places());
  const auto outcome = asked.ask(exchange, std::string(kInfer) + "\r\n", "{");
  ASSERT_TRUE(std::holds_alternative<Reply>(outcome));
  EXPECT_EQ(std::get<Reply>(outcome).status, 400);
  EXPECT_EQ(asked.gateway.refused_count(&asked.models[0], RequestRefusal::invalid), 1u);
  EXPECT_EQ(asked.gateway.memory.data().used(), 0u);
}

TEST(HttpExchange, RefusesAFieldThatCameTwice) {
  Asked asked;
  HttpExchange exchange(asked.context, {}, asked.places());
  const auto outcome =
      asked.ask(exchange, std::string(kInfer) + "Tangram-Deadline-Ms: 5\r\nTangram-Deadline-Ms: 6\r\n\r\n", "{}");
  ASSERT_TRUE(std::holds_alternative<Reply>(outcome));
  EXPECT_THAT(std::get<Reply>(outcome).body, HasSubstr("several Tangram-Deadline-Ms fields"));
}

// Metrics are text, everything else is JSON.
TEST(HttpExchange, AsksTheWorldWithTheTypeOfTheAnswer) {
  Asked asked;
  HttpExchange exchange(asked.context, {.port = Port::admin}, asked.places());
  for (const auto& [path, type] : {std::pair{"metrics", kMetricsType}, std::pair{"status", kJsonType}}) {
    const auto outcome = asked.ask(exchange, std::string("GET /") + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n", "");
    ASSERT_TRUE(std::holds_alternative<HttpAsker*>(outcome));
    Inbox::Contents posted;
    asked.inbox.take(posted);
    EXPECT_EQ(static_cast<HttpControl*>(std::get<ControlCall*>(posted.calls.at(0)))->type, type);
  }
}

TEST(HttpExchange, TellsOnceOfARequestThatIsCutOff) {
  Asked asked;
  HttpExchange exchange(asked.context, {}, asked.places());
  host::HttpHead head;
  const std::string text = std::string(kInfer) + "Content-Length: 7\r\n\r\n";
  ASSERT_EQ(host::parse_http_head(text, 4096, head).kind, host::HttpHeadResult::Kind::complete);
  exchange.begin(head);
  EXPECT_FALSE(exchange.open_body(head));
  EXPECT_FALSE(exchange.take_body("123", 7));
  EXPECT_EQ(asked.gateway.memory.data().used(), 3u);
  exchange.cut_off({408, "the request was not complete in time"});
  exchange.cut_off({408, "the request was not complete in time"});
  EXPECT_EQ(asked.gateway.refused_count(&asked.models[0], RequestRefusal::too_slow), 1u);
  EXPECT_EQ(asked.gateway.memory.data().used(), 0u);
  // It was slow, but HTTP as it should be.
  EXPECT_EQ(asked.gateway.traffic.requests_malformed.load(), 0u);
}

}  // namespace
}  // namespace tangram::serve
