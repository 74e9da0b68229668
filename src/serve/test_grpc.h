// A gRPC server with a small world, on one thread, and a client of gRPC's own library, for tests.
#pragma once

#ifdef TANGRAM_WITH_GRPC

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "health.grpc.pb.h"
#include "host/event_loop.h"
#include "host/listen_socket.h"
#include "inference.grpc.pb.h"
#include "serve/grpc_server.h"
#include "serve/test_deployment.h"

namespace tangram::serve::test {

// A server on a free port whose world runs on a thread of its own, with slices that answer at once.
class GrpcFixture : public testing::Test {
 protected:
  GrpcFixture()
      : deployment_(test::deployment()),
        models_(served_models(deployment_, test::workload(), "emulated")),
        signatures_{&models_[0].signature},
        gateway_(models_, {"1.2.3", false, nullptr}) {
    LiveWorldConfig config;
    config.make_executor = [this](SliceId, const sched::Place&, engines::ExecutorEvents&) {
      return engines::make_emulated_executor(signatures_, {.time_scale = 0});
    };
    world_ = std::make_unique<LiveWorld>(deployment_, models_, std::move(config));
    world_->inbox().set_waker([this] { loop_.wake(); });
    gateway_.set_ready(true);
    start({});
  }
  ~GrpcFixture() override { stop(); }

  // The server and its world on one thread, as `tangram serve` has them by default.
  void start(const GrpcLimits& limits) {
    stop();
    stopping_ = false;
    const auto socket = host::listen_at("127.0.0.1", 0, false);
    EXPECT_TRUE(socket.ok());
    port_ = host::port_of(*socket);
    server_ = make_grpc_server(loop_, {clock_, gateway_, *world_, memory_, peers_, health_}, limits, true);
    server_->listen(*socket, nullptr);
    thread_ = std::thread([this] {
      while (!stopping_) {
        loop_.wait(clock_, std::min(world_->next_due(), server_->next_due()));
        if (drain_asked_.exchange(false)) server_->drain();
        do {
          world_->step(clock_.now());
        } while (server_->work(clock_.now()));
      }
    });
    channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(port_), grpc::InsecureChannelCredentials());
    stub_ = inference::GRPCInferenceService::NewStub(channel_);
  }
  void stop() {
    if (!thread_.joinable()) return;
    stopping_ = true;
    loop_.wake();
    thread_.join();
    server_.reset();
  }
  void set_serving(bool serving) {
    health_.serving = serving;
    loop_.wake();
  }
  void drain() {
    health_.ending = true;
    drain_asked_ = true;
    loop_.wake();
  }

  static inference::ModelInferRequest request(const std::vector<std::int64_t>& ids, bool raw) {
    inference::ModelInferRequest r;
    r.set_model_name("rank");
    r.set_id("seven");
    auto* input = r.add_inputs();
    input->set_name("ids");
    input->set_datatype("INT64");
    input->add_shape(1);
    input->add_shape(static_cast<std::int64_t>(ids.size()));
    if (raw) {
      r.add_raw_input_contents(ids.data(), ids.size() * sizeof(std::int64_t));
    } else {
      for (const auto id : ids) input->mutable_contents()->add_int64_contents(id);
    }
    return r;
  }

  // The bytes of the health service's answer, or its code.
  std::string health(const std::string& name = "") {
    grpc::health::v1::HealthCheckRequest question;
    question.set_service(name);
    grpc::health::v1::HealthCheckResponse answer;
    grpc::ClientContext context;
    const auto status = grpc::health::v1::Health::NewStub(channel_)->Check(&context, question, &answer);
    return status.ok() ? answer.SerializeAsString() : "code " + std::to_string(status.error_code());
  }

  // The bytes of the answer to one question of the reflection service.
  std::string reflection(const std::string& asked, const std::string& version = "v1alpha") {
    const std::string method = "/grpc.reflection." + version + ".ServerReflection/ServerReflectionInfo";
    grpc::GenericStub stub(channel_);
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    const auto stream = stub.PrepareCall(&context, method, &queue);
    const auto wait = [&] {
      void* tag = nullptr;
      bool ok = false;
      return queue.Next(&tag, &ok) && ok;
    };
    grpc::Slice question(asked);
    grpc::ByteBuffer answer;
    grpc::Status status;
    stream->StartCall(nullptr);
    EXPECT_TRUE(wait());
    stream->WriteLast(grpc::ByteBuffer(&question, 1), {}, nullptr);
    EXPECT_TRUE(wait());
    stream->Read(&answer, nullptr);
    EXPECT_TRUE(wait());
    stream->Finish(&status, nullptr);
    EXPECT_TRUE(wait() && status.ok()) << status.error_message();
    grpc::Slice bytes;
    EXPECT_TRUE(answer.DumpToSingleSlice(&bytes).ok());
    return {reinterpret_cast<const char*>(bytes.begin()), bytes.size()};
  }

  grpc::Status infer(const inference::ModelInferRequest& r, inference::ModelInferResponse* response) {
    grpc::ClientContext context;
    return stub_->ModelInfer(&context, r, response);
  }

  host::LiveClock clock_;
  host::EventLoop loop_;
  sched::Deployment deployment_;
  std::vector<ServedModel> models_;
  std::vector<const Signature*> signatures_;
  Gateway gateway_;
  std::unique_ptr<LiveWorld> world_;
  MemoryBudget memory_;
  Peers peers_{300, memory_.tenant_max()};
  GrpcHealth health_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> drain_asked_{false};
  std::unique_ptr<GrpcServer> server_;
  std::thread thread_;
  std::uint16_t port_ = 0;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
};

}  // namespace tangram::serve::test

#endif
