// A worker with a long batch that is stopped, against the stand-in for ONNX Runtime, whose models take as long as they
// say and look between two steps whether they are to stop.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "engines/tensor_memory.h"
#include "worker/worker_channel.h"
#include "worker/worker_process.h"
#include "worker/worker_protocol.h"

namespace tangram::worker {
namespace {

namespace fs = std::filesystem;

const Signature kSignature{{{"x", Datatype::fp32, {kVariableAxis}}}, {{"y", Datatype::uint8, {2}}}};

class WorkerStop : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("tangram-worker-stop-" + std::to_string(getpid()));
    fs::create_directories(folder_);
    // Ten minutes in steps of 10 ms; a batch of one element has a size of 1.
    std::ofstream(folder_ / "slow.onnx") << "input x float -1 -1\noutput y uint8 -1 2\nsteps 60000 10\n";
    const auto started = start_worker(find_worker_program(), {"TANGRAM_ONNXRUNTIME=" TANGRAM_FAKE_ONNXRUNTIME});
    ASSERT_TRUE(started) << started.error().message;
    worker_ = *started;
  }
  void TearDown() override {
    kill(worker_.process, SIGKILL);
    waitpid(worker_.process, nullptr, 0);
    close(worker_.socket);
    fs::remove_all(folder_);
  }
  WorkerMessage next() const {
    // Our end of the socket does not block.
    for (int i = 0; i < 3'000; ++i) {
      const auto received = receive_message(worker_.socket, false);
      if (received.kind == ReceivedMessage::Kind::message) return received.message;
      if (received.kind != ReceivedMessage::Kind::nothing) break;
      usleep(10'000);
    }
    ADD_FAILURE() << "the worker does not answer";
    return {};
  }

  fs::path folder_;
  StartedWorker worker_;
};

TEST_F(WorkerStop, EndsTheBatchAndServesTheNext) {
  WorkerSpec spec{.engine = "onnx", .config = {}, .cores = {}, .models = {}};
  spec.models.push_back({.service = ServiceId(0),
                         .name = "slow",
                         .network = "slow",
                         .path = folder_ / "slow",
                         .signature = kSignature,
                         .shapes = {}});
  ASSERT_TRUE(send_spec(worker_.socket, spec));
  const auto ready = next();
  ASSERT_EQ(ready.kind, WorkerMessageKind::ready) << std::string(ready.text.data(), ready.text_length);
  EXPECT_EQ(ready.size, 1);
  SharedTensors tensors;
  for (const std::uint64_t number : {7U, 8U}) {
    const engines::BatchJob job{.batch = BatchId(number), .service = ServiceId(0), .samples = 1, .size = 1};
    ASSERT_TRUE(tensors.prepare(kSignature, job, worker_.socket));
    ASSERT_TRUE(send_message(worker_.socket, run_message(job)));
    // Of another batch, which changes nothing; and, again and again, of this one, which may not have begun yet.
    send_stop(worker_.process, BatchId(number + 100));
    WorkerMessage answer;
    for (int i = 0; i < 1'000 && answer.kind != WorkerMessageKind::failed; ++i) {
      usleep(10'000);
      send_stop(worker_.process, BatchId(number));
      const auto received = receive_message(worker_.socket, false);
      if (received.kind == ReceivedMessage::Kind::message) answer = received.message;
    }
    EXPECT_EQ(answer.kind, WorkerMessageKind::failed);
    EXPECT_EQ(answer.batch, number);
    EXPECT_EQ(std::string(answer.text.data(), answer.text_length), "the batch was stopped");
  }
}

}  // namespace
}  // namespace tangram::worker
