// What strangers and greedy clients can make a server hold, and who is served meanwhile: real servers, raw sockets.

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "host/content_coding.h"
#include "serve/server.h"
#include "serve/test_deployment.h"

namespace tangram::serve {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr std::uint64_t kMiB = 1 << 20;
const std::string kSmallQuestion =
    R"({"inputs":[{"name":"ids","datatype":"INT64","shape":[1,2],"data":[1,2]}],"parameters":{"tangram_deadline_ms":60000}})";

std::string post_with(const std::string& fields, const std::string& body,
                      const std::string& path = "/v2/models/rank/infer") {
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\n" + fields +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}
std::string get(const std::string& path, const std::string& fields = "Host: localhost\r\n") {
  return "GET " + path + " HTTP/1.1\r\n" + fields + "Connection: close\r\n\r\n";
}

// A client that says what it is told and waits for nothing.
class RawClient {
 public:
  explicit RawClient(std::uint16_t port, const char* from = "127.0.0.1", int receive_buffer = 0)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_buffer > 0) setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    inet_pton(AF_INET, from, &address.sin_addr);
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    address.sin_port = htons(port);
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    EXPECT_EQ(connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    const timeval patience{20, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  }
  ~RawClient() { close(fd_); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  // False: the server has closed.
  bool say(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  // Says what the socket takes without waiting. The number of bytes.
  std::size_t say_what_goes(std::string_view bytes) {
    const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return sent < 0 ? 0 : static_cast<std::size_t>(sent);
  }
  // What comes until the text contains this, or the server closes.
  std::string hear(std::string_view until = "\r\n\r\n") {
    std::string text;
    std::array<char, 65536> part;
    while (text.find(until) == std::string::npos) {
      const ssize_t got = recv(fd_, part.data(), part.size(), 0);
      if (got <= 0) return text;
      text.append(part.data(), static_cast<std::size_t>(got));
    }
    return text;
  }
  std::string hear_all() { return hear(std::string_view("\0never\0", 7)); }
  bool closed_within(std::chrono::milliseconds time) {
    const timeval patience{time.count() / 1000, (time.count() % 1000) * 1000};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    char byte = 0;
    const ssize_t got = recv(fd_, &byte, 1, 0);
    return got == 0 || (got < 0 && errno == ECONNRESET);
  }

 private:
  int fd_;
};

class LimitedServer {
 public:
  explicit LimitedServer(ServerConfig config = {}) : log_(STDERR_FILENO) {
    config.http_port = config.metrics_port = 0;
    config.emulated.time_scale = 0;
    config.log_level = host::LogLevel::error;
    server_ = std::make_unique<Server>(test::deployment(), test::workload(), std::move(config), log_);
    log_.set_level(host::LogLevel::error);
    const auto opened = server_->open();
    EXPECT_TRUE(opened) << opened.error().message;
    thread_ = std::thread([this] { server_->run(); });
    while (!HasReady()) std::this_thread::sleep_for(1ms);
  }
  ~LimitedServer() { stop(); }
  LimitedServer(const LimitedServer&) = delete;
  LimitedServer& operator=(const LimitedServer&) = delete;

  std::uint16_t port() const { return server_->http_port(); }
  std::uint16_t admin_port() const { return server_->metrics_port(); }
  std::string ask(const std::string& bytes, bool admin = false) {
    RawClient client(admin ? admin_port() : port());
    client.say(bytes);
    return client.hear_all();
  }
  std::string infer(const std::string& fields = "") {
    return ask(post_with(fields + "Connection: close\r\n", kSmallQuestion));
  }
  // A sample of the metrics.
  double metric(const std::string& name) {
    const std::string text = ask(get("/metrics"), true);
    const auto at = text.find("\n" + name + " ");
    EXPECT_NE(at, std::string::npos) << name;
    return at == std::string::npos ? 0 : std::strtod(text.c_str() + at + name.size() + 2, nullptr);
  }
  double held() { return metric("tangram_caller_memory_bytes{part=\"data\"}"); }
  void stop() {
    if (!thread_.joinable()) return;
    server_->request_stop();
    thread_.join();
  }
  Server& server() { return *server_; }

 private:
  bool HasReady() { return ask(get("/v2/health/ready")).find("200 OK") != std::string::npos; }

  host::LogWriter log_;
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

ServerConfig small_memory() {
  ServerConfig config;
  config.memory_max = 16 * kMiB;  // 14 for the data port, of which a connection may hold 7.
  return config;
}

// 40 announcements of 4 MiB: more than ten times what the server may hold, had they counted.
TEST(ServerLimits, AnAnnouncedBodyTakesNoMemoryBeforeItComes) {
  LimitedServer server(small_memory());
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 40; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port()));
    clients.back()->say("POST /v2/models/rank/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 4194304\r\n\r\n");
  }
  EXPECT_THAT(server.infer(), StartsWith("HTTP/1.1 200"));
  EXPECT_LT(server.held(), static_cast<double>(kMiB));
}

// Each client sends 6 of 7 MiB. The third finds less than 2 of 14 left, and is refused while others are served.
TEST(ServerLimits, BodiesInChunksAreChargedAsTheyCome) {
  LimitedServer server(small_memory());
  const std::string part = "100000\r\n" + std::string(kMiB, ' ') + "\r\n";
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port(), i == 2 ? "127.0.0.3" : "127.0.0.2"));
    clients.back()->say("POST /v2/models/rank/infer HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int n = 0; n < 6; ++n) clients.back()->say(part);
    // The server reads from all connections in turn: the second begins when all of the first has been charged.
    for (int n = 0; i == 0 && n < 4000 && server.held() < 6.0 * kMiB; ++n) std::this_thread::sleep_for(5ms);
  }
  // One address may hold half of the memory, and the first has used it with its first client.
  EXPECT_THAT(clients[1]->hear(), HasSubstr("503 Service Unavailable"));
  EXPECT_THAT(server.infer(), StartsWith("HTTP/1.1 200"));
  EXPECT_LE(server.metric("tangram_caller_memory_max_bytes{part=\"data\"}"), 14.0 * kMiB);
  clients.clear();
  for (int i = 0; i < 200 && server.held() > kMiB; ++i) std::this_thread::sleep_for(5ms);
  EXPECT_LT(server.held(), static_cast<double>(kMiB));
}

