// A gateway's hub and nodes on one event loop, over real TLS connections on loopback.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>

#include "host/files.h"
#include "host/socket.h"
#include "node/node.h"
#include "node/offers.h"
#include "node/tokens.h"
#include "serve/node_hub.h"

namespace tangram::serve {
namespace {

using namespace std::chrono_literals;

// What executors have reported, by slice.
struct NodeEvents final : engines::ExecutorEvents {
  void on_done(SliceId slice, BatchId batch, std::string failure) override {
    done.push_back({slice, batch});
    failures.push_back(std::move(failure));
  }
  void on_stopped(SliceId slice, BatchId batch) override { stopped.push_back({slice, batch}); }
  void on_lost(SliceId slice, std::string reason) override {
    lost.push_back(slice);
    reasons.push_back(std::move(reason));
  }
  void on_restarted(SliceId slice, bool ok) override { (ok ? ready : not_ready).push_back(slice); }
  void on_ran(SliceId, Duration ran) override { run_times.push_back(ran); }

  std::vector<std::pair<SliceId, BatchId>> done;
  std::vector<std::pair<SliceId, BatchId>> stopped;
  std::vector<std::string> failures;
  std::vector<SliceId> lost;
  std::vector<std::string> reasons;
  std::vector<SliceId> ready;
  std::vector<SliceId> not_ready;
  std::vector<Duration> run_times;
};

engines::ModelSpec small_model() {
  engines::ModelSpec model;
  model.service = ServiceId(1);
  model.copy = ServiceId(1);
  model.name = "rank";
  model.network = "encoder";
  model.path = "encoder";
  model.signature = {{{"ids", Datatype::int64, {kVariableAxis}, 0, false}}, {{"out", Datatype::fp32, {3}, 0, false}}};
  model.shapes = {{8, 32}};
  return model;
}

NodeSliceConfig slice_config(const std::string& device, const std::string& profile, int start, int units) {
  NodeSliceConfig config;
  config.title = device + "/" + profile + "@" + std::to_string(start);
  config.device = device;
  config.type = "a100-80gb";
  config.mig_profile = profile;
  config.start = start;
  config.units = units;
  config.device_units = 8;
  config.spec.engine = "emulated";
  config.spec.config.device = "a100-80gb";
  config.spec.models = {small_model()};
  return config;
}

class NodeBench {
 public:
  NodeBench() {
    char name[] = "/tmp/tangram-hub-XXXXXX";
    folder = mkdtemp(name);
    open_hub(0);
    token = node::TokenStore(folder).create(hub->fingerprint(), seconds(), 3'600, "")->text;
  }
  ~NodeBench() {
    links.clear();
    nodes.clear();
    hub.reset();
    std::filesystem::remove_all(folder);
  }

  static std::int64_t seconds() { return std::chrono::system_clock::now().time_since_epoch() / 1s; }

  void open_hub(std::uint16_t port) {
    NodeHubConfig config;
    config.door.port = port;
    config.door.folder = folder;
    config.door.version = "0.1.0";
    config.door.stranger_time = 500ms;
    config.ping_every = 20ms;
    config.silence_max = 200ms;
    config.rebind_after = 100ms;
    config.models = models;
    hub = std::make_unique<NodeHub>(std::move(config), loop, clock, log);
    const auto opened = hub->open();
    ASSERT_TRUE(opened) << opened.error().message;
    node_port = hub->port();
  }

  node::NodeConfig node_config(const std::string& name, const std::string& slices) const {
    node::NodeConfig config;
    config.name = name;
    config.version = "0.1.0";
    config.gateways = {{"127.0.0.1", node_port}};
    config.identity = node::make_identity(name);
    config.token = token;
    config.gateway_fingerprint = node::parse_token(token)->gateway;
    config.boards = {*node::parse_slices(slices)};
    config.pause_max = 50ms;
    return config;
  }
  node::Node& add(node::NodeConfig config) {
    const std::string name = config.name;
    nodes[name] = std::make_unique<node::Node>(std::move(config), loop, clock, log);
    return *nodes[name];
  }
  engines::Executor& link(std::uint32_t slice, NodeSliceConfig config) {
    links[slice] = hub->make(SliceId(slice), std::move(config), events);
    return *links[slice];
  }
  // Turns the loop until this holds, for far too long at most. Nodes in `stopped` do nothing.
  bool until(const std::function<bool()>& holds) {
    const auto limit = std::chrono::steady_clock::now() + 20s;
    while (!holds()) {
      if (std::chrono::steady_clock::now() > limit) return false;
      TimePoint due = std::min(clock.now() + 10ms, hub == nullptr ? kTimeNever : hub->next_due());
      for (const auto& [name, one] : nodes) due = std::min(due, one->next_due());
      loop.wait(clock, due);
      if (hub != nullptr) hub->work(clock.now());
      for (const auto& [name, one] : nodes) one->work(clock.now());
    }
    return true;
  }
  void turn_for(Duration time) {
    const TimePoint end = clock.now() + time;
    until([&] { return clock.now() >= end; });
  }
  static engines::BatchJob job(std::uint64_t number, Duration expected = 2ms) {
    return {.batch = BatchId(number), .service = ServiceId(1), .samples = 2, .size = 5, .expected = expected};
  }
  // Starts a batch whose inputs are 0, 1, 2, ...
  engines::BatchMemory* start(engines::Executor& executor, const engines::BatchJob& job) {
    auto memory = executor.prepare(job);
    EXPECT_TRUE(memory);
    for (std::size_t i = 0; i < (*memory)->inputs[0].size(); ++i) (*memory)->inputs[0][i] = static_cast<std::byte>(i % 3);
    EXPECT_FALSE(executor.start(job));
    return *memory;
  }
  std::string state_of(const std::string& name) const {
    for (const auto& one : hub->report()) {
      if (one.name == name) return one.state;
    }
    return "unknown";
  }

  std::string folder;
  std::string models;
  host::EventLoop loop;
  host::LiveClock clock;
  host::LogWriter log{memfd_create("log", MFD_CLOEXEC)};
  NodeEvents events;
  std::uint16_t node_port = 0;
  std::string token;
  std::unique_ptr<NodeHub> hub;
  std::map<std::string, std::unique_ptr<node::Node>> nodes;
  std::map<std::uint32_t, std::unique_ptr<engines::Executor>> links;
};

// The answer of a node is that of the same engine in this process, byte for byte, and the run takes as long as it says:
// two milliseconds, without the way there and back.
TEST(Nodes, RunBatchesAsThisProcessWould) {
  NodeBench bench;
  bench.add(bench.node_config("n1", "1x1g.10gb"));
  auto& executor = bench.link(0, slice_config("gpu-0", "1g.10gb", 0, 1));
  EXPECT_FALSE(executor.ready());
  EXPECT_FALSE(executor.restart());
  ASSERT_TRUE(bench.until([&] { return executor.ready(); }));
  EXPECT_EQ(bench.events.ready, std::vector<SliceId>{SliceId(0)});
  const auto* memory = bench.start(executor, bench.job(1));
  ASSERT_TRUE(bench.until([&] { return !bench.events.done.empty(); }));
  EXPECT_EQ(bench.events.failures.front(), "");
  ASSERT_EQ(bench.events.run_times.size(), 1u);
  EXPECT_GE(bench.events.run_times.front(), 2ms);

  const auto model = small_model();
  const std::vector<const Signature*> signatures{nullptr, &model.signature};
  const auto local = engines::make_emulated_executor(signatures, {});
  auto own = local->prepare(bench.job(1));
  for (std::size_t i = 0; i < (*own)->inputs[0].size(); ++i) (*own)->inputs[0][i] = static_cast<std::byte>(i % 3);
  local->start(bench.job(1));
  ASSERT_EQ((*own)->outputs[0].size(), memory->outputs[0].size());
  EXPECT_EQ(std::memcmp((*own)->outputs[0].data(), memory->outputs[0].data(), memory->outputs[0].size()), 0);
}

// Nodes offer kinds, the plan wants places: each slice goes to a node that has its kind, and no offer serves two.
TEST(Nodes, GetTheSlicesOfTheirKind) {
  NodeBench bench;
  bench.add(bench.node_config("large", "1x3g.40gb"));
  bench.add(bench.node_config("small", "2x1g.10gb"));
  for (std::uint32_t i = 0; i < 3; ++i) bench.link(i, slice_config("gpu-0", "1g.10gb", static_cast<int>(i), 1)).restart();
  bench.link(3, slice_config("gpu-0", "3g.40gb", 4, 4)).restart();
  ASSERT_TRUE(bench.until([&] { return bench.events.ready.size() == 3; }));
  EXPECT_TRUE(bench.links[3]->ready());
  EXPECT_EQ(bench.hub->slices_waiting(), 1u) << "there are two slices of 1g.10gb for three";
  EXPECT_EQ(bench.hub->node_of("gpu-0/3g.40gb@4"), "large");
}

// Every slice of a device is on one board, and a node that has the name of a device is that device.
TEST(Nodes, WholeDevicesAreMatchedByNameAndType) {
  NodeBench bench;
  for (const char* name : {"gpu-1", "other", "gpu-0"}) {
    auto config = bench.node_config(name, "1x1g.10gb");
    config.boards = {*node::parse_device("a100-80gb")};
    bench.add(std::move(config));
  }
  bench.link(0, slice_config("gpu-0", "1g.10gb", 0, 1)).restart();
  bench.link(1, slice_config("gpu-0", "1g.10gb", 1, 1)).restart();
  bench.link(2, slice_config("gpu-1", "4g.40gb", 0, 4)).restart();
  ASSERT_TRUE(bench.until([&] { return bench.events.ready.size() == 3; }));
  const std::string first = bench.hub->node_of("gpu-0/1g.10gb@0");
  EXPECT_EQ(bench.hub->node_of("gpu-0/1g.10gb@1"), first);
  EXPECT_NE(first, "gpu-1");
  EXPECT_NE(bench.hub->node_of("gpu-1/4g.40gb@0"), "gpu-0");
}

TEST(Nodes, ThatAreLostLoseTheirSlicesAndOthersTakeThem) {
  NodeBench bench;
  bench.add(bench.node_config("n1", "1x1g.10gb"));
  auto& executor = bench.link(0, slice_config("gpu-0", "1g.10gb", 0, 1));
  executor.restart();
  ASSERT_TRUE(bench.until([&] { return executor.ready(); }));
  bench.start(executor, bench.job(1, 10s));
  bench.nodes.erase("n1");  // Its connections end, as those of a process that is killed.
  ASSERT_TRUE(bench.until([&] { return !bench.events.lost.empty(); }));
  EXPECT_THAT(bench.events.reasons.front(), testing::HasSubstr("n1"));
  EXPECT_FALSE(executor.ready());
  EXPECT_EQ(bench.state_of("n1"), "lost");
  executor.restart();
  bench.add(bench.node_config("n2", "1x1g.10gb"));
  ASSERT_TRUE(bench.until([&] { return executor.ready(); }));
  EXPECT_EQ(bench.hub->node_of("gpu-0/1g.10gb@0"), "n2");
  EXPECT_TRUE(bench.events.done.empty()) << "the batch of the lost node is never answered";
  bench.start(executor, bench.job(2));
  ASSERT_TRUE(bench.until([&] { return !bench.events.done.empty(); }));
  EXPECT_EQ(bench.events.done.front().second, BatchId(2));
}

// A node whose thread does nothing keeps its connections open, as one that was stopped (SIGSTOP) does.
TEST(Nodes, ThatAreSilentAreLost) {
  NodeBench bench;
  host::EventLoop other;
  auto config = bench.node_config("n1", "1x1g.10gb");
  node::Node silent(std::move(config), other, bench.clock, bench.log);
  auto& executor = bench.link(0, slice_config("gpu-0", "1g.10gb", 0, 1));
  executor.restart();
  const auto turn_other = [&] {
    other.wait(bench.clock, bench.clock.now() + 1ms);
    silent.work(bench.clock.now());
  };
  ASSERT_TRUE(bench.until([&] {
    turn_other();
    return executor.ready();
  }));
  const TimePoint stopped = bench.clock.now();
  // After 75 ms it gets no batch any more, after 200 ms it is lost; its last word was at most 20 ms before.
  ASSERT_TRUE(bench.until([&] { return !bench.events.lost.empty(); }));
  EXPECT_GE(bench.clock.now() - stopped, 50ms);
  EXPECT_THAT(bench.events.reasons.front(), testing::HasSubstr("does not answer"));
  EXPECT_EQ(bench.state_of("n1"), "joined");
  ASSERT_TRUE(bench.until([&] { return bench.state_of("n1") == "lost"; }));
  EXPECT_GE(bench.clock.now() - stopped, 150ms);
  // It goes on, finds that its gateway has given it up, and joins again.
  executor.restart();
  ASSERT_TRUE(bench.until([&] {
    turn_other();
    return executor.ready();
  }));
  EXPECT_EQ(bench.state_of("n1"), "joined");
}

// A pause shorter than the limit of silence costs the slices of the node a moment, and nothing is loaded again.
TEST(Nodes, ThatPauseGoOnWithWhatTheyHave) {
  NodeBench bench;
  host::EventLoop other;
  node::Node pausing(bench.node_config("n1", "1x1g.10gb"), other, bench.clock, bench.log);
  auto& executor = bench.link(0, slice_config("gpu-0", "1g.10gb", 0, 1));
  executor.restart();
  const auto turn_other = [&] {
    other.wait(bench.clock, bench.clock.now() + 1ms);
    pausing.work(bench.clock.now());
    return executor.ready();
  };
  ASSERT_TRUE(bench.until(turn_other));
  ASSERT_TRUE(bench.until([&] { return !bench.events.lost.empty(); }));
  executor.restart();
  ASSERT_TRUE(bench.until(turn_other));
  EXPECT_EQ(bench.hub->counts().losses, 0u);
  EXPECT_EQ(bench.hub->counts().joins, 1u);
}

// The node keeps what it has loaded while the gateway is away, and is not asked for a new token.
TEST(Nodes, JoinAGatewayAgainThatHasRestarted) {
  NodeBench bench;
  auto& node = bench.add(bench.node_config("n1", "1x1g.10gb"));
  bench.link(0, slice_config("gpu-0", "1g.10gb", 0, 1)).restart();
  ASSERT_TRUE(bench.until([&] { return bench.links[0]->ready(); }));
  const std::uint16_t port = bench.node_port;
  // As a gateway that ends or is killed: nothing is unloaded.
  bench.hub->keep_loaded();
  bench.links.clear();
  bench.hub.reset();
  ASSERT_TRUE(bench.until([&] { return !node.joined(); }));
  bench.turn_for(100ms);
  bench.open_hub(port);
  auto& executor = bench.link(0, slice_config("gpu-0", "1g.10gb", 0, 1));
  executor.restart();
  ASSERT_TRUE(bench.until([&] { return executor.ready(); }));
  EXPECT_EQ(node.slices_hosted(), 1u);
}

TEST(Nodes, WithoutARightToJoinAreToldWhy) {
  NodeBench bench;
  auto expired = bench.node_config("n1", "1x1g.10gb");
  expired.token = node::TokenStore(bench.folder).create(bench.hub->fingerprint(), 1'000, 60, "")->text;
  auto& first = bench.add(std::move(expired));
  ASSERT_TRUE(bench.until([&] { return !first.refused().empty(); }));
  EXPECT_THAT(first.refused(), testing::HasSubstr("has expired"));
  auto none = bench.node_config("n2", "1x1g.10gb");
  none.token.clear();
  auto& second = bench.add(std::move(none));
  ASSERT_TRUE(bench.until([&] { return !second.refused().empty(); }));
  EXPECT_THAT(second.refused(), testing::HasSubstr("needs a join token"));
  EXPECT_EQ(bench.hub->door_counts().denied.load(), 2u);
}

// The token goes to the gateway that made it and to nobody else.
TEST(Nodes, GiveTheirTokenToNoOtherGateway) {
  NodeBench bench;
  auto config = bench.node_config("n1", "1x1g.10gb");
  config.gateway_fingerprint = std::string(64, '0');
  auto& node = bench.add(std::move(config));
  bench.turn_for(300ms);
  EXPECT_FALSE(node.ever_joined());
  EXPECT_EQ(bench.hub->counts().joins, 0u);
  EXPECT_TRUE(node::TokenStore(bench.folder).list()->nodes.empty());
  EXPECT_GE(bench.hub->door_counts().failed.load(), 1u);
}

TEST(Nodes, WhoseTokenIsRevokedAreSentAway) {
  NodeBench bench;
  bench.add(bench.node_config("n1", "1x1g.10gb"));
  ASSERT_TRUE(bench.until([&] { return bench.state_of("n1") == "joined"; }));
  ASSERT_TRUE(*node::TokenStore(bench.folder).revoke(node::parse_token(bench.token)->id));
  ASSERT_TRUE(bench.until([&] { return bench.state_of("n1") == "lost"; }));
  bench.turn_for(300ms);
  EXPECT_EQ(bench.state_of("n1"), "lost") << "it tries to join again and may not";
}

TEST(Nodes, CannotTakeTheNameOfAnotherThatIsThere) {
  NodeBench bench;
  bench.add(bench.node_config("n1", "1x1g.10gb"));
  ASSERT_TRUE(bench.until([&] { return bench.state_of("n1") == "joined"; }));
  host::EventLoop& loop = bench.loop;
  node::Node thief(bench.node_config("n1", "1x1g.10gb"), loop, bench.clock, bench.log);
  ASSERT_TRUE(bench.until([&] {
    thief.work(bench.clock.now());
    return bench.hub->counts().name_conflicts > 0;
  }));
  EXPECT_FALSE(thief.ever_joined());
  EXPECT_EQ(bench.hub->counts().losses, 0u);
}

// A batch that runs when the node leaves is answered; then the slice is lost, and the node has nothing left.
TEST(Nodes, ThatLeaveEndTheirBatchFirst) {
  NodeBench bench;
  auto& node = bench.add(bench.node_config("n1", "1x1g.10gb"));
  auto& executor = bench.link(0, slice_config("gpu-0", "1g.10gb", 0, 1));
  executor.restart();
  ASSERT_TRUE(bench.until([&] { return executor.ready(); }));
  bench.start(executor, bench.job(1, 100ms));
  bench.turn_for(20ms);
  node.leave();
  EXPECT_FALSE(node.left());
  ASSERT_TRUE(bench.until([&] { return node.left(); }));
  EXPECT_EQ(bench.events.done.size(), 1u);
  EXPECT_EQ(bench.events.failures.front(), "");
  ASSERT_TRUE(bench.until([&] { return !bench.events.lost.empty(); }));
}

// An emulated batch of ten seconds ends when it is stopped.
TEST(Nodes, StopABatchThatNobodyWants) {
  NodeBench bench;
  bench.add(bench.node_config("n1", "1x1g.10gb"));
  auto& executor = bench.link(0, slice_config("gpu-0", "1g.10gb", 0, 1));
  executor.restart();
  ASSERT_TRUE(bench.until([&] { return executor.ready(); }));
  bench.start(executor, bench.job(1, 10s));
  bench.turn_for(20ms);
  EXPECT_FALSE(executor.stop(BatchId(1), false));
  ASSERT_TRUE(bench.until([&] { return !bench.events.stopped.empty(); }));
  EXPECT_TRUE(bench.events.done.empty());
  bench.start(executor, bench.job(2));
  ASSERT_TRUE(bench.until([&] { return !bench.events.done.empty(); }));
}

// The scheduler gives a batch up that takes too long. Its late answer must not be that of the next one.
TEST(Nodes, LateAnswersOfAnEarlierLifeAreDropped) {
  NodeBench bench;
  bench.add(bench.node_config("n1", "1x1g.10gb"));
  auto& executor = bench.link(0, slice_config("gpu-0", "1g.10gb", 0, 1));
  executor.restart();
  ASSERT_TRUE(bench.until([&] { return executor.ready(); }));
  bench.start(executor, bench.job(1, 50ms));
  bench.turn_for(10ms);
  executor.restart();
  ASSERT_TRUE(bench.until([&] { return executor.ready(); }));
  bench.start(executor, bench.job(2, 1ms));
  bench.turn_for(150ms);
  ASSERT_EQ(bench.events.done.size(), 1u);
  EXPECT_EQ(bench.events.done.front().second, BatchId(2));
}

TEST(Nodes, ModelsOfASliceChangeWithoutANewConnectionToTheWorld) {
  NodeBench bench;
  bench.add(bench.node_config("n1", "1x1g.10gb"));
  auto& executor = bench.link(0, slice_config("gpu-0", "1g.10gb", 0, 1));
  executor.restart();
  ASSERT_TRUE(bench.until([&] { return executor.ready(); }));
  auto other = small_model();
  other.service = ServiceId(2);
  other.name = "find";
  ASSERT_TRUE(executor.change_models(SliceId(5), {other}));
  ASSERT_TRUE(bench.until([&] { return executor.ready(); }));
  EXPECT_EQ(bench.events.ready.back(), SliceId(5));
  auto job = bench.job(3);
  job.service = ServiceId(2);
  bench.start(executor, job);
  ASSERT_TRUE(bench.until([&] { return !bench.events.done.empty(); }));
  EXPECT_EQ(bench.events.done.front(), std::pair(SliceId(5), BatchId(3)));
}

// What a stranger sends costs the scheduler nothing, and ends by itself.
TEST(Nodes, StrangersAtThePortAreRefused) {
  NodeBench bench;
  bench.add(bench.node_config("n1", "1x1g.10gb"));
  ASSERT_TRUE(bench.until([&] { return bench.state_of("n1") == "joined"; }));
  const auto address = *host::socket_address({.address = "127.0.0.1", .port = bench.node_port});
  std::vector<host::Descriptor> sockets;
  for (int i = 0; i < 300; ++i) {
    sockets.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(connect(sockets.back().get(), address.get(), address.length), 0);
    const char* rubbish = i % 2 == 0 ? "GET / HTTP/1.1\r\n\r\n" : "\x16\x03\x01\x02\x00\x01";
    (void)!write(sockets.back().get(), rubbish, std::strlen(rubbish));
  }
  // A silent stranger is sent away after half a second here, and 256 at most of one address are listened to.
  ASSERT_TRUE(bench.until([&] { return bench.hub->door_counts().failed + bench.hub->door_counts().refused >= 300; }));
  EXPECT_EQ(bench.state_of("n1"), "joined");
  EXPECT_EQ(bench.hub->counts().joins, 1u);
}

}  // namespace
}  // namespace tangram::serve
