// What becomes of requests that end at the door of a server: their answer, their line in the log, their counts.

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "client/http_client.h"
#include "serve/grpc_server.h"
#include "serve/server.h"
#include "serve/test_deployment.h"

#ifdef TANGRAM_WITH_GRPC
#include <grpcpp/grpcpp.h>

#include "inference.grpc.pb.h"
#endif

namespace tangram::serve {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kInfer = "/v2/models/rank/infer";

std::string asking(const std::string& more = "") {
  return R"({"id":"seven","inputs":[{"name":"ids","datatype":"INT64","shape":[1,2],"data":[1,2]}],)"
         R"("parameters":{"tangram_deadline_ms":60000)" +
         more + "}}";
}
// Two elements where the shape has three.
const std::string kWrongTensors =
    R"({"id":"eight","inputs":[{"name":"ids","datatype":"INT64","shape":[1,3],"data":[1,2]}]})";

// A server that logs every request. What it wrote can be read once it has stopped.
class Watched {
 public:
  explicit Watched(ServerConfig config = {})
      : file_(std::tmpfile()), log_(std::make_unique<host::LogWriter>(fileno(file_))) {
    config.http_port = config.metrics_port = 0;
    if (has_grpc()) config.grpc_port = 0;
    config.emulated.time_scale = 0;
    config.log_level = host::LogLevel::requests;
    server_ = std::make_unique<Server>(test::deployment(), test::workload(), std::move(config), *log_);
    const auto opened = server_->open();
    EXPECT_TRUE(opened) << opened.error().message;
    thread_ = std::thread([this] { server_->run(); });
  }
  ~Watched() {
    stop();
    std::fclose(file_);
  }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

  client::HttpAnswer ask(const std::string& path, const std::string& body = "", const std::string& key = "",
                         bool admin = false) {
    client::HttpQuestion asked{.port = admin ? server_->metrics_port() : server_->http_port(),
                               .method = body.empty() ? "GET" : "POST",
                               .path = path,
                               .body = body};
    asked.key = key;
    const auto answer = client::ask_http(asked);
    EXPECT_TRUE(answer) << answer.error().message;
    return answer ? *answer : client::HttpAnswer{};
  }
  int infer(const std::string& body, const std::string& key = "") { return ask(kInfer, body, key).status; }
  std::string metrics(const std::string& key = "") { return ask("/metrics", "", key, true).body; }
  json status() { return json::parse(ask("/status", "", "", true).body); }

  // The bytes of all answers, of a client that says all this at once and then no more.
  std::string exchange(const std::string& bytes) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(server_->http_port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
    shutdown(fd, SHUT_WR);
    std::string answers;
    std::array<char, 4096> part;
    for (ssize_t got = 0; (got = recv(fd, part.data(), part.size(), 0)) > 0;) {
      answers.append(part.data(), static_cast<std::size_t>(got));
    }
    close(fd);
    return answers;
  }

  void stop() {
    if (!thread_.joinable()) return;
    server_->request_stop();
    thread_.join();
    server_.reset();
    log_.reset();
  }
  // The lines about requests.
  std::vector<json> requests() {
    stop();
    std::rewind(file_);
    std::string text;
    std::array<char, 4096> part;
    for (std::size_t got = 0; (got = std::fread(part.data(), 1, part.size(), file_)) > 0;)
      text.append(part.data(), got);
    std::vector<json> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
      json value = json::parse(line, nullptr, false);
      EXPECT_TRUE(value.is_object()) << line;
      if (value.is_object() && value["event"] == "request") lines.push_back(std::move(value));
    }
    return lines;
  }
  Server& server() { return *server_; }

