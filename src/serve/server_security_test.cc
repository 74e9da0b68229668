// Servers that ask who calls, as clients meet them.

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <thread>

#include "client/http_client.h"
#include "host/listen_socket.h"
#include "host/test_certificates.h"
#include "serve/grpc_server.h"
#include "serve/server.h"
#include "serve/test_deployment.h"

#ifdef TANGRAM_WITH_GRPC
#include <grpcpp/grpcpp.h>

#include "inference.grpc.pb.h"
#endif

namespace tangram::serve {
namespace {

using testing::HasSubstr;

constexpr const char* kInfer = "/v2/models/rank/infer";
const std::string kAsked = R"({"inputs":[{"name":"ids","datatype":"INT64","shape":[1,2],"data":[1,2]}],)"
                           R"("parameters":{"tangram_deadline_ms":60000}})";

std::shared_ptr<const host::TlsContext> trusting(const std::string& authorities, host::TlsMaterial own = {}) {
  own.authorities = authorities;
  auto made = host::TlsContext::for_client(own);
  EXPECT_TRUE(made) << made.error().message;
  return *made;
}

// A server with free ports that runs until the test ends, and what its clients need.
class SecureServer {
 public:
  explicit SecureServer(ServerConfig config = {})
      : sink_(open("/dev/null", O_WRONLY)), log_(std::make_unique<host::LogWriter>(sink_)) {
    config.http_port = config.metrics_port = 0;
    if (has_grpc()) config.grpc_port = 0;
    config.emulated.time_scale = 0;
    server_ = std::make_unique<Server>(test::deployment(), test::workload(), std::move(config), *log_);
    const auto opened = server_->open();
    EXPECT_TRUE(opened) << opened.error().message;
    thread_ = std::thread([this] { server_->run(); });
  }
  ~SecureServer() {
    server_->request_stop();
    thread_.join();
    server_.reset();
    log_.reset();
    close(sink_);
  }
  SecureServer(const SecureServer&) = delete;
  SecureServer& operator=(const SecureServer&) = delete;

  client::HttpQuestion question(const std::string& path, const std::string& key = "",
                                const std::string& body = "") const {
    client::HttpQuestion asked{
        .port = server_->http_port(), .method = body.empty() ? "GET" : "POST", .path = path, .body = body};
    asked.key = key;
    asked.tls = tls;
    return asked;
  }
  client::HttpAnswer ask(const client::HttpQuestion& asked) const {
    auto answer = client::ask_http(asked);
    EXPECT_TRUE(answer) << answer.error().message;
    return answer ? std::move(*answer) : client::HttpAnswer{};
  }
  int status(const std::string& path, const std::string& key = "", const std::string& body = "") const {
    return ask(question(path, key, body)).status;
  }
  int admin_status(const std::string& method, const std::string& path, const std::string& key = "") const {
    client::HttpQuestion asked = question(path, key);
    asked.port = server_->metrics_port();
    asked.method = method;
    return ask(asked).status;
  }
  Server& server() { return *server_; }

  std::shared_ptr<const host::TlsContext> tls;

 private:
  int sink_;
  std::unique_ptr<host::LogWriter> log_;
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

ServerConfig with_tls(const host::TlsMaterial& material, int threads = 1) {
  ServerConfig config;
  config.threads = threads;
  config.security.tls = material;
  return config;
}

struct Keys {
  NewKey client = make_key();
  NewKey viewer = make_key();
  NewKey admin = make_key();

  formats::Access access(const formats::AccessTenant& limits = {}) const {
    formats::AccessTenant search = limits;
    search.name = "search";
    search.keys = {client.kept};
    formats::AccessTenant watch{.name = "watch", .role = formats::AccessRole::viewer, .keys = {viewer.kept}};
    formats::AccessTenant ops{.name = "ops", .role = formats::AccessRole::admin, .keys = {admin.kept}};
    return {{search, watch, ops}};
  }
};

// A plain connection to a port of this machine.
struct RawSocket {
  explicit RawSocket(std::uint16_t port) : descriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ~RawSocket() { close(descriptor); }
  RawSocket(const RawSocket&) = delete;
  RawSocket& operator=(const RawSocket&) = delete;

  // Reads until the server closes; false if it has not after far too long.
  bool closed() const {
    const timeval patience{.tv_sec = 30, .tv_usec = 0};
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    std::array<char, 256> bytes;
    ssize_t got = 0;
    do {
      got = recv(descriptor, bytes.data(), bytes.size(), 0);
    } while (got > 0);
    return got == 0 || errno == ECONNRESET;
  }

