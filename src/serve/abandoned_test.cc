// What becomes of requests whose callers do not wait for the answer, over sockets.

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

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

using namespace std::chrono_literals;
using testing::HasSubstr;

// A server of two slices. A run of one sample takes 2 units x `time_scale`, and a batch holds one.
class Slow {
 public:
  explicit Slow(double time_scale, Duration unit = 1ms) : file_(std::tmpfile()), log_(fileno(file_)) {
    ServerConfig config;
    config.http_port = config.metrics_port = 0;
    if (has_grpc()) config.grpc_port = 0;
    config.emulated.time_scale = time_scale;
    server_ =
        std::make_unique<Server>(test::deployment(1, Padding::bucket, unit), test::workload(), std::move(config), log_);
    const auto opened = server_->open();
    EXPECT_TRUE(opened) << opened.error().message;
    thread_ = std::thread([this] { server_->run(); });
  }
  ~Slow() {
    server_->request_stop();
    thread_.join();
    server_.reset();
    std::fclose(file_);
  }
  Slow(const Slow&) = delete;
  Slow& operator=(const Slow&) = delete;

  Server& server() { return *server_; }
  std::string metrics() {
    const auto answer = client::ask_http({.port = server_->metrics_port(), .path = "/metrics"});
    EXPECT_TRUE(answer) << answer.error().message;
    return answer ? answer->body : "";
  }
  // Whether /metrics says so before long.
  bool comes_to_say(const std::string& text) {
    for (const auto end = std::chrono::steady_clock::now() + 20s; std::chrono::steady_clock::now() < end;) {
      if (metrics().find(text) != std::string::npos) return true;
      std::this_thread::sleep_for(5ms);
    }
    return false;
  }
  // A connection that has asked something and waits.
  int ask(const std::string& body) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(server_->http_port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    const std::string bytes =
        "POST /v2/models/rank/infer HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(body.size()) +
        "\r\n\r\n" + body;
    EXPECT_EQ(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
    return fd;
  }

 private:
  std::FILE* file_;
  host::LogWriter log_;
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

constexpr const char* kPatient = R"({"inputs":[{"name":"ids","datatype":"INT64","shape":[1,2],"data":[1,2]}],)"
                                 R"("parameters":{"tangram_deadline_ms":1000000000}})";

std::string ended(const std::string& outcome, int count) {
  return "tangram_requests_total{service=\"rank\",outcome=\"" + outcome + "\"} " + std::to_string(count) + "\n";
}

// Each run takes a minute and all clients are gone at once: nothing is left to run, so the next request is answered as
// soon as a minute has passed, which this test does not wait for.
TEST(AbandonedRequests, OfClosedConnectionsNeverRun) {
  Slow slow(30'000);
  std::vector<int> clients;
  for (int i = 0; i < 40; ++i) clients.push_back(slow.ask(kPatient));
  ASSERT_TRUE(slow.comes_to_say("tangram_requests_in_flight 40\n")) << slow.metrics();
  for (const int fd : clients) close(fd);
  EXPECT_TRUE(slow.comes_to_say(ended("abandoned", 40))) << slow.metrics();
  EXPECT_THAT(slow.metrics(), HasSubstr("tangram_requests_in_flight 0\n"));
  EXPECT_THAT(slow.metrics(), HasSubstr(ended("served", 0)));
}

// A client that only ends its side still gets its answer.
TEST(AbandonedRequests, AreNotThoseOfClientsThatStillRead) {
  Slow slow(100);
  const int fd = slow.ask(kPatient);
  shutdown(fd, SHUT_WR);
  std::string answers(4096, '\0');
  std::size_t size = 0;
  for (ssize_t got = 0; (got = recv(fd, answers.data() + size, answers.size() - size, 0)) > 0;) {
    size += static_cast<std::size_t>(got);
  }
  close(fd);
  EXPECT_THAT(answers, HasSubstr("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(slow.metrics(), HasSubstr(ended("abandoned", 0)));
}

#ifdef TANGRAM_WITH_GRPC

class GrpcCaller {
 public:
  explicit GrpcCaller(Server& server)
      : stub_(inference::GRPCInferenceService::NewStub(grpc::CreateChannel(
            "127.0.0.1:" + std::to_string(server.grpc_port()), grpc::InsecureChannelCredentials()))) {
    asked_.set_model_name("rank");
    auto* input = asked_.add_inputs();
    input->set_name("ids");
    input->set_datatype("INT64");
    input->add_shape(1);
    input->add_shape(2);
    input->mutable_contents()->add_int64_contents(1);
    input->mutable_contents()->add_int64_contents(2);
    (*asked_.mutable_parameters())["tangram_deadline_ms"].set_int64_param(1'000'000'000);
  }
  // Asks `count` times, cancels all of it, and waits for the end of the calls.
  void ask_and_cancel(int count, const std::function<void()>& before_cancel) {
    grpc::CompletionQueue queue;
    struct Asked {
      grpc::ClientContext context;
      inference::ModelInferResponse response;
      grpc::Status status;
      std::unique_ptr<grpc::ClientAsyncResponseReader<inference::ModelInferResponse>> reader;
    };
    std::vector<std::unique_ptr<Asked>> calls;
    for (int i = 0; i < count; ++i) {
      calls.push_back(std::make_unique<Asked>());
      Asked& call = *calls.back();
      call.reader = stub_->AsyncModelInfer(&call.context, asked_, &queue);
      call.reader->Finish(&call.response, &call.status, &call);
    }
    // The library sends and receives only while somebody waits for it.
    std::thread waiting([&] {
      void* tag = nullptr;
      bool ok = false;
      for (int i = 0; i < count; ++i) EXPECT_TRUE(queue.Next(&tag, &ok));
    });
    before_cancel();
    for (const auto& call : calls) call->context.TryCancel();
    waiting.join();
    for (const auto& call : calls) EXPECT_EQ(call->status.error_code(), grpc::StatusCode::CANCELLED);
  }
  grpc::Status ask_for(std::chrono::milliseconds patience) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + patience);
    inference::ModelInferResponse response;
    return stub_->ModelInfer(&context, asked_, &response);
  }

 private:
  std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
  inference::ModelInferRequest asked_;
};

// A thousand calls, of which two run for a minute; all are cancelled.
TEST(AbandonedRequests, OfCancelledCallsNeverRun) {
  Slow slow(30'000);
  GrpcCaller caller(slow.server());
  caller.ask_and_cancel(1000,
                        [&] { EXPECT_TRUE(slow.comes_to_say("tangram_requests_in_flight 1000\n")) << slow.metrics(); });
  EXPECT_TRUE(slow.comes_to_say(ended("abandoned", 1000))) << slow.metrics();
  EXPECT_THAT(slow.metrics(), HasSubstr(ended("served", 0)));
}

// By the plan a run takes 30 s and the client waits for 20 s: it is told at once that this cannot be, whatever deadline
// its request names. (The emulated run would take no time.)
TEST(AbandonedRequests, AreRefusedWhereTheClientDoesNotWaitLongEnough) {
  Slow slow(0, 15s);
  GrpcCaller caller(slow.server());
  EXPECT_EQ(caller.ask_for(20s).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(caller.ask_for(60s).ok());
}

#endif

}  // namespace
}  // namespace tangram::serve