 private:
  std::FILE* file_;
  std::unique_ptr<host::LogWriter> log_;
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

// What a line says, but for when and why in words.
std::string summary(const json& line) {
  const auto said = [&](const char* key) {
    return line.contains(key) ? line[key].get<std::string>() : std::string("-");
  };
  return said("id") + ' ' + said("model") + ' ' + said("tenant") + ' ' + said("outcome") + ' ' +
         std::to_string(line["status"].get<int>()) + ' ' + said("why");
}

std::vector<std::string> summaries(Watched& server) {
  std::vector<std::string> all;
  for (const auto& line : server.requests()) all.push_back(summary(line));
  return all;
}

std::string count_of(const std::string& service, const std::string& reason, int count) {
  return "tangram_requests_refused_total{service=\"" + service + "\",reason=\"" + reason + "\"} " +
         std::to_string(count) + "\n";
}

// Each of these ends another way; the log has them in the order in which they came.
TEST(ServerRefusals, HaveALineInTheLogAndACount) {
  ServerConfig config;
  config.limits.body_max = 4096;
  Watched server(std::move(config));
  EXPECT_EQ(server.infer(asking()), 200);
  EXPECT_EQ(server.infer(R"({"id":"nine",)"), 400);
  EXPECT_EQ(server.infer(kWrongTensors), 400);
  EXPECT_EQ(server.ask("/v2/models/none/infer", asking()).status, 404);
  EXPECT_EQ(server.infer(std::string(5000, ' ')), 413);
  EXPECT_THAT(server.exchange("POST / HTTP/1.1\r\n\r\n"), HasSubstr("400 Bad Request"));
  EXPECT_EQ(server.ask("/v2/repository/models/rank/unload", "{}").status, 200);
  EXPECT_EQ(server.infer(asking()), 503);
  const std::string metrics = server.metrics();
  EXPECT_THAT(metrics, HasSubstr(count_of("rank", "invalid", 2)));
  EXPECT_THAT(metrics, HasSubstr(count_of("rank", "too_large", 1)));
  EXPECT_THAT(metrics, HasSubstr(count_of("rank", "unloaded", 1)));
  EXPECT_THAT(metrics, HasSubstr(count_of("", "not_found", 1)));
  EXPECT_THAT(metrics, HasSubstr(count_of("", "malformed", 1)));
  const auto lines = server.requests();
  ASSERT_EQ(lines.size(), 7U);
  EXPECT_EQ(summary(lines[0]), "seven rank - served 200 -");
  EXPECT_EQ(summary(lines[1]), "nine rank - refused 400 invalid");
  EXPECT_EQ(summary(lines[2]), "eight rank - refused 400 invalid");
  EXPECT_THAT(lines[2]["reason"].get<std::string>(), HasSubstr("16 bytes, expected 24"));
  EXPECT_EQ(summary(lines[3]), "- - - refused 404 not_found");
  EXPECT_EQ(summary(lines[4]), "- rank - refused 413 too_large");
  EXPECT_EQ(summary(lines[5]), "- - - refused 400 malformed");
  EXPECT_EQ(summary(lines[6]), "seven rank - refused 503 unloaded");
}

// A head beyond the limit is too large, and HTTP as it should be.
TEST(ServerRefusals, TellLargeHeadsFromMalformedOnes) {
  ServerConfig config;
  config.limits.head_max = 512;
  Watched server(std::move(config));
  EXPECT_THAT(server.exchange("GET /v2 HTTP/1.1\r\nHost: h\r\nX: " + std::string(600, 'x') + "\r\n\r\n"),
              HasSubstr("431 "));
  const std::string metrics = server.metrics();
  EXPECT_THAT(metrics, HasSubstr(count_of("", "too_large", 1)));
  EXPECT_THAT(metrics, HasSubstr(count_of("", "malformed", 0)));
  EXPECT_THAT(metrics, HasSubstr("\ntangram_requests_malformed_total 0\n"));
  EXPECT_THAT(summaries(server), testing::ElementsAre("- - - refused 431 too_large"));
}

// A chunk that is none, in a request for a model, on a connection whose last request was for another address.
TEST(ServerRefusals, OfBodiesThatDoNotComeToTheirEndAreTold) {
  Watched server;
  server.exchange("GET /v2 HTTP/1.1\r\nHost: h\r\n\r\nPOST " + std::string(kInfer) +
                  " HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n");
  EXPECT_THAT(summaries(server), testing::ElementsAre("- rank - refused 400 malformed"));
}

// The metrics and the status call a slice "gpu-0/4g.40gb@0"; so does the log.
TEST(ServerRefusals, AndAnswersNameTheirSliceInTheLog) {
  Watched server;
  EXPECT_EQ(server.infer(asking()), 200);
  const std::string metrics = server.metrics();
  const auto lines = server.requests();
  ASSERT_EQ(lines.size(), 1U);
  ASSERT_TRUE(lines[0]["slice"].is_string()) << lines[0];
  EXPECT_THAT(metrics, HasSubstr("slice=\"" + lines[0]["slice"].get<std::string>() + "\""));
}

struct Tenant {
  NewKey key = make_key();
  NewKey viewer = make_key();

