#include "serve/gateway.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "serve/live_world.h"
#include "serve/reports.h"
#include "serve/test_deployment.h"

namespace tangram::serve {
namespace {

using testing::HasSubstr;

// One service, and the world that serves it.
struct Served {
  explicit Served(const std::string& name = "rank")
      : deployment(test::deployment()), models(served_models(deployment, test::workload(), "emulated")) {
    models[0].name = name;
    world = std::make_unique<LiveWorld>(deployment, models, LiveWorldConfig{});
    gateway = std::make_unique<Gateway>(models, GatewayConfig{});
  }
  // The answer of the data port, whoever gives it.
  Reply ask(host::HttpMethod method, std::string_view path, std::string_view body = "", Port port = Port::data) {
    const Target target = gateway->route(port, method, path);
    if (target.refusal) return *target.refusal;
    auto handled = gateway->handle(target, body);
    if (Reply* reply = std::get_if<Reply>(&handled)) return *reply;
    ControlCall call;
    std::get<ControlWork>(handled)(*world, call);
    return {http_status(call.status), kJsonType, call.answer};
  }

  sched::Deployment deployment;
  std::vector<ServedModel> models;
  std::unique_ptr<LiveWorld> world;
  std::unique_ptr<Gateway> gateway;
};

TEST(GatewayRoutes, SayWhichMethodsAnAddressTakes) {
  Served served;
  const auto allowed = [&](host::HttpMethod method, std::string_view path, Port port = Port::data) {
    const Reply reply = served.ask(method, path, "", port);
    return reply.status == 405 ? reply.headers : std::to_string(reply.status);
  };
  EXPECT_EQ(allowed(host::HttpMethod::post, "/v2/health/live"), "Allow: GET, HEAD\r\n");
  EXPECT_EQ(allowed(host::HttpMethod::get, "/v2/models/rank/infer"), "Allow: POST\r\n");
  EXPECT_EQ(allowed(host::HttpMethod::other, "/v2/models/rank"), "Allow: GET, HEAD\r\n");
  EXPECT_EQ(allowed(host::HttpMethod::remove, "/v2/logging"), "Allow: GET, HEAD, POST\r\n");
  EXPECT_EQ(allowed(host::HttpMethod::put, "/logging", Port::admin), "Allow: GET, HEAD, POST\r\n");
  EXPECT_EQ(allowed(host::HttpMethod::get, "/reload", Port::admin), "Allow: POST\r\n");
  EXPECT_EQ(allowed(host::HttpMethod::head, "/v2/health/live"), "200");
  EXPECT_EQ(allowed(host::HttpMethod::get, "/v2/logging"), "200");
}

// %ff is no text, so the answer shows what was sent; otherwise what was meant.
TEST(GatewayRoutes, AnswerJsonWhateverTheNameOfAModel) {
  Served served;
  const Reply odd = served.ask(host::HttpMethod::post, "/v2/models/a%ff/infer");
  EXPECT_EQ(odd.status, 404);
  EXPECT_TRUE(nlohmann::json::accept(odd.body)) << odd.body;
  EXPECT_THAT(odd.body, HasSubstr("'a%ff'"));
  EXPECT_THAT(served.ask(host::HttpMethod::post, "/v2/models/a%20b/infer").body, HasSubstr("'a b'"));
  EXPECT_TRUE(nlohmann::json::accept(served.ask(host::HttpMethod::post, "/v2/repository/models/%ff/load").body));
}

TEST(GatewayRoutes, KnowAnInferenceRequestForAModelThatIsNotThere) {
  Served served;
  const auto endpoint = [&](host::HttpMethod method, std::string_view path) {
    const Target target = served.gateway->route(Port::data, method, path);
    EXPECT_TRUE(target.refusal) << path;
    return target.endpoint;
  };
  EXPECT_EQ(endpoint(host::HttpMethod::post, "/v2/models/none/infer"), Endpoint::infer);
  EXPECT_EQ(endpoint(host::HttpMethod::post, "/v2/models/none/versions/1/infer"), Endpoint::infer);
  EXPECT_EQ(endpoint(host::HttpMethod::post, "/v2/models/rank/versions/2/infer"), Endpoint::infer);
  EXPECT_EQ(endpoint(host::HttpMethod::get, "/v2/models/none/ready"), Endpoint::none);
  EXPECT_EQ(endpoint(host::HttpMethod::get, "/v2/models/rank/infer"), Endpoint::none);
}

TEST(GatewayAnswers, EscapeTheNameOfAModel) {
  Served served("ra\"nk");
  const Reply reply = served.ask(host::HttpMethod::get, "/v2/models/ra\"nk/ready");
  const auto body = nlohmann::json::parse(reply.body, nullptr, false);
  ASSERT_TRUE(body.is_object()) << reply.body;
  EXPECT_EQ(body["name"], "ra\"nk");
  EXPECT_EQ(body["ready"], true);
}

// The model is unloaded: an index of those that are ready is empty, whatever spaces, order or other keys the question
// has; the words inside a text ask for nothing.
TEST(GatewayAnswers, ReadTheQuestionForTheIndex) {
  Served served;
  served.world->set_loaded(ServiceId(0), false);
  const auto listed = [&](std::string_view body) -> std::int64_t {
    const Reply reply = served.ask(host::HttpMethod::post, "/v2/repository/index", body);
    if (reply.status != 200) return -reply.status;
    return static_cast<std::int64_t>(nlohmann::json::parse(reply.body).size());
  };
  EXPECT_EQ(listed(""), 1);
  EXPECT_EQ(listed("{}"), 1);
  EXPECT_EQ(listed(R"({"ready":false})"), 1);
  EXPECT_EQ(listed(R"({"ready":true})"), 0);
  EXPECT_EQ(listed(" { \"other\" : [1], \"ready\"\n:\ttrue }"), 0);
  EXPECT_EQ(listed(R"({"note":"\"ready\":true"})"), 1);
  EXPECT_EQ(listed(R"({"ready":1})"), -400);
  EXPECT_EQ(listed(R"({"ready":"true"})"), -400);
  EXPECT_EQ(listed("[]"), -400);
  EXPECT_EQ(listed("{"), -400);
}

TEST(GatewayRoutes, NameWhatIsNotThere) {
  Served served;
  for (const std::string path : {"/v2/systemsharedmemory/status", "/v2/systemsharedmemory/region/a/register",
                                 "/v2/cudasharedmemory/region/a/unregister", "/v2/cudasharedmemory/status"}) {
    const Reply reply = served.ask(host::HttpMethod::post, path, "{}");
    EXPECT_EQ(reply.status, 501) << path;
    EXPECT_THAT(reply.body, HasSubstr("shared memory between client and server is not supported"));
  }
  for (const std::string path : {"/v2/trace/setting", "/v2/models/rank/trace/setting"}) {
    const Reply reply = served.ask(host::HttpMethod::get, path);
    EXPECT_EQ(reply.status, 501) << path;
    EXPECT_THAT(reply.body, HasSubstr("trace settings are not supported"));
  }
}

TEST(GatewayRoutes, TakeASlashAtTheEnd) {
  Served served;
  for (const std::string path :
       {"/v2/", "/v2/health/live/", "/v2/models/rank/", "/v2/models/rank/ready/", "/v2/models/stats/", "/v2/models/"}) {
    EXPECT_EQ(served.ask(host::HttpMethod::get, path).status, 200) << path;
  }
  EXPECT_EQ(served.ask(host::HttpMethod::get, "/v2/models/rank//ready").status, 404);
}

TEST(GatewayAnswers, ListTheNamesOfTheModels) {
  Served served;
  EXPECT_EQ(served.ask(host::HttpMethod::get, "/v2/models").body, R"({"models":["rank"]})");
}

// Triton's word for BYTES in a configuration.
TEST(GatewayAnswers, CallTextsStringsInTheConfiguration) {
  Served served;
  served.models[0].signature.inputs[0].datatype = Datatype::bytes;
  const std::string config = served.ask(host::HttpMethod::get, "/v2/models/rank/config").body;
  EXPECT_THAT(config, HasSubstr(R"("data_type":"TYPE_STRING")"));
  EXPECT_THAT(config, HasSubstr(R"("data_type":"TYPE_FP32")"));
  EXPECT_THAT(served.ask(host::HttpMethod::get, "/v2/models/rank").body, HasSubstr(R"("datatype":"BYTES")"));
}

TEST(GatewayAnswers, RefuseToLoadWhatTheClientSends) {
  Served served;
  const auto load = [&](const std::string& body) {
    return served.ask(host::HttpMethod::post, "/v2/repository/models/rank/load", body);
  };
  EXPECT_EQ(load("").status, 200);
  EXPECT_EQ(load(R"({"parameters":{"unload_dependents":true}})").status, 200);
  const Reply refused = load(R"({"parameters":{"config":"{\"backend\":\"onnxruntime\"}"}})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.body, HasSubstr("a configuration or files of the client: 'config'"));
  EXPECT_EQ(load(R"({"parameters":{"file:1/model.onnx":"AAAA"}})").status, 400);
  EXPECT_EQ(load("{").status, 400);
}

TEST(GatewayRefusals, AreCountedByModelAndReason) {
  Served served;
  const ServedModel* model = &served.models[0];
  served.gateway->tell_of_refused({RequestRefusal::invalid, 400, "wrong", model});
  served.gateway->tell_of_refused({RequestRefusal::invalid, 400, "wrong", model});
  served.gateway->tell_of_refused({RequestRefusal::not_found, 404, "none", nullptr});
  const std::string text = prometheus_metrics(*served.world, *served.gateway, false);
  EXPECT_THAT(text, HasSubstr("tangram_requests_refused_total{service=\"rank\",reason=\"invalid\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("tangram_requests_refused_total{service=\"rank\",reason=\"quota\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("tangram_requests_refused_total{service=\"\",reason=\"not_found\"} 1\n"));
}

}  // namespace
}  // namespace tangram::serve
