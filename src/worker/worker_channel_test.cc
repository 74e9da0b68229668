#include "worker/worker_channel.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>

#include "host/descriptor.h"

namespace tangram::worker {
namespace {

// Both ends of what a parent and its worker share.
struct Channel {
  Channel() {
    std::array<int, 2> ends{-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()), 0);
    parent.reset(ends[0]);
    child.reset(ends[1]);
  }
  host::Descriptor parent;
  host::Descriptor child;
};

// One input and one output of FP32, with as many values as the input is long.
Signature signature() {
  return {.inputs = {{.name = "x", .datatype = Datatype::fp32, .shape = {kVariableAxis}}},
          .outputs = {{.name = "y", .datatype = Datatype::fp32, .shape = {kVariableAxis}}}};
}

engines::BatchJob job(std::int32_t samples, std::int64_t size) {
  return {.batch = BatchId(1), .service = ServiceId(0), .samples = samples, .size = size};
}

TEST(SendSpec, TakesTheSpecToTheOtherSide) {
  const Channel channel;
  ASSERT_TRUE(send_spec(channel.parent.get(), {.engine = "emulated", .config = {}, .cores = {1, 3}, .models = {}}));
  const ReceivedMessage received = receive_message(channel.child.get(), false);
  ASSERT_EQ(received.kind, ReceivedMessage::Kind::message);
  EXPECT_EQ(received.message.kind, WorkerMessageKind::load);
  const auto memory = SharedMemory::adopt(received.descriptor, received.message.bytes);
  ASSERT_TRUE(memory);
  const auto spec = read_worker_spec({reinterpret_cast<const char*>(memory->data()), memory->size()});
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->cores, (std::vector<int>{1, 3}));
}

// 2 x 8 values of 4 bytes fit into the first MiB; 2 x 2^18 inputs and outputs are 4 MiB and need more.
TEST(SharedTensors, AnnounceMemoryOnlyWhenTheyGrow) {
  const Channel channel;
  SharedTensors tensors;
  const auto announced_bytes = [&]() -> std::uint64_t {
    const ReceivedMessage received = receive_message(channel.child.get(), false);
    const host::Descriptor descriptor(received.descriptor);
    return received.kind == ReceivedMessage::Kind::message ? received.message.bytes : 0;
  };
  const auto small = tensors.prepare(signature(), job(2, 8), channel.parent.get());
  ASSERT_TRUE(small);
  EXPECT_EQ((*small)->inputs[0].size(), 2U * 8 * 4);
  EXPECT_EQ(announced_bytes(), 1U << 20);
  ASSERT_TRUE(tensors.prepare(signature(), job(1, 8), channel.parent.get()));
  EXPECT_EQ(announced_bytes(), 0U);
  const auto large = tensors.prepare(signature(), job(2, 1 << 18), channel.parent.get());
  ASSERT_TRUE(large);
  EXPECT_EQ((*large)->outputs[0].size(), std::size_t{2} << 20);
  EXPECT_GE(announced_bytes(), std::uint64_t{4} << 20);
}

TEST(SharedTensors, TellThatTheWorkerHasGone) {
  Channel channel;
  channel.child.reset();
  SharedTensors tensors;
  EXPECT_TRUE(tensors.prepare(signature(), job(1, 1), channel.parent.get()));
  EXPECT_FALSE(tensors.announced());
  tensors.reset();
  EXPECT_TRUE(tensors.prepare(signature(), job(1, 1), -1));
  EXPECT_TRUE(tensors.announced());
}

TEST(SharedTensors, RefuseABatchThatNoMemoryHolds) {
  SharedTensors tensors;
  const auto refused = tensors.prepare(signature(), job(1, std::int64_t{1} << 62), -1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::exhausted);
}

}  // namespace
}  // namespace tangram::worker