  ServerConfig config(formats::AccessTenant limits) const {
    limits.name = "search";
    limits.keys = {key.kept};
    formats::AccessTenant watch{.name = "watch", .role = formats::AccessRole::viewer, .keys = {viewer.kept}};
    ServerConfig made;
    made.security.access = formats::Access{{limits, watch}};
    return made;
  }
};

// One request a day. Three that make no sense leave it untouched; the fourth, a good one, takes it.
TEST(ServerRefusals, OfWhatMakesNoSenseTakeNothingOfTheQuota) {
  const Tenant tenant;
  formats::AccessTenant limits;
  limits.quota_per_day = 1;
  Watched server(tenant.config(limits));
  EXPECT_EQ(server.infer("{", tenant.key.text), 400);
  EXPECT_EQ(server.infer(kWrongTensors, tenant.key.text), 400);
  EXPECT_EQ(server.infer(asking(R"(,"timeout":"soon")"), tenant.key.text), 400);
  EXPECT_EQ(server.infer(asking(), tenant.key.text), 200);
  EXPECT_EQ(server.infer(asking(), tenant.key.text), 429);
  EXPECT_EQ(server.infer(asking()), 401);
  const std::string metrics = server.metrics(tenant.viewer.text);
  EXPECT_THAT(metrics, HasSubstr(count_of("rank", "invalid", 3)));
  EXPECT_THAT(metrics, HasSubstr(count_of("rank", "quota", 1)));
  EXPECT_THAT(metrics, HasSubstr(count_of("rank", "unauthenticated", 1)));
  EXPECT_THAT(metrics, HasSubstr("tangram_tenant_requests_in_flight{tenant=\"search\"} 0\n"));
  const auto lines = server.requests();
  ASSERT_EQ(lines.size(), 6U);
  EXPECT_EQ(summary(lines[0]), "- rank search refused 400 invalid");
  EXPECT_EQ(summary(lines[3]), "seven rank search served 200 -");
  EXPECT_EQ(summary(lines[4]), "seven rank search refused 429 quota");
  EXPECT_EQ(summary(lines[5]), "- rank - refused 401 unauthenticated");
}

// The rate counts whatever comes: one in 100,000 seconds, and the first made no sense.
TEST(ServerRefusals, OfWhatMakesNoSenseCountForTheRate) {
  const Tenant tenant;
  formats::AccessTenant limits;
  limits.rate_per_s = 1e-5;
  Watched server(tenant.config(limits));
  EXPECT_EQ(server.infer("{", tenant.key.text), 400);
  EXPECT_EQ(server.infer(asking(), tenant.key.text), 429);
  EXPECT_THAT(summaries(server),
              testing::ElementsAre("- rank search refused 400 invalid", "- rank search refused 429 rate"));
}

TEST(ServerRefusals, OfTenantsThatMayNotUseTheModelAreTold) {
  const Tenant tenant;
  formats::AccessTenant limits;
  limits.models = {"another"};
  Watched server(tenant.config(limits));
  EXPECT_EQ(server.infer(asking(), tenant.key.text), 404);
  EXPECT_THAT(summaries(server), testing::ElementsAre("- rank search refused 404 model"));
}

TEST(ServerHttp, RefusesTwoKeysInOneRequest) {
  const Tenant tenant;
  Watched server(tenant.config({}));
  const std::string key = "Authorization: Bearer " + tenant.key.text + "\r\n";
  EXPECT_THAT(server.exchange("GET /v2 HTTP/1.1\r\nHost: h\r\n" + key + "\r\n"), HasSubstr("200 OK"));
  EXPECT_THAT(server.exchange("GET /v2 HTTP/1.1\r\nHost: h\r\n" + key + key + "\r\n"),
              AllOf(HasSubstr("400 Bad Request"), HasSubstr("several Authorization fields")));
}

// A deadline of two minutes and one of a minute: nobody can tell which was meant.
TEST(ServerHttp, RefusesFieldsOfItsOwnThatComeTwice) {
  Watched server;
  const std::string head = "POST " + std::string(kInfer) +
                           " HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(asking().size()) +
                           "\r\nTangram-Deadline-Ms: 120000\r\n";
  EXPECT_THAT(server.exchange(head + "\r\n" + asking()), HasSubstr("200 OK"));
  EXPECT_THAT(server.exchange(head + "tangram-deadline-ms: 60000\r\n\r\n" + asking()),
              AllOf(HasSubstr("400 Bad Request"), HasSubstr("several Tangram-Deadline-Ms fields")));
}

// "Date: Mon, 16 Nov 2026 11:00:00 GMT", in good answers and in refusals.
TEST(ServerHttp, SaysWhatTimeItIs) {
  Watched server;
  const auto date = testing::ContainsRegex(
      "\r\nDate: [A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT\r\n");
  EXPECT_THAT(server.ask(kInfer, asking()).head, date);
  EXPECT_THAT(server.ask("/v3").head, date);
  EXPECT_THAT(server.exchange("GET / HTTP/9.9\r\n\r\n"), date);
}

// Two requests of HTTP/1.0 on one connection, which the first asks to keep; it must be told that it is kept. Without
// asking it is closed, and so it is where a client asks for both.
TEST(ServerHttp, KeepsConnectionsOfOldClientsThatAskForIt) {
  Watched server;
  const std::string plain = "GET /v2/health/live HTTP/1.0\r\n\r\n";
  const std::string kept = "GET /v2/health/live HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n";
  const std::string both = server.exchange(kept + plain);
  EXPECT_THAT(both, HasSubstr("\r\nConnection: keep-alive\r\n"));
  EXPECT_THAT(both.substr(both.find("{\"live\":true}")), HasSubstr("\r\nConnection: close\r\n"));
  EXPECT_THAT(server.exchange(plain + plain), Not(HasSubstr("keep-alive")));
  EXPECT_THAT(server.exchange("GET /v2/health/live HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n"),
              HasSubstr("\r\nConnection: close\r\n"));
  EXPECT_THAT(server.exchange("GET /v2/health/live HTTP/1.1\r\nHost: h\r\n\r\n"), Not(HasSubstr("Connection")));
}

// Requests in the background wait on purpose, and what was refused before its end never came: neither says anything of
// what the gateway adds. The question about the status itself is counted when its answer has been sent.
TEST(ServerStatus, CountsWhatTheGatewayAddsToRequestsThatCameAndDidNotMeanToWait) {
  Watched server;
  EXPECT_EQ(server.infer(asking(R"(,"tangram_background":1)")), 200);
  server.exchange("POST / HTTP/1.1\r\n\r\n");
  const json before = server.status();
  EXPECT_EQ(before["added"]["count"], 0);
  EXPECT_EQ(before["added_other"]["count"], 0);
  EXPECT_EQ(server.infer(asking()), 200);
  EXPECT_EQ(server.status()["added"]["count"], 1);
  EXPECT_THAT(server.metrics(), HasSubstr("tangram_gateway_added_seconds_count 1\n"));
}

#ifdef TANGRAM_WITH_GRPC

// Requests over gRPC as a client with these keys sends them.
struct GrpcClient {
  GrpcClient(std::uint16_t port, std::vector<std::string> shown)
      : stub(inference::GRPCInferenceService::NewStub(
            grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()))),
        keys(std::move(shown)) {}