TEST(ServerLimits, ABodyThatCanNeverBeHeldIsRefusedByItsHead) {
  LimitedServer server(small_memory());
  RawClient client(server.port());
  client.say("POST /v2/models/rank/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 8000000\r\n\r\n");
  EXPECT_THAT(client.hear_all(), AllOf(StartsWith("HTTP/1.1 413"), HasSubstr("--memory-max")));
}

// The body of a request without a key is never kept: the strangers' account stays empty.
TEST(ServerLimits, BodiesOfStrangersAreNotKept) {
  ServerConfig config = small_memory();
  const NewKey key = make_key();
  formats::AccessTenant search{.name = "search"};
  search.keys = {key.kept};
  config.security.access = formats::Access{{search}};
  LimitedServer server(std::move(config));
  RawClient client(server.port());
  client.say("POST /v2/models/rank/infer HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  EXPECT_THAT(client.hear(), StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(server.infer("X-Api-Key: " + key.text + "\r\n"), StartsWith("HTTP/1.1 200"));
}

TEST(ServerLimits, PackedBodiesAreUnpackedUpToTheBodyLimit) {
  ServerConfig config;
  config.limits.body_max = kMiB;
  LimitedServer server(std::move(config));
  const auto ask_packed = [&](const std::string& coding, const std::string& body) {
    return server.ask(post_with("Connection: close\r\nContent-Encoding: " + coding + "\r\n", body));
  };
  for (const auto coding : {host::ContentCoding::gzip, host::ContentCoding::deflate}) {
    std::string packed;
    host::pack(coding, kSmallQuestion, packed);
    EXPECT_THAT(ask_packed(std::string(to_string(coding)), packed), StartsWith("HTTP/1.1 200"));
    EXPECT_THAT(ask_packed(std::string(to_string(coding)), packed.substr(0, packed.size() - 2)),
                AllOf(StartsWith("HTTP/1.1 400"), HasSubstr("cut off")));
    EXPECT_THAT(ask_packed(std::string(to_string(coding)), packed + "x"),
                AllOf(StartsWith("HTTP/1.1 400"), HasSubstr("follow")));
    // 2 MiB and 20 MiB of blanks, which are a few KiB.
    for (const std::size_t size : {2 * kMiB, 20 * kMiB}) {
      packed.clear();
      host::pack(coding, std::string(size, ' '), packed);
      EXPECT_THAT(ask_packed(std::string(to_string(coding)), packed), StartsWith("HTTP/1.1 413"));
    }
  }
  EXPECT_THAT(ask_packed("gzip", kSmallQuestion), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(ask_packed("br", kSmallQuestion), StartsWith("HTTP/1.1 415"));
  EXPECT_LT(server.held(), 64.0 * 1024);
}

// A packed body that takes many turns to unpack, in chunks, with another request behind it on the same connection.
TEST(ServerLimits, ALongPackedBodyIsUnpackedInTurnsAndTheNextRequestFollows) {
  LimitedServer server;
  std::string packed;
  host::pack(host::ContentCoding::gzip, kSmallQuestion + std::string(10 * kMiB, ' '), packed);
  char size[32];
  std::snprintf(size, sizeof size, "%zx\r\n", packed.size());
  RawClient client(server.port());
  client.say(
      "POST /v2/models/rank/infer HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\n" +
      std::string(size) + packed + "\r\n0\r\n\r\n" + get("/v2/health/live"));
  const std::string answers = client.hear_all();
  EXPECT_THAT(answers, AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("\"outputs\""), HasSubstr("{\"live\":true}")));
}

TEST(ServerLimits, AnswersArePackedForThoseWhoAskForIt) {
  LimitedServer server;
  std::string ids = "1";
  for (int i = 1; i < 128; ++i) ids += ",1";
  const std::string body = R"({"inputs":[{"name":"ids","datatype":"INT64","shape":[1,128],"data":[)" + ids +
                           R"(]}],"parameters":{"tangram_deadline_ms":60000}})";
  const std::string plain = server.ask(post_with("Connection: close\r\n", body));
  EXPECT_THAT(plain, Not(HasSubstr("Content-Encoding")));
  const std::string packed = server.ask(post_with("Connection: close\r\nAccept-Encoding: gzip\r\n", body));
  ASSERT_THAT(packed, AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("Content-Encoding: gzip\r\nVary: Accept-Encoding")));
  host::Unpacker unpacker(host::ContentCoding::gzip);
  std::string out(1 << 16, '\0');
  const auto step = unpacker.step(std::string_view(packed).substr(packed.find("\r\n\r\n") + 4), out.data(), out.size());
  EXPECT_EQ(unpacker.state(), host::Unpacker::State::done);
  EXPECT_EQ(out.substr(0, step.written), plain.substr(plain.find("\r\n\r\n") + 4));
}

