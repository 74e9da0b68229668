#include "engines/remote/remote_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "client/http_client.h"
#include "engines/tensor_memory.h"
#include "host/test_certificates.h"
#include "serve/server.h"
#include "serve/test_calls.h"
#include "serve/test_deployment.h"

namespace tangram::serve {
namespace {

using namespace std::chrono_literals;
using engines::kRemoteEngine;
using engines::parse_remote_address;
using engines::read_remote_answer;
using engines::write_remote_request;

engines::ModelSpec encoder() {
  return {.service = ServiceId(0),
          .name = "rank",
          .network = "encoder",
          .signature = test::workload().services[0].signature()};
}

struct Batch {
  explicit Batch(const engines::ModelSpec& model) : piece(*engines::memory_needed(model.signature, job)) {
    engines::cut_memory(model.signature, job, piece.data(), memory);
  }
  engines::BatchJob job{.batch = BatchId(7), .service = ServiceId(0), .samples = 2, .size = 3};
  std::vector<std::byte> piece;
  engines::BatchMemory memory;
};

// Two samples of three INT64 and as many of the mask: 48 bytes each behind the JSON.
TEST(Remote, AsksAsTheProtocolWants) {
  const auto model = encoder();
  Batch batch(model);
  std::ranges::fill(batch.memory.inputs[0], std::byte{'a'});
  std::ranges::fill(batch.memory.inputs[1], std::byte{'b'});
  const std::string request = write_remote_request(model, batch.job, batch.memory, "Host: 127.0.0.1:99\r\n");
  EXPECT_THAT(request, testing::StartsWith("POST /v2/models/encoder/infer HTTP/1.1\r\nHost: 127.0.0.1:99\r\n"));
  EXPECT_THAT(request, testing::HasSubstr(R"("shape":[2,3])"));
  EXPECT_THAT(request, testing::HasSubstr(R"("binary_data_size":48)"));
  EXPECT_THAT(request, testing::EndsWith("}" + std::string(48, 'a') + std::string(48, 'b')));
}

// Outputs may come in any order; 2 x 3 x 4 and 2 x 2 x 3 x 8 bytes.
TEST(Remote, TakesOutputsByName) {
  const auto model = encoder();
  Batch batch(model);
  const std::string json =
      R"({"outputs":[{"name":"tokens","datatype":"UINT64","shape":[2,2,3],"parameters":{"binary_data_size":96}},)"
      R"({"name":"pooled","datatype":"FP32","shape":[2,3],"parameters":{"binary_data_size":24}}]})";
  const std::string body = json + std::string(96, 't') + std::string(24, 'p');
  ASSERT_TRUE(read_remote_answer(model, body, json.size(), batch.memory));
  EXPECT_THAT(batch.memory.outputs[0], testing::Each(std::byte{'p'}));
  EXPECT_THAT(batch.memory.outputs[1], testing::Each(std::byte{'t'}));
}

TEST(Remote, RefusesAnswersThatAreNotThoseOfTheModel) {
  const auto model = encoder();
  Batch batch(model);
  const auto refused = [&](const std::string& json, std::size_t bytes, std::size_t json_length) {
    const auto read = read_remote_answer(model, json + std::string(bytes, 'x'), json_length, batch.memory);
    return read ? std::string("accepted") : read.error().message;
  };
  const std::string tokens = R"({"name":"tokens","datatype":"UINT64","parameters":{"binary_data_size":96}})";
  const std::string pooled = R"({"name":"pooled","datatype":"FP32","parameters":{"binary_data_size":24}})";
  const std::string good = R"({"outputs":[)" + tokens + "," + pooled + "]}";
  EXPECT_EQ(refused(good, 120, good.size()), "accepted");
  EXPECT_THAT(refused(good, 119, good.size()), testing::HasSubstr("bytes are missing"));
  EXPECT_THAT(refused(good, 0, good.size() + 1), testing::HasSubstr("longer than the answer"));
  const std::string one = R"({"outputs":[)" + tokens + "]}";
  EXPECT_THAT(refused(one, 96, one.size()), testing::HasSubstr("no output 'pooled'"));
  std::string other = good;
  other.replace(other.find("FP32"), 4, "FP64");
  EXPECT_THAT(refused(other, 120, other.size()), testing::HasSubstr("is not FP32 with 24 bytes"));
  for (const std::string json : {"", "[]", "{}", R"({"outputs":[{}]})", R"({"outputs":[{"name":"pooled"}]})"}) {
    EXPECT_THAT(refused(json, 0, json.size()), testing::HasSubstr("sent an invalid answer")) << json;
  }
}

TEST(Remote, ReadsAddressesInNumbers) {
  EXPECT_EQ(*parse_remote_address("10.0.0.1:8000"), (host::Endpoint{.address = "10.0.0.1", .port = 8000}));
  EXPECT_EQ(*parse_remote_address("[fe80::1]:8000"), (host::Endpoint{.address = "fe80::1", .port = 8000}));
  for (const char* text : {"", "10.0.0.1", "host:80", "10.0.0.1:0", "10.0.0.1:70000", "10.0.0.1:x", "fe80::1:8000",
                           "[fe80::1]", "[10.0.0.1]:80", "[]:80"}) {
    EXPECT_FALSE(parse_remote_address(text)) << text;
  }
}

struct NoEvents final : engines::ExecutorEvents {
  void on_done(SliceId, BatchId, std::string) override {}
  void on_lost(SliceId, std::string) override {}
  void on_restarted(SliceId, bool) override {}
  void on_rejected_upstream(SliceId, Duration) override {}
};

// A server that is started here has another port after each start, and its process is watched: nothing asks it, and
// nothing of it stays behind.
TEST(Remote, AsksOnlyServersOfOthersWhetherTheyLive) {
  host::EventLoop loop;
  const host::LiveClock clock;
  host::LogWriter log(memfd_create("log", 0));
  NoEvents events;
  engines::Remotes remotes(loop, clock, log);
  for (std::uint16_t port = 1; port < 4; ++port) {
    const auto link = remotes.make(
        SliceId(0), {.address = {.port = port}, .caller = {}, .title = "a", .models = {encoder()}, .starts = true},
        events);
    EXPECT_EQ(remotes.next_due(), kTimeNever);
  }
  const auto link =
      remotes.make(SliceId(0), {.address = {.port = 9}, .caller = {}, .title = "a", .models = {encoder()}}, events);
  EXPECT_NE(remotes.next_due(), kTimeNever);
}

// Asks again and again, for far too long at most.
template <typename Done>
bool until(Done&& done) {
  const auto limit = std::chrono::steady_clock::now() + 30s;
  while (std::chrono::steady_clock::now() < limit) {
    if (done()) return true;
  }
  return false;
}

// A server with free ports on a thread of its own.
class OtherServer {
 public:
  OtherServer(const Workload& workload, sched::Deployment deployment, ServerConfig config)
      : file_(memfd_create("log", MFD_CLOEXEC)), log_(std::make_unique<host::LogWriter>(file_)) {
    config.metrics_port = 0;
    config.emulated.time_scale = 0.1;
    server_ = std::make_unique<Server>(std::move(deployment), workload, std::move(config), *log_);
    EXPECT_TRUE(server_->open());
    thread_ = std::thread([this] { server_->run(); });
  }
  ~OtherServer() {
    server_->request_stop();
    thread_.join();
    server_.reset();
    log_.reset();
    close(file_);
  }
  OtherServer(const OtherServer&) = delete;
  OtherServer& operator=(const OtherServer&) = delete;
  std::uint16_t port() const { return server_->http_port(); }
  void reload() { server_->request_reload(); }
  client::HttpAnswer ask(const std::string& path, const std::string& body = "") const {
    auto answer =
        client::ask_http({.port = port(), .method = body.empty() ? "GET" : "POST", .path = path, .body = body});
    return answer ? *answer : client::HttpAnswer{};
  }
  std::string log() const { return test::written_to(file_); }
  // Asks until it is ready; each question waits for its answer, so this does not spin.
  bool wait_until_ready() const {
    return until([&] { return ask("/v2/health/ready").status == 200; });
  }

