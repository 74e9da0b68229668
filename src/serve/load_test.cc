#include "client/load.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "core/sample_tensors.h"
#include "host/test_nowhere.h"
#include "serve/server.h"
#include "serve/test_deployment.h"

namespace tangram::serve {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// A server with free ports, on a thread of its own, that answers at once.
class Served {
 public:
  explicit Served(bool admission = true) : log_(nowhere_.descriptor) {
    ServerConfig config;
    config.http_port = config.metrics_port = 0;
#ifdef TANGRAM_WITH_GRPC
    config.grpc_port = 0;
#endif
    config.emulated.time_scale = 0;
    config.scheduler.admission = admission;
    server_ = std::make_unique<Server>(test::deployment(), test::workload(), std::move(config), log_);
    EXPECT_TRUE(server_->open());
    thread_ = std::thread([this] { server_->run(); });
  }
  ~Served() {
    server_->request_stop();
    thread_.join();
    server_.reset();
  }
  client::LoadConfig config() const { return {.http_port = server_->http_port(), .grpc_port = server_->grpc_port()}; }

 private:
  host::test::Nowhere nowhere_;
  host::LogWriter log_;
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

std::vector<client::LoadTarget> targets() { return {{"rank", *test::workload().services[0].tensors}}; }

// One request every 100 us, of sizes 1 to 128 in turn.
std::vector<client::LoadRequest> some_requests(std::size_t count, client::LoadProtocol protocol) {
  std::vector<client::LoadRequest> requests;
  for (std::size_t i = 0; i < count; ++i) {
    requests.push_back({.at = std::chrono::microseconds(100 * i),
                        .target = 0,
                        .size = static_cast<std::int64_t>(i % 128) + 1,
                        .samples = static_cast<std::int32_t>(i % 3) + 1,
                        .protocol = protocol});
  }
  return requests;
}

std::int64_t count(const client::LoadResult& result, client::LoadOutcome outcome) {
  return std::ranges::count(result.answers, outcome, &client::LoadAnswer::outcome);
}

TEST(Load, EveryRequestIsAnsweredOnceOverHttp) {
  const Served served(false);
  const auto result = client::run_load(targets(), some_requests(300, client::LoadProtocol::http), served.config());
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(count(*result, client::LoadOutcome::answered), 300) << result->first_failure;
  for (const auto& answer : result->answers) {
    EXPECT_TRUE(answer.sent);
    EXPECT_GE(answer.sent_after, 0ms);
    EXPECT_GT(answer.latency, answer.sent_after);
  }
}

#ifdef TANGRAM_WITH_GRPC
TEST(Load, BothProtocolsRunBesideEachOther) {
  const Served served(false);
  auto requests = some_requests(200, client::LoadProtocol::http);
  for (std::size_t i = 0; i < requests.size(); i += 2) requests[i].protocol = client::LoadProtocol::grpc;
  const auto result = client::run_load(targets(), requests, served.config());
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(count(*result, client::LoadOutcome::answered), 200) << result->first_failure;
}
#endif

// Two connections for 50 requests that are due at once: most wait, and their waiting counts.
TEST(Load, RequestsThatFindNoConnectionWaitForOne) {
  const Served served(false);
  auto requests = some_requests(50, client::LoadProtocol::http);
  for (auto& request : requests) request.at = {};
  client::LoadConfig config = served.config();
  config.connections_max = 2;
  const auto result = client::run_load(targets(), requests, config);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(count(*result, client::LoadOutcome::answered), 50);
  EXPECT_GT(result->answers.back().sent_after, result->answers.front().sent_after);
}

// The plan's largest bucket holds 128; what is larger is answered with 400, which is a failure with a reason.
TEST(Load, TellsWhyTheFirstRequestFailed) {
  const Served served;
  auto requests = some_requests(2, client::LoadProtocol::http);
  requests[1].size = 129;
  const auto result = client::run_load(targets(), requests, served.config());
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->answers[1].outcome, client::LoadOutcome::failed);
  EXPECT_THAT(result->first_failure, HasSubstr("400"));
}

TEST(Load, SendsNothingMoreWhenInterrupted) {
  const Served served(false);
  auto requests = some_requests(10, client::LoadProtocol::http);
  requests.back().at = 1h;
  client::LoadConfig config = served.config();
  config.interrupted = [calls = 0]() mutable { return ++calls > 25; };
  const auto result = client::run_load(targets(), requests, config);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_FALSE(result->answers.back().sent);
}

TEST(Load, IsAnErrorWhereNobodyListens) {
  std::uint16_t port = 0;
  { port = Served().config().http_port; }
  const auto result = client::run_load(targets(), some_requests(1, client::LoadProtocol::http), {.http_port = port});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::unavailable);
}

TEST(SampleTensors, HoldWhatModelsTake) {
  Rng rng(1);
  std::vector<std::int64_t> tokens(100);
  fill_sample({"ids", Datatype::int64, {100}}, std::as_writable_bytes(std::span(tokens)), rng);
  EXPECT_THAT(tokens, testing::Each(testing::AllOf(testing::Ge(1), testing::Le(kTokenMax))));
  fill_sample({"mask", Datatype::int64, {100}, 0, true}, std::as_writable_bytes(std::span(tokens)), rng);
  EXPECT_THAT(tokens, testing::Each(1));
  std::vector<float> reals(100);
  fill_sample({"x", Datatype::fp32, {100}}, std::as_writable_bytes(std::span(reals)), rng);
  EXPECT_THAT(reals, testing::Each(testing::AllOf(testing::Ge(0), testing::Lt(1))));
}

}  // namespace
}  // namespace tangram::serve
