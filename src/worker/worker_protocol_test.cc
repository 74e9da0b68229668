#include "worker/worker_protocol.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>
#include <string_view>

#include "worker/shared_memory.h"

namespace tangram::worker {
namespace {

struct SocketPair {
  SocketPair() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0); }
  ~SocketPair() {
    for (const int end : ends) close(end);
  }
  std::array<int, 2> ends{};
};

TEST(WorkerProtocol, CarriesAJobAndAPieceOfMemory) {
  SocketPair pair;
  auto memory = SharedMemory::make(100);
  ASSERT_TRUE(memory);
  std::memset(memory->data(), 7, 100);
  const engines::BatchJob job{BatchId(5), ServiceId(2), 3, 64, std::chrono::milliseconds(9)};
  ASSERT_TRUE(send_message(pair.ends[0], run_message(job), memory->descriptor()));
  const ReceivedMessage received = receive_message(pair.ends[1], true);
  ASSERT_EQ(received.kind, ReceivedMessage::Kind::message);
  const engines::BatchJob read = job_of(received.message);
  EXPECT_EQ(read.batch, job.batch);
  EXPECT_EQ(read.service, job.service);
  EXPECT_EQ(read.samples, 3);
  EXPECT_EQ(read.size, 64);
  EXPECT_EQ(read.expected, job.expected);
  const auto other = SharedMemory::adopt(received.descriptor, 100);
  ASSERT_TRUE(other);
  EXPECT_EQ(other->data()[99], std::byte{7});
  other->data()[0] = std::byte{8};
  EXPECT_EQ(memory->data()[0], std::byte{8});
}

// Too short, too long, another magic, a kind that is none, a text beyond its place; then the end.
TEST(WorkerProtocol, KnowsRubbish) {
  SocketPair pair;
  const auto send_raw = [&](const void* bytes, std::size_t count) {
    ASSERT_EQ(send(pair.ends[0], bytes, count, 0), static_cast<ssize_t>(count));
    const ReceivedMessage received = receive_message(pair.ends[1], false);
    EXPECT_EQ(received.kind, ReceivedMessage::Kind::rubbish) << count;
  };
  EXPECT_EQ(receive_message(pair.ends[1], false).kind, ReceivedMessage::Kind::nothing);
  std::array<char, 300> zeros{};
  send_raw(zeros.data(), 8);
  send_raw(zeros.data(), sizeof(WorkerMessage));
  WorkerMessage message;
  std::memcpy(zeros.data(), &message, sizeof message);
  send_raw(zeros.data(), 300);
  message.kind = static_cast<WorkerMessageKind>(77);
  send_raw(&message, sizeof message);
  message = {};
  message.text_length = 205;
  send_raw(&message, sizeof message);
  shutdown(pair.ends[0], SHUT_RDWR);
  EXPECT_EQ(receive_message(pair.ends[1], false).kind, ReceivedMessage::Kind::closed);
  EXPECT_FALSE(send_message(pair.ends[1], {}));
}

TEST(WorkerProtocol, CutsReasonsThatAreTooLong) {
  WorkerMessage message;
  message.set_text(std::string(1000, 'x'));
  EXPECT_EQ(message.text_length, 204u);
  EXPECT_EQ(std::string_view(message.text.data(), 204), std::string(201, 'x') + "...");
  message.set_text(std::string(204, 'y'));
  EXPECT_EQ(std::string_view(message.text.data(), message.text_length), std::string(204, 'y'));
}

TEST(WorkerProtocol, WritesASpecThatReadsBackTheSame) {
  WorkerSpec spec;
  spec.engine = "torch";
  spec.config = {"a100-80gb", 3, 0.5};
  spec.cores = {0, 2};
  spec.models.push_back(
      {.service = ServiceId(4),
       .name = "rank",
       .network = "encoder",
       .path = "models/encoder",
       .copy = ServiceId(2),
       .on_demand = true,
       .load_time = std::chrono::milliseconds(40),
       .signature = {{{"ids", Datatype::int64, {kVariableAxis, 2}, 9, false}}, {{"y", Datatype::bf16, {}, 0, true}}},
       .shapes = {{8, 32}, {4, 128}}});
  const auto read = read_worker_spec(write_worker_spec(spec));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->engine, "torch");
  EXPECT_EQ(read->config.device, "a100-80gb");
  EXPECT_EQ(read->config.threads, 3);
  EXPECT_EQ(read->config.time_scale, 0.5);
  EXPECT_EQ(read->cores, spec.cores);
  EXPECT_EQ(read->models, spec.models);
  for (const char* text : {"", "{}", "[1]", R"({"engine":1})"}) EXPECT_FALSE(read_worker_spec(text)) << text;
  const auto model = read_model_spec(write_model_spec(spec.models[0]));
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(*model, spec.models[0]);
  EXPECT_FALSE(read_model_spec("{}"));
}

TEST(SharedMemory, CannotBeMadeSmallerByTheOtherSide) {
  auto memory = SharedMemory::make(4096);
  ASSERT_TRUE(memory);
  EXPECT_NE(ftruncate(memory->descriptor(), 0), 0);
  EXPECT_FALSE(SharedMemory::adopt(dup(memory->descriptor()), 4097));
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  EXPECT_FALSE(SharedMemory::adopt(ends[0], 1));
  close(ends[1]);
}

}  // namespace
}  // namespace tangram::worker