 private:
  int file_;
  std::unique_ptr<host::LogWriter> log_;
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

ServerConfig at_port(std::uint16_t port) {
  ServerConfig config;
  config.http_port = port;
  return config;
}

// The same plan for a service that is called as the network is: what a second Tangram serves it as.
sched::Deployment renamed(Workload& workload) {
  workload = test::workload();
  workload.services[0].name = "encoder";
  sched::Deployment deployment = test::deployment();
  deployment.services[0].name = "encoder";
  return deployment;
}

// That second Tangram.
OtherServer second_server(ServerConfig config = at_port(0)) {
  Workload workload;
  sched::Deployment deployment = renamed(workload);
  return {workload, std::move(deployment), std::move(config)};
}

// A gateway whose slices run on the server at this port, which knows it by the key.
ServerConfig on_server(std::uint16_t port, const std::string& key = "") {
  ServerConfig config = at_port(0);
  config.engine = kRemoteEngine;
  config.remotes = {{"127.0.0.1", port}};
  config.remote_caller.key = key;
  return config;
}
OtherServer first_server(ServerConfig config) { return {test::workload(), test::deployment(), std::move(config)}; }

// A gateway whose slices run on a second server gives the answers that the second gives, also while that is away: then
// requests fail with the reason, and the slices come back by themselves when it does.
TEST(Remote, RunsBatchesOnASecondServer) {
  const std::string question =
      R"({"inputs":[{"name":"ids","datatype":"INT64","shape":[2,3],"data":[1,2,3,4,5,6]}],"parameters":{"tangram_deadline_ms":60000}})";
  Workload there_workload;
  const sched::Deployment there_deployment = renamed(there_workload);
  auto there = std::make_unique<OtherServer>(there_workload, there_deployment, at_port(0));
  const std::uint16_t there_port = there->port();
  const OtherServer here = first_server(on_server(there_port));
  ASSERT_TRUE(here.wait_until_ready());
  const auto strip = [](std::string body) {
    const auto at = body.find("\"outputs\"");
    return at == std::string::npos ? body : body.substr(at);
  };
  const client::HttpAnswer near = here.ask("/v2/models/rank/infer", question);
  const client::HttpAnswer far = there->ask("/v2/models/encoder/infer", question);
  ASSERT_EQ(near.status, 200) << near.body;
  EXPECT_EQ(strip(near.body), strip(far.body));

  there.reset();
  client::HttpAnswer lost = here.ask("/v2/models/rank/infer", question);
  EXPECT_TRUE(lost.status == 500 || lost.status == 503) << lost.status << lost.body;
  there = std::make_unique<OtherServer>(there_workload, there_deployment, at_port(there_port));
  EXPECT_TRUE(until([&] { return here.ask("/v2/models/rank/infer", question).status == 200; }));
}

std::size_t times(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

// Nobody sends a request: the gateway notices by itself that the server is gone, and that it is back.
TEST(Remote, NoticesThatTheSecondServerIsGoneWhileNothingRuns) {
  Workload there_workload;
  const sched::Deployment there_deployment = renamed(there_workload);
  auto there = std::make_unique<OtherServer>(there_workload, there_deployment, at_port(0));
  const std::uint16_t there_port = there->port();
  const OtherServer here = first_server(on_server(there_port));
  ASSERT_TRUE(here.wait_until_ready());
  there.reset();
  EXPECT_TRUE(until([&] { return here.ask("/v2/health/ready").status != 200; })) << here.log();
  EXPECT_NE(here.ask("/v2/models/rank/ready").status, 200);
  there = std::make_unique<OtherServer>(there_workload, there_deployment, at_port(there_port));
  EXPECT_TRUE(here.wait_until_ready()) << here.log();
}

// The server lives, and has lost the model: nobody sends a request, and the gateway says so all the same.
TEST(Remote, NoticesThatTheSecondServerHasLostTheModelWhileNothingRuns) {
  const OtherServer there = second_server();
  const OtherServer here = first_server(on_server(there.port()));
  ASSERT_TRUE(here.wait_until_ready());
  ASSERT_EQ(there.ask("/v2/repository/models/encoder/unload", "{}").status, 200);
  EXPECT_TRUE(until([&] { return here.ask("/v2/models/rank/ready").status != 200; })) << here.log();
  EXPECT_EQ(there.ask("/v2/health/live").status, 200);
  EXPECT_TRUE(until([&] { return times(here.log(), "model 'encoder' is no longer ready on it") > 0; })) << here.log();
  ASSERT_EQ(there.ask("/v2/repository/models/encoder/load", "{}").status, 200);
  EXPECT_TRUE(here.wait_until_ready()) << here.log();
}

// A question that waits for slices which are not ready for 0.2 s.
const char* const kBriefQuestion =
    R"({"inputs":[{"name":"ids","datatype":"INT64","shape":[1,2],"data":[1,2]}],"parameters":{"tangram_deadline_ms":200}})";

// The model is unloaded there in mid-run: nothing is wrong with the request or here, so clients hear 503 and may try
// again; the slices come back by themselves.
TEST(Remote, IsUnavailableWhileTheSecondServerIs) {
  const OtherServer there = second_server();
  const OtherServer here = first_server(on_server(there.port()));
  ASSERT_TRUE(here.wait_until_ready());
  ASSERT_EQ(there.ask("/v2/repository/models/encoder/unload", "{}").status, 200);
  for (int i = 0; i < 3; ++i) {
    const client::HttpAnswer answer = here.ask("/v2/models/rank/infer", kBriefQuestion);
    EXPECT_EQ(answer.status, 503) << answer.body;
    EXPECT_THAT(answer.head, testing::HasSubstr("Retry-After: 1"));
  }
  EXPECT_THAT(here.log(), testing::HasSubstr("remote_not_ready"));
  ASSERT_EQ(there.ask("/v2/repository/models/encoder/load", "{}").status, 200);
  EXPECT_TRUE(until([&] { return here.ask("/v2/models/rank/infer", kBriefQuestion).status == 200; }));
}

// The key is good for one request and, at this rate, for the next in a hundred seconds. That is passed on.
TEST(Remote, PassesOnHowLongTheSecondServerHasNoRoom) {
  const NewKey key = make_key();
  ServerConfig there_config = at_port(0);
  there_config.security.access = formats::Access{{{.name = "gateway", .keys = {key.kept}, .rate_per_s = 0.01}}};
  const OtherServer there = second_server(std::move(there_config));
  const OtherServer here = first_server(on_server(there.port(), key.text));
  ASSERT_TRUE(here.wait_until_ready());
  EXPECT_EQ(here.ask("/v2/models/rank/infer", kBriefQuestion).status, 200);
  const client::HttpAnswer refused = here.ask("/v2/models/rank/infer", kBriefQuestion);
  EXPECT_EQ(refused.status, 429) << refused.body;
  EXPECT_EQ(times(here.log(), "batch_failed"), 0u) << here.log();
  EXPECT_TRUE(refused.head.find("Retry-After: 100\r") != std::string::npos ||
              refused.head.find("Retry-After: 99\r") != std::string::npos)
      << refused.head;
}

// The key is withdrawn in mid-run. The slices are not ready then, as at the start: no request fails for it by itself.
TEST(Remote, IsNotReadyWhenTheSecondServerNoLongerLetsItIn) {
  const NewKey key = make_key();
  const NewKey other = make_key();
  std::atomic<bool> withdrawn{false};
  ServerConfig there_config = at_port(0);
  const auto access = [&](bool none) {
    return formats::Access{{{.name = "gateway", .keys = {none ? other.kept : key.kept}}}};
  };
  there_config.security.access = access(false);
  there_config.reload_security = [&]() -> Result<Security> { return Security{std::nullopt, access(withdrawn)}; };
  OtherServer there = second_server(std::move(there_config));
  const OtherServer here = first_server(on_server(there.port(), key.text));
  ASSERT_TRUE(here.wait_until_ready());
  EXPECT_EQ(here.ask("/v2/models/rank/infer", kBriefQuestion).status, 200);
  withdrawn = true;
  there.reload();
  ASSERT_TRUE(until([&] { return here.ask("/v2/models/rank/infer", kBriefQuestion).status == 503; }));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(here.ask("/v2/models/rank/infer", kBriefQuestion).status, 503);
  EXPECT_THAT(here.log(), testing::HasSubstr("it denies access"));
  EXPECT_EQ(times(here.log(), "batch_failed"), 0u) << here.log();
  withdrawn = false;
  there.reload();
  EXPECT_TRUE(until([&] { return here.ask("/v2/models/rank/infer", kBriefQuestion).status == 200; }));
}

// The second server takes another key from now on. So does the first, when it reads its own files again.
TEST(Remote, ShowsTheKeyOfTheLastReload) {
  const NewKey key = make_key();
  const NewKey next = make_key();
  ServerConfig there_config = at_port(0);
  there_config.security.access = formats::Access{{{.name = "gateway", .keys = {key.kept}}}};
  there_config.reload_security = [&]() -> Result<Security> {
    return Security{std::nullopt, formats::Access{{{.name = "gateway", .keys = {next.kept}}}}};
  };
  OtherServer there = second_server(std::move(there_config));
  ServerConfig config = on_server(there.port(), key.text);
  config.reload_remote_caller = [&]() -> Result<engines::RemoteCaller> {
    return engines::RemoteCaller{.key = next.text};
  };
  OtherServer here = first_server(std::move(config));
  ASSERT_TRUE(here.wait_until_ready());
  EXPECT_EQ(here.ask("/v2/models/rank/infer", kBriefQuestion).status, 200);
  there.reload();
  ASSERT_TRUE(until([&] { return here.ask("/v2/models/rank/infer", kBriefQuestion).status == 503; }));
  here.reload();
  EXPECT_TRUE(until([&] { return here.ask("/v2/models/rank/infer", kBriefQuestion).status == 200; })) << here.log();
}

// The second server asks for a certificate and for a key. One who has both is served; one without the key, and one who
// does not trust it, say so and are not ready.
TEST(Remote, RunsBatchesOverTlsWithAKey) {
  const std::string question =
      R"({"inputs":[{"name":"ids","datatype":"INT64","shape":[1,2],"data":[1,2]}],"parameters":{"tangram_deadline_ms":60000}})";
  const host::test::Authority authority("ca");
  const host::test::Authority stranger("stranger");
  const NewKey key = make_key();
  ServerConfig there_config = at_port(0);
  there_config.security.tls = authority.server();
  there_config.security.tls->authorities = authority.pem();
  there_config.security.access = formats::Access{{{.name = "gateway", .keys = {key.kept}}}};
  const OtherServer there = second_server(std::move(there_config));
  const auto asked_with = [&](const std::string& shown, const host::test::Authority& trusted) {
    host::TlsMaterial own = authority.issue("gateway");
    own.authorities = trusted.pem();
    ServerConfig config = on_server(there.port());
    config.remote_caller = {shown, *host::TlsContext::for_client(own), "localhost"};
    return config;
  };
  const OtherServer here = first_server(asked_with(key.text, authority));
  ASSERT_TRUE(here.wait_until_ready()) << here.log();
  for (int i = 0; i < 20; ++i) {
    const client::HttpAnswer answer = here.ask("/v2/models/rank/infer", question);
    ASSERT_EQ(answer.status, 200) << answer.body;
  }
  const OtherServer nobody = first_server(asked_with("", authority));
  // Each question waits for its answer, so this does not spin.
  const auto says = [](const OtherServer& server, const std::string& what) {
    return until([&] { return server.ask("/v2").status == 200 && server.log().find(what) != std::string::npos; });
  };
  EXPECT_TRUE(says(nobody, "it denies access")) << nobody.log();
  const OtherServer wary = first_server(asked_with(key.text, stranger));
  EXPECT_TRUE(says(wary, "certificate verify failed")) << wary.log();
  EXPECT_NE(wary.ask("/v2/health/ready").status, 200);
}

}  // namespace
}  // namespace tangram::serve
