// The API server over real sockets: a stand-in on loopback, plain and with TLS.
#include "adapters/kubernetes/kube_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "adapters/kubernetes/controller.h"
#include "adapters/kubernetes/test_api_server.h"
#include "client/test_listener.h"
#include "formats/plan_file.h"
#include "host/test_certificates.h"

namespace tangram::adapters {
namespace {

using namespace test;
using ::testing::HasSubstr;

void write_text(const std::filesystem::path& path, const std::string& text) { std::ofstream(path) << text; }

// Serves a TestApiServer over HTTP, one connection after the other but for watches, which stay open. One thread.
class HttpApi {
 public:
  explicit HttpApi(std::shared_ptr<const host::TlsContext> tls = nullptr) : tls_(std::move(tls)), thread_([this] { run(); }) {}
  ~HttpApi() {
    stop_ = true;
    thread_.join();
  }

  int port() const { return listener_.endpoint().port; }

  TestApiServer server;
  TestCluster cluster{server};
  std::atomic<int> requests{0};
  std::atomic<int> unauthorized{0};
  std::atomic<bool> drop_watches{false};
  std::atomic<bool> silent{false};
  std::string token = "first";  // Changed between requests only.
  std::mutex mutex;

 private:
  struct Connection {
    host::Descriptor socket;
    std::unique_ptr<host::TlsStream> tls;
    std::string in;
    bool watching = false;
    std::string collection;
    std::string selector;
    std::uint64_t version = 0;
  };