// The plan takes sizes up to 128; converting 300,000 numbers to learn that would take 2 MiB and time.
TEST(ServerLimits, LargeJsonIsRefusedByItsShapeBeforeItIsConverted) {
  LimitedServer server(small_memory());
  std::string ids = "1";
  for (int i = 1; i < 300'000; ++i) ids += ",1";
  const std::string begin = R"({"inputs":[{"name":"ids","datatype":"INT64",)";
  const auto ask_shaped = [&](const std::string& rest) {
    return server.ask(post_with("Connection: close\r\n", begin + rest + "}]}"));
  };
  EXPECT_THAT(ask_shaped("\"shape\":[1,300000],\"data\":[" + ids + "]"),
              AllOf(StartsWith("HTTP/1.1 400"), HasSubstr("no slice of the plan accepts 1 samples of size 300000")));
  EXPECT_THAT(ask_shaped("\"data\":[" + ids + "],\"shape\":[1,300000]"),
              AllOf(StartsWith("HTTP/1.1 400"), HasSubstr("no slice of the plan accepts")));
  EXPECT_THAT(ask_shaped("\"shape\":[1,2],\"data\":[" + ids + "]"),
              AllOf(StartsWith("HTTP/1.1 400"), HasSubstr("more elements than the shape has")));
  EXPECT_LT(server.held(), static_cast<double>(kMiB));
}

// Two clients send 200 requests each and read nothing; a third is served. What they hold is within half of the memory.
TEST(ServerLimits, AnswersThatNobodyReadsAreBounded) {
  LimitedServer server(small_memory());
  std::string ids = "1";
  for (int i = 1; i < 128; ++i) ids += ",1";
  const std::string one = post_with("", R"({"inputs":[{"name":"ids","datatype":"INT64","shape":[1,128],"data":[)" +
                                            ids + R"(]}],"parameters":{"tangram_deadline_ms":60000}})");
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 2; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port(), "127.0.0.2", 4096));
    for (int n = 0; n < 4000 && clients.back()->say_what_goes(one) > 0; ++n) continue;
  }
  EXPECT_THAT(server.infer(), StartsWith("HTTP/1.1 200"));
  EXPECT_LE(server.metric("tangram_caller_memory_max_bytes{part=\"data\"}"), 14.0 * kMiB);
}

