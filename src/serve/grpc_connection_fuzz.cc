// Whole connections of gRPC: frames of HTTP/2 behind the client's hello, in two parts, with a world that answers at
// once. The first byte says where the parts meet, and whether there is a hello at all. Whatever the bytes are, the
// server lives, holds no more than its budget, and holds nothing when the connection is gone.

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "core/geometry.h"
#include "sched/deployment.h"
#include "serve/grpc_server.h"

namespace {

using namespace tangram;
using namespace tangram::serve;

void require(bool holds) {
  if (!holds) std::abort();
}

constexpr std::string_view kHello("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);

class OneMillisecond final : public LatencyModel {
 public:
  std::optional<Prediction> predict(const RunPoint&) const override {
    return Prediction{std::chrono::milliseconds(1), std::chrono::milliseconds(1)};
  }
};

Workload workload() {
  Service service;
  service.name = "m";
  service.model = "m";
  service.slo.latency = std::chrono::seconds(10);
  service.tensors =
      Signature{{{"a", Datatype::fp32, {kVariableAxis}, 0, false}}, {{"o", Datatype::fp32, {4}, 0, false}}};
  return Workload{{service}};
}

sched::Deployment deployment() {
  const Geometry& geometry = *find_geometry("a100-80gb");
  PlannedDevice device{"gpu-0", "a100-80gb", geometry, {}};
  const auto whole = static_cast<std::uint16_t>(*find_profile(geometry, "7g.80gb"));
  device.slices.push_back({{whole, 0}, {Replica{"m", {{128, 8}}, 1}}});
  auto compiled = sched::compile({{device}}, workload(), OneMillisecond());
  require(compiled.ok());
  return std::move(*compiled);
}

// One server for all inputs, without threads: each input is driven to its end.
class Served {
 public:
  Served()
      : deployment_(deployment()),
        models_(served_models(deployment_, workload(), "emulated")),
        signatures_{&models_[0].signature},
        gateway_(models_, {}) {
    LiveWorldConfig config;
    config.make_executor = [this](SliceId, const sched::Place&, engines::ExecutorEvents&) {
      return engines::make_emulated_executor(signatures_, {.time_scale = 0});
    };
    world_ = std::make_unique<LiveWorld>(deployment_, models_, std::move(config));
    world_->open_slices();
    gateway_.set_ready(true);
    server_ = make_grpc_server(loop_, {clock_, gateway_, *world_, memory_, peers_, health_}, {}, true);
  }

  void connection(std::string_view hello, std::string_view first, std::string_view second) {
    int pair[2];
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    server_->adopt(pair[0], nullptr);
    for (const std::string_view part : {hello, first, second}) {
      send(pair[1], part.data(), part.size(), MSG_NOSIGNAL);
      turns(2);
      char buffer[65536];
      while (recv(pair[1], buffer, sizeof buffer, MSG_DONTWAIT) > 0) continue;
    }
    require(memory_.data().used() <= memory_.data().limit());
    close(pair[1]);
    for (int i = 0; i < 1000 && (server_->connection_count() > 0 || memory_.data().used() > 0); ++i) turns(1);
    require(server_->connection_count() == 0);
    require(memory_.data().used() == 0);
  }

 private:
  void turns(int count) {
    for (int i = 0; i < count; ++i) {
      loop_.wait(clock_, clock_.now());
      do {
        world_->step(clock_.now());
      } while (server_->work(clock_.now()));
    }
  }

  host::LiveClock clock_;
  host::EventLoop loop_;
  sched::Deployment deployment_;
  std::vector<ServedModel> models_;
  std::vector<const Signature*> signatures_;
  Gateway gateway_;
  std::unique_ptr<LiveWorld> world_;
  MemoryBudget memory_{std::uint64_t{64} << 20};
  Peers peers_{100, memory_.tenant_max()};
  GrpcHealth health_;
  std::unique_ptr<GrpcServer> server_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (!has_grpc() || size == 0) return 0;
  static Served served;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t cut = bytes.size() * (data[0] & 0x7f) / 128;
  const bool hello = (data[0] & 0x80) == 0;
  served.connection(hello ? kHello : std::string_view(), bytes.substr(0, cut), bytes.substr(cut));
  return 0;
}