  static inference::ModelInferRequest request() {
    inference::ModelInferRequest asked;
    asked.set_model_name("rank");
    asked.set_id("seven");
    auto* input = asked.add_inputs();
    input->set_name("ids");
    input->set_datatype("INT64");
    input->add_shape(1);
    input->add_shape(1);
    input->mutable_contents()->add_int64_contents(7);
    (*asked.mutable_parameters())["tangram_deadline_ms"].set_double_param(60000);
    return asked;
  }
  grpc::Status infer(const inference::ModelInferRequest& asked) {
    grpc::ClientContext context;
    for (const auto& key : keys) context.AddMetadata("authorization", "Bearer " + key);
    inference::ModelInferResponse response;
    return stub->ModelInfer(&context, asked, &response);
  }

  std::unique_ptr<inference::GRPCInferenceService::Stub> stub;
  std::vector<std::string> keys;
};

// The same as over HTTP: what makes no sense takes nothing of the quota of one, and every refusal is told.
TEST(ServerRefusals, OverGrpcAreToldAndTakeNothingOfTheQuotaForNonsense) {
  const Tenant tenant;
  formats::AccessTenant limits;
  limits.quota_per_day = 1;
  Watched server(tenant.config(limits));
  GrpcClient client(server.server().grpc_port(), {tenant.key.text});
  auto odd = GrpcClient::request();
  odd.mutable_inputs(0)->set_shape(1, 2);
  EXPECT_EQ(client.infer(odd).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  auto unknown = GrpcClient::request();
  unknown.set_model_name("none");
  EXPECT_EQ(client.infer(unknown).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_TRUE(client.infer(GrpcClient::request()).ok());
  EXPECT_EQ(client.infer(GrpcClient::request()).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  GrpcClient nobody(server.server().grpc_port(), {});
  EXPECT_EQ(nobody.infer(GrpcClient::request()).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  GrpcClient twice(server.server().grpc_port(), {tenant.key.text, tenant.key.text});
  const auto two_keys = twice.infer(GrpcClient::request());
  EXPECT_EQ(two_keys.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(two_keys.error_message(), "several authorization fields");
  const std::string metrics = server.metrics(tenant.viewer.text);
  EXPECT_THAT(metrics, HasSubstr(count_of("rank", "invalid", 1)));
  EXPECT_THAT(metrics, HasSubstr(count_of("", "not_found", 1)));
  // Whoever is not known, or not for sure, is refused before the message is read: its model and id are not known.
  EXPECT_THAT(metrics, HasSubstr(count_of("", "unauthenticated", 1)));
  EXPECT_THAT(metrics, HasSubstr(count_of("", "invalid", 1)));
  EXPECT_THAT(metrics, HasSubstr("tangram_tenant_requests_in_flight{tenant=\"search\"} 0\n"));
  EXPECT_THAT(summaries(server),
              testing::ElementsAre("seven rank search refused 400 invalid", "seven - search refused 404 not_found",
                                   "seven rank search served 200 -", "seven rank search refused 429 quota",
                                   "- - - refused 401 unauthenticated", "- - - refused 400 invalid"));
}

#endif

}  // namespace
}  // namespace tangram::serve