TEST(ServerLimits, ABodyThatPausesIsEndedHoweverMuchHasCome) {
  ServerConfig config;
  config.limits.grace = 300ms;
  LimitedServer server(std::move(config));
  RawClient client(server.port());
  client.say("POST /v2/models/rank/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 4194304\r\n\r\n" +
             std::string(4 * kMiB - 1, ' '));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(client.hear(), StartsWith("HTTP/1.1 408"));
  // By the average, 4 MiB at 4 KiB a second would have been a quarter of an hour.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
}

TEST(ServerLimits, OneAddressCannotTakeAllConnections) {
  ServerConfig config;
  config.limits.peer_max = 2;
  LimitedServer server(std::move(config));
  RawClient first(server.port(), "127.0.0.2");
  RawClient second(server.port(), "127.0.0.2");
  RawClient third(server.port(), "127.0.0.2");
  EXPECT_THAT(third.hear_all(), AllOf(StartsWith("HTTP/1.1 503"), HasSubstr("too many connections of one address")));
  EXPECT_THAT(server.infer(), StartsWith("HTTP/1.1 200"));
}

// The table has four places, which four silent clients have taken; each of three others finds one all the same.
TEST(ServerLimits, SilentConnectionsGiveWayToNewOnes) {
  ServerConfig config;
  config.limits.connections_max = 4;
  config.limits.peer_max = 100;
  config.limits.quiet_min = Duration::zero();
  LimitedServer server(std::move(config));
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 4; ++i) clients.push_back(std::make_unique<RawClient>(server.port(), "127.0.0.2"));
  for (int i = 0; i < 3; ++i) EXPECT_THAT(server.infer(), StartsWith("HTTP/1.1 200"));
  EXPECT_GE(server.metric("tangram_connections_gave_way_total"), 1);
}