  int descriptor;
};

TEST(SecureServerTls, AnswersOverHttpsOnEveryThread) {
  const host::test::Authority authority("authority");
  for (const int threads : {1, 3}) {
    SecureServer server(with_tls(authority.server(), threads));
    server.tls = trusting(authority.pem());
    for (int i = 0; i < 8; ++i) EXPECT_EQ(server.status(kInfer, "", kAsked), 200);
    EXPECT_EQ(server.admin_status("GET", "/metrics"), 200);
  }
}

// Eight megabytes up, and an answer that has to be sent in many records.
TEST(SecureServerTls, CarriesLargeBodies) {
  const host::test::Authority authority("authority");
  SecureServer server(with_tls(authority.server()));
  server.tls = trusting(authority.pem());
  const std::string padded = kAsked + std::string(8 << 20, ' ');
  EXPECT_EQ(server.status(kInfer, "", padded), 200);
  EXPECT_EQ(server.status(kInfer, "", std::string(8 << 20, ' ')), 400);
}

TEST(SecureServerTls, TellsPlainHttpThatThisPortSpeaksHttps) {
  const host::test::Authority authority("authority");
  SecureServer server(with_tls(authority.server()));
  const client::HttpAnswer answer = server.ask(server.question("/v2"));
  EXPECT_EQ(answer.status, 400);
  EXPECT_THAT(answer.body, HasSubstr("HTTPS"));
}

TEST(SecureServerTls, TurnsAwayWhoHasNoGoodCertificate) {
  const host::test::Authority authority("authority");
  const host::test::Authority foreign("foreign");
  host::TlsMaterial material = authority.server();
  material.authorities = authority.pem();
  SecureServer server(with_tls(material));
  server.tls = trusting(authority.pem());
  EXPECT_FALSE(client::ask_http(server.question("/v2")));
  server.tls = trusting(authority.pem(), foreign.issue("search"));
  EXPECT_FALSE(client::ask_http(server.question("/v2")));
  server.tls = trusting(authority.pem(), authority.issue("search"));
  EXPECT_EQ(server.status("/v2"), 200);
}

// A client that says nothing, one that stops inside its hello, and one that talks rubbish hold nobody up, and the first
// two are let go when the time for a handshake is over.
TEST(SecureServerTls, IsNotHeldUpByClientsThatDoNotShakeHands) {
  const host::test::Authority authority("authority");
  ServerConfig config = with_tls(authority.server());
  config.limits.grace = std::chrono::milliseconds(200);
  SecureServer server(std::move(config));
  server.tls = trusting(authority.pem());
  const RawSocket silent(server.server().http_port());
  const RawSocket halting(server.server().http_port());
  const RawSocket rubbish(server.server().http_port());
  const std::string hello("\x16\x03\x01\x02\x00\x01\x00", 7);
  ASSERT_EQ(send(halting.descriptor, hello.data(), hello.size(), MSG_NOSIGNAL), 7);
  ASSERT_GT(send(rubbish.descriptor, "\xff\xff\xff\xff\xff\xff\xff\xff", 8, MSG_NOSIGNAL), 0);
  EXPECT_EQ(server.status(kInfer, "", kAsked), 200);
  EXPECT_TRUE(rubbish.closed());
  EXPECT_TRUE(halting.closed());
  EXPECT_TRUE(silent.closed());
  EXPECT_EQ(server.status(kInfer, "", kAsked), 200);
}

// The next connection meets the new certificate, which another authority signed.
TEST(SecureServerTls, TakesNewCertificatesAndKeysOnReload) {
  const host::test::Authority before("before");
  const host::test::Authority after("after");
  Keys keys;
  Keys later;
  ServerConfig config = with_tls(before.server());
  config.security.access = keys.access();
  std::atomic<bool> broken{true};
  config.reload_security = [&]() -> Result<Security> {
    if (broken) return Error{ErrorCode::invalid, "access.yaml:1:1: wrong"};
    return Security{after.server(), later.access()};
  };
  SecureServer server(std::move(config));
  server.tls = trusting(before.pem());
  EXPECT_EQ(server.status("/v2", keys.client.text), 200);
  EXPECT_EQ(server.admin_status("POST", "/reload", keys.admin.text), 200);
  EXPECT_EQ(server.status("/v2", keys.client.text), 200);  // A wrong file changes nothing.
  broken = false;
  server.tls = trusting(before.pem() + after.pem());
  // The reload may be under way still; keys change last.
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (server.status("/v2", later.client.text) != 200 && std::chrono::steady_clock::now() < limit) {
    server.server().request_reload();
  }
  EXPECT_EQ(server.status("/v2", keys.client.text), 401);
  server.tls = trusting(after.pem());
  EXPECT_EQ(server.status("/v2", later.client.text), 200);
  server.tls = trusting(before.pem());
  EXPECT_FALSE(client::ask_http(server.question("/v2", later.client.text)));
}

TEST(SecureServerAccess, AsksEveryoneButProbesWhoTheyAre) {
  const Keys keys;
  ServerConfig config;
  config.security.access = keys.access();
  SecureServer server(std::move(config));
  EXPECT_EQ(server.status("/v2/health/live"), 200);
  const client::HttpAnswer refused = server.ask(server.question("/v2"));
  EXPECT_EQ(refused.status, 401);
  EXPECT_THAT(refused.head, HasSubstr("WWW-Authenticate: Bearer"));
  EXPECT_THAT(refused.body, HasSubstr(R"({"error":")"));
  EXPECT_EQ(server.status("/no/such/address"), 401);
  EXPECT_EQ(server.status(kInfer, "", kAsked), 401);
  EXPECT_EQ(server.status(kInfer, "tangram_k1_wrong", kAsked), 401);
  EXPECT_EQ(server.status(kInfer, keys.client.text, kAsked), 200);
  EXPECT_EQ(server.status(kInfer, "", std::string(1 << 20, 'x')), 401);  // Before the body is read.
}

TEST(SecureServerAccess, GivesEachRoleItsPart) {
  const Keys keys;
  ServerConfig config;
  config.security.access = keys.access();
  SecureServer server(std::move(config));
  const std::string load = "/v2/repository/models/rank/load";
  EXPECT_EQ(server.status(load, keys.client.text, "{}"), 403);
  EXPECT_EQ(server.status(load, keys.viewer.text, "{}"), 403);
  EXPECT_EQ(server.status(load, keys.admin.text, "{}"), 200);
  EXPECT_EQ(server.status("/v2/logging", keys.client.text, "{}"), 403);
  EXPECT_EQ(server.admin_status("GET", "/metrics"), 401);
  EXPECT_EQ(server.admin_status("GET", "/metrics", keys.client.text), 403);
  EXPECT_EQ(server.admin_status("GET", "/metrics", keys.viewer.text), 200);
  EXPECT_EQ(server.admin_status("POST", "/drain", keys.viewer.text), 403);
  EXPECT_EQ(server.admin_status("GET", "/v2/health/live"), 200);
}

TEST(SecureServerAccess, KeepsModelsFromTenantsThatMayNotUseThem) {
  const Keys keys;
  formats::AccessTenant limits;
  limits.models = {"another"};
  ServerConfig config;
  config.security.access = keys.access(limits);
  SecureServer server(std::move(config));
  const client::HttpAnswer answer = server.ask(server.question(kInfer, keys.client.text, kAsked));
  EXPECT_EQ(answer.status, 404);
  EXPECT_THAT(answer.body, HasSubstr("Request for unknown model: 'rank' is not found"));
  // Nothing tells it from a model that does not exist, whatever is asked of it.
  for (const std::string rest : {"/stats", "/infer", "/nothing", "/versions/7/ready", "/stats/more", ""}) {
    const auto ask_about = [&](const std::string& model) {
      client::HttpAnswer got = server.ask(server.question("/v2/models/" + model + rest, keys.client.text));
      const auto name = got.body.find(model);
      if (name != std::string::npos) got.body.replace(name, model.size(), "*");
      return std::to_string(got.status) + got.body;
    };
    EXPECT_EQ(ask_about("rank"), ask_about("none")) << rest;
  }
  EXPECT_EQ(server.status("/v2/models/stats", keys.client.text), 403);
  EXPECT_EQ(server.status("/v2/models/stats", keys.admin.text), 200);
}

// One request a day: the second says when to come again, and the metrics tell whose it was.
TEST(SecureServerAccess, RefusesBeyondTheQuotaAndCountsByTenant) {
  const Keys keys;
  formats::AccessTenant limits;
  limits.quota_per_day = 1;
  ServerConfig config;
  config.security.access = keys.access(limits);
  SecureServer server(std::move(config));
  EXPECT_EQ(server.status(kInfer, keys.client.text, kAsked), 200);
  const client::HttpAnswer answer = server.ask(server.question(kInfer, keys.client.text, kAsked));
  EXPECT_EQ(answer.status, 429);
  EXPECT_THAT(answer.head, HasSubstr("Retry-After: "));
  EXPECT_EQ(server.status(kInfer, keys.admin.text, kAsked), 200);  // Another's quota.
  client::HttpQuestion metrics = server.question("/metrics", keys.viewer.text);
  metrics.port = server.server().metrics_port();
  const std::string text = server.ask(metrics).body;
  EXPECT_THAT(text, HasSubstr("tangram_tenant_requests_total{tenant=\"search\",outcome=\"served\"} 1"));
  EXPECT_THAT(text, HasSubstr("tangram_tenant_refused_total{tenant=\"search\",reason=\"quota\"} 1"));
  EXPECT_THAT(text, HasSubstr("tangram_tenant_requests_in_flight{tenant=\"search\"} 0"));
}

TEST(SecureServerAccess, KnowsATenantByItsCertificate) {
  const host::test::Authority authority("authority");
  host::TlsMaterial material = authority.server();
  material.authorities = authority.pem();
  ServerConfig config = with_tls(material);
  formats::AccessTenant tenant{.name = "search"};
  tenant.certificate_names = {"search.example"};
  config.security.access = formats::Access{{tenant}};
  SecureServer server(std::move(config));
  server.tls = trusting(authority.pem(), authority.issue("client-7", "DNS:search.example"));
  EXPECT_EQ(server.status(kInfer, "", kAsked), 200);
  server.tls = trusting(authority.pem(), authority.issue("client-8"));
  EXPECT_EQ(server.status(kInfer, "", kAsked), 401);
}

// One client holds the one connection that there may be: the next is refused, and the operator still gets in.
TEST(SecureServerAccess, KeepsRoomForTheOperator) {
  ServerConfig config;
  config.limits.connections_max = 1;
  SecureServer server(std::move(config));
  EXPECT_EQ(server.status("/v2/health/live"), 200);
  const RawSocket holding(server.server().http_port());
  const std::string part = "GET /v2 HTTP/1.1\r\n";
  ASSERT_GT(send(holding.descriptor, part.data(), part.size(), MSG_NOSIGNAL), 0);
  const auto refused = client::ask_http(server.question("/v2/health/live"));
  EXPECT_TRUE(!refused || refused->status == 503);  // Closed at once: the answer may be lost on the way.
  EXPECT_EQ(server.admin_status("GET", "/status"), 200);
}

// The socket belongs to this user alone, and who may open it may do everything.
TEST(SecureServerAccess, TrustsWhoeverMayOpenTheAdminSocket) {
  const std::string folder = testing::TempDir() + "tangram-admin-" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  const std::string path = folder + "/admin.sock";
  const Keys keys;
  {
    ServerConfig config;
    config.security.access = keys.access();
    config.admin_socket = path;
    SecureServer server(std::move(config));
    client::HttpQuestion asked = server.question("/logging", "", R"({"level":"warning"})");
    asked.socket_path = path;
    const client::HttpAnswer answer = server.ask(asked);
    EXPECT_EQ(answer.status, 200);
    EXPECT_THAT(answer.body, HasSubstr(R"("level":"warning")"));
    EXPECT_EQ(std::filesystem::status(path).permissions(),
              std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    EXPECT_FALSE(host::listen_at_path(path));  // Somebody listens there.
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  const auto left_behind = host::listen_at_path(path);
  ASSERT_TRUE(left_behind);
  close(*left_behind);
  const auto again = host::listen_at_path(path);  // Nobody listens any more: it is replaced.
  EXPECT_TRUE(again);
  if (again) close(*again);
  std::filesystem::remove_all(folder);
}

#ifdef TANGRAM_WITH_GRPC

// One call over gRPC.
struct GrpcTried {
  grpc::Status status;
  std::multimap<std::string, std::string> trailers;
  std::multimap<std::string, std::string> initial;
};

GrpcTried infer_over_grpc(std::uint16_t port, const std::shared_ptr<grpc::ChannelCredentials>& credentials,
                          const std::vector<std::pair<std::string, std::string>>& metadata) {
  const auto stub =
      inference::GRPCInferenceService::NewStub(grpc::CreateChannel("127.0.0.1:" + std::to_string(port), credentials));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  for (const auto& [name, value] : metadata) context.AddMetadata(name, value);
  inference::ModelInferRequest request;
  request.set_model_name("rank");
  auto* input = request.add_inputs();
  input->set_name("ids");
  input->set_datatype("INT64");
  input->add_shape(1);
  input->add_shape(1);
  input->mutable_contents()->add_int64_contents(7);
  inference::ModelInferResponse response;
  GrpcTried tried;
  tried.status = stub->ModelInfer(&context, request, &response);
  for (const auto& [name, value] : context.GetServerTrailingMetadata()) {
    tried.trailers.emplace(std::string(name.data(), name.size()), std::string(value.data(), value.size()));
  }
  for (const auto& [name, value] : context.GetServerInitialMetadata()) {
    tried.initial.emplace(std::string(name.data(), name.size()), std::string(value.data(), value.size()));
  }
  return tried;
}

TEST(SecureServerGrpc, SpeaksTlsAndAsksForCertificates) {
  const host::test::Authority authority("authority");
  const host::test::Authority foreign("foreign");
  host::TlsMaterial material = authority.server();
  material.authorities = authority.pem();
  SecureServer server(with_tls(material));
  const auto own = authority.issue("search");
  const std::uint16_t port = server.server().grpc_port();
  const auto tried = [&](const std::string& roots, const host::TlsMaterial& shown) {
    return infer_over_grpc(port, grpc::SslCredentials({roots, shown.key, shown.certificate}), {}).status.error_code();
  };
  EXPECT_EQ(tried(authority.pem(), own), grpc::StatusCode::OK);
  EXPECT_EQ(tried(foreign.pem(), own), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(tried(authority.pem(), {}), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(tried(authority.pem(), foreign.issue("search")), grpc::StatusCode::UNAVAILABLE);
}

TEST(SecureServerGrpc, SaysWhoMayNotAndWhenToComeAgain) {
  const host::test::Authority authority("authority");
  const Keys keys;
  formats::AccessTenant limits;
  limits.quota_per_day = 1;
  ServerConfig config = with_tls(authority.server());
  config.security.access = keys.access(limits);
  config.security.access->tenants[1].models = {"another"};
  SecureServer server(std::move(config));
  const auto ask = [&](const std::vector<std::pair<std::string, std::string>>& metadata) {
    return infer_over_grpc(server.server().grpc_port(), grpc::SslCredentials({authority.pem(), "", ""}), metadata);
  };
  EXPECT_EQ(ask({}).status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(ask({{"authorization", "Bearer " + keys.viewer.text}}).status.error_code(), grpc::StatusCode::NOT_FOUND);
  const std::string trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const GrpcTried first = ask({{"authorization", "Bearer " + keys.client.text}, {"traceparent", trace}});
  EXPECT_TRUE(first.status.ok()) << first.status.error_message();
  EXPECT_EQ(first.initial.count("traceparent"), 1U);
  EXPECT_EQ(first.initial.find("traceparent")->second, trace);
  const GrpcTried second = ask({{"x-api-key", keys.client.text}});
  EXPECT_EQ(second.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(second.trailers.count("grpc-retry-pushback-ms"), 1U);
}

// Roles hold over gRPC as over HTTP, and a stream is asked, too.
TEST(SecureServerGrpc, GivesEachRoleItsPartAndAsksStreams) {
  const Keys keys;
  ServerConfig config;
  config.security.access = keys.access();
  SecureServer server(std::move(config));
  const auto stub = inference::GRPCInferenceService::NewStub(grpc::CreateChannel(
      "127.0.0.1:" + std::to_string(server.server().grpc_port()), grpc::InsecureChannelCredentials()));
  const auto load = [&](const std::string& key) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer " + key);
    inference::RepositoryModelLoadRequest request;
    request.set_model_name("rank");
    inference::RepositoryModelLoadResponse response;
    return stub->RepositoryModelLoad(&context, request, &response).error_code();
  };
  EXPECT_EQ(load(keys.client.text), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(load(keys.admin.text), grpc::StatusCode::OK);
  grpc::ClientContext live;
  inference::ServerLiveResponse alive;
  EXPECT_TRUE(stub->ServerLive(&live, {}, &alive).ok());
  grpc::ClientContext context;
  const auto stream = stub->ModelStreamInfer(&context);
  inference::ModelStreamInferResponse response;
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

TEST(SecureServerGrpc, TakesNewCertificatesOnReload) {
  const host::test::Authority before("before");
  const host::test::Authority after("after");
  ServerConfig config = with_tls(before.server());
  std::atomic<int> reloads{0};
  config.reload_security = [&]() -> Result<Security> {
    ++reloads;
    return Security{after.server(), std::nullopt};
  };
  SecureServer server(std::move(config));
  const auto tried = [&](const host::test::Authority& trusted) {
    return infer_over_grpc(server.server().grpc_port(), grpc::SslCredentials({trusted.pem(), "", ""}), {}).status.ok();
  };
  EXPECT_TRUE(tried(before));
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!tried(after) && std::chrono::steady_clock::now() < limit) server.server().request_reload();
  EXPECT_TRUE(tried(after));
  EXPECT_FALSE(tried(before));
  EXPECT_GE(reloads, 1);
}

#endif

}  // namespace
}  // namespace tangram::serve