  void send(Connection& to, std::string_view text) const {
    while (!text.empty()) {
      const ssize_t moved = to.tls != nullptr ? host::bytes_moved(to.tls->write(text.data(), text.size()))
                                              : ::send(to.socket.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (moved <= 0) return;
      text.remove_prefix(static_cast<std::size_t>(moved));
    }
  }
  static std::string chunk(const std::string& text) { return fmt::format("{:x}\r\n{}\r\n", text.size(), text); }

  // True: the connection stays.
  bool serve(Connection& from) {
    std::array<char, 64 << 10> buffer;
    const ssize_t got = from.tls != nullptr ? host::bytes_moved(from.tls->read(buffer.data(), buffer.size()))
                                            : ::recv(from.socket.get(), buffer.data(), buffer.size(), 0);
    if (got <= 0) return false;
    if (from.watching) return true;
    from.in.append(buffer.data(), static_cast<std::size_t>(got));
    const auto head = from.in.find("\r\n\r\n");
    if (head == std::string::npos) return true;
    const auto length_at = from.in.find("Content-Length: ");
    const std::size_t length = length_at < head ? static_cast<std::size_t>(std::stoul(from.in.substr(length_at + 16))) : 0;
    if (from.in.size() < head + 4 + length) return true;
    ++requests;
    if (silent) return true;
    const std::lock_guard lock(mutex);
    if (from.in.find("Authorization: Bearer " + token + "\r\n") == std::string::npos) {
      ++unauthorized;
      send(from, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\n{}");
      return false;
    }
    const auto space = from.in.find(' ');
    KubeQuestion question{from.in.substr(0, space), from.in.substr(space + 1, from.in.find(' ', space + 1) - space - 1),
                          from.in.substr(head + 4), ""};
    const auto type_at = from.in.find("Content-Type: ");
    if (type_at < head) question.content_type = from.in.substr(type_at + 14, from.in.find('\r', type_at) - type_at - 14);
    const KubePath path = parse_kube_path(question.path);
    if (!path.query.contains("watch")) {
      const auto answer = server.handle(question);
      send(from, fmt::format("HTTP/1.1 {} X\r\nContent-Length: {}\r\n\r\n{}", answer.status, answer.body.size(), answer.body));
      return false;
    }
    from.watching = true;
    from.collection = path.collection;
    from.version = std::stoull(path.query.at("resourceVersion"));
    if (path.query.contains("labelSelector")) from.selector = path.query.at("labelSelector");
    send(from, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    return true;
  }

  void run() {
    std::vector<std::unique_ptr<Connection>> open;
    while (!stop_) {
      std::vector<pollfd> watched{{listener_socket(), POLLIN, 0}};
      for (const auto& one : open) watched.push_back({one->socket.get(), POLLIN, 0});
      ::poll(watched.data(), watched.size(), 10);
      for (std::size_t i = open.size(); i-- > 0;) {
        if (watched[i + 1].revents != 0 && !serve(*open[i])) open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
      }
      if (watched[0].revents != 0) {
        auto made = std::make_unique<Connection>();
        made->socket.reset(::accept4(listener_socket(), nullptr, nullptr, SOCK_CLOEXEC));
        if (tls_ != nullptr) {
          made->tls = host::TlsStream::accept(tls_, made->socket.get());
          made->tls->set_waiting(true);
        }
        open.push_back(std::move(made));
      }
      const std::lock_guard lock(mutex);
      cluster.tick();
      for (auto& one : open) {
        if (!one->watching) continue;
        std::vector<std::string> lines;
        const bool known = server.events_after(one->version, one->collection, one->selector, lines, one->version);
        if (!known) lines.emplace_back(R"({"type":"ERROR","object":{"code":410}})");
        // In pieces, as the network gives them.
        for (const auto& line : lines) {
          send(*one, chunk(line.substr(0, line.size() / 2)));
          send(*one, chunk(line.substr(line.size() / 2) + "\n"));
        }
        if (!known) one->socket.reset();
      }
      const bool drop = drop_watches.exchange(false);
      std::erase_if(open, [&](const auto& one) { return !one->socket.open() || (drop && one->watching); });
    }
  }
  int listener_socket() const { return listener_.descriptor(); }

  std::shared_ptr<const host::TlsContext> tls_;
  client::test::Listener listener_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

class KubeClientTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string form = (std::filesystem::temp_directory_path() / "kube_client_XXXXXX").string();
    ASSERT_NE(::mkdtemp(form.data()), nullptr);
    folder_ = form;
    write_text(folder_ / "token", "first\n");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  KubeServer at(const HttpApi& api) const {
    return {.host = "127.0.0.1", .port = static_cast<std::uint16_t>(api.port()), .tls = false, .authorities_file = "",
            .token_file = (folder_ / "token").string()};
  }

  std::filesystem::path folder_;
};

TEST_F(KubeClientTest, ReadsTheTokenAgainForEachRequest) {
  HttpApi api;
  const auto client = *connect_to_kubernetes(at(api));
  EXPECT_EQ(client->ask({.path = kNodes})->status, 200);
  {
    const std::lock_guard lock(api.mutex);
    api.token = "second";
  }
  EXPECT_EQ(client->ask({.path = kNodes})->status, 401);
  write_text(folder_ / "token", "second");
  EXPECT_EQ(client->ask({.path = kNodes})->status, 200);
  write_text(folder_ / "token", "two lines\nX: y");
  EXPECT_THAT(client->ask({.path = kNodes}).error().message, HasSubstr("expected one token"));
}

TEST_F(KubeClientTest, SaysWhyNobodyAnswers) {
  const auto client = *connect_to_kubernetes({.host = "127.0.0.1", .port = 1, .tls = false, .authorities_file = "", .token_file = ""});
  EXPECT_THAT(client->ask({.path = "/"}).error().message, HasSubstr("127.0.0.1:1: cannot connect"));
}

// A controller puts a Plan into force over sockets, watches break meanwhile, and history is forgotten.
void put_a_plan_into_force(KubeApi& client, HttpApi& api) {
  {
    const std::lock_guard lock(api.mutex);
    api.cluster.add_node("rack");
    api.cluster.publish();
  }
  ControllerOptions options;
  options.cluster.join = "gateway:8003";
  std::string said;
  Controller controller(options, client, [] { return std::string("2026-01-01T00:00:00.000000Z"); },
                        [&](const std::string& line) { said += line + "\n"; });
  const std::string plan = R"({"version":1,"devices":[{"name":"rack-0","type":"a100-80gb","layout":"3g.40gb@0 + 3g.40gb@4","slices":[
    {"profile":"3g.40gb","start":0,"replicas":[]},{"profile":"3g.40gb","start":4,"replicas":[]}]}]})";
  const auto begin = std::chrono::steady_clock::now();
  const auto ready = [&](int pods) {
    const std::lock_guard lock(api.mutex);
    const auto status = api.server.of(kPlans)["p"].value("status", Json::object());
    return status.value("ready", "") == "2/2" && static_cast<int>(api.server.of(kPods).size()) == pods;
  };
  const auto run_until_ready = [&] {
    while (!ready(2) && std::chrono::steady_clock::now() - begin < std::chrono::seconds(20)) {
      controller.step(std::chrono::steady_clock::now() - begin);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ASSERT_TRUE(ready(2)) << said;
  };
  {
    const std::lock_guard lock(api.mutex);
    api.server.put(kPlans, "p", {{"spec", Json::parse(plan)}});
  }
  run_until_ready();
  api.drop_watches = true;
  {
    const std::lock_guard lock(api.mutex);
    api.server.forget_history();
    api.server.erase(kPods, api.server.of(kPods).begin()->first);
  }
  run_until_ready();
  EXPECT_EQ(api.unauthorized, 0);
  EXPECT_LT(api.requests, 200);
}

TEST_F(KubeClientTest, CarriesAControllerOverHttp) {
  HttpApi api;
  const auto client = *connect_to_kubernetes(at(api));
  put_a_plan_into_force(*client, api);
}

TEST_F(KubeClientTest, CarriesAControllerOverTls) {
  const host::test::Authority authority("cluster");
  HttpApi api(*host::TlsContext::for_server(authority.server()));
  write_text(folder_ / "ca.crt", authority.pem());
  KubeServer server = at(api);
  server.tls = true;
  server.authorities_file = (folder_ / "ca.crt").string();
  const auto client = *connect_to_kubernetes(server);
  put_a_plan_into_force(*client, api);
  // Another authority is not believed, and the token is not sent.
  const host::test::Authority other("other");
  write_text(folder_ / "ca.crt", other.pem());
  const int before = api.requests;
  EXPECT_THAT((*connect_to_kubernetes(server))->ask({.path = kNodes}).error().message, HasSubstr("cannot connect with TLS"));
  EXPECT_EQ(api.requests, before);
}

}  // namespace
}  // namespace tangram::adapters