TEST(ServerLimits, TheAdminPortRefusesPagesOfOtherSites) {
  ServerConfig config;
  config.cross_site.admin_hosts = {"ops.example"};
  LimitedServer server(std::move(config));
  const std::string here = "127.0.0.1:" + std::to_string(server.admin_port());
  const auto post_admin = [&](const std::string& fields) {
    return server.ask("POST /logging HTTP/1.1\r\n" + fields + "Connection: close\r\nContent-Length: 2\r\n\r\n{}", true);
  };
  EXPECT_THAT(post_admin("Host: " + here + "\r\n"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(post_admin("Host: " + here + "\r\nOrigin: http://" + here + "\r\n"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(post_admin("Host: ops.example\r\n"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(post_admin("Host: evil.example\r\n"), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(post_admin("Host: " + here + "\r\nOrigin: http://evil.example\r\n"), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(post_admin("Host: " + here + "\r\nSec-Fetch-Site: cross-site\r\n"), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(server.ask(get("/status", "Host: evil.example\r\n"), true), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(server.ask(get("/metrics", "Host: evil.example\r\n"), true), StartsWith("HTTP/1.1 200"));
  // At the data port, a page can neither unload a model nor, unless it may, read an answer.
  const std::string unload = "/v2/repository/models/rank/unload";
  EXPECT_THAT(server.ask(post_with("Origin: http://evil.example\r\nConnection: close\r\n", "{}", unload)),
              StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(server.infer("Origin: http://evil.example\r\n"), Not(HasSubstr("Access-Control")));
}

TEST(ServerLimits, PagesOfAllowedOriginsMayAsk) {
  ServerConfig config;
  config.cross_site.origins = {"https://app.example"};
  LimitedServer server(std::move(config));
  EXPECT_THAT(server.infer("Origin: https://app.example\r\n"),
              AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("Access-Control-Allow-Origin: https://app.example\r\n")));
  EXPECT_THAT(server.infer("Origin: https://other.example\r\n"), Not(HasSubstr("Access-Control")));
  EXPECT_THAT(
      server.ask("OPTIONS /v2/models/rank/infer HTTP/1.1\r\nHost: a\r\nOrigin: https://app.example\r\nConnection: "
                 "close\r\nAccess-Control-Request-Method: POST\r\n\r\n"),
      AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("Access-Control-Allow-Methods: GET, HEAD, POST\r\n")));
}

TEST(ServerLimits, MetricsAreOpenMetricsForThoseWhoAskForIt) {
  LimitedServer server;
  const std::string plain = server.ask(get("/metrics"), true);
  EXPECT_THAT(plain, AllOf(HasSubstr("Content-Type: text/plain; version=0.0.4"),
                           HasSubstr("# TYPE tangram_requests_total counter")));
  const std::string open = server.ask(
      get("/metrics", "Host: localhost\r\nAccept: application/openmetrics-text;version=1.0.0,text/plain\r\n"), true);
  EXPECT_THAT(open, AllOf(HasSubstr("Content-Type: application/openmetrics-text; version=1.0.0"),
                          HasSubstr("# TYPE tangram_requests counter"), testing::EndsWith("# EOF\n")));
}

// Half a minute of delay, ended by the second request to stop.
TEST(ServerLimits, ADrainThatIsDelayedIsSaidAndStillServes) {
  ServerConfig config;
  config.drain_delay = 30s;
  LimitedServer server(std::move(config));
  server.server().request_stop();
  std::string ready;
  for (int i = 0; i < 400 && ready.find("400 Bad") == std::string::npos; ++i) {
    ready = server.ask(get("/v2/health/ready"));
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_THAT(ready, HasSubstr("\"ready\":false"));
  EXPECT_THAT(server.infer(), StartsWith("HTTP/1.1 200"));
  const auto begin = std::chrono::steady_clock::now();
  server.stop();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
}

TEST(ServerLimits, AHalfSentBodyDoesNotHoldADrain) {
  LimitedServer server;
  RawClient client(server.port());
  client.say("POST /v2/models/rank/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nhalf");
  std::this_thread::sleep_for(50ms);
  const auto begin = std::chrono::steady_clock::now();
  server.stop();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 8s);
}

}  // namespace
}  // namespace tangram::serve
