// What strangers send to the gRPC port: each attack ends within a bound of memory, frames or time.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#ifdef TANGRAM_WITH_GRPC

#include "host/content_coding.h"
#include "serve/proto_wire.h"
#include "serve/test_grpc.h"
#include "serve/test_http2.h"

namespace tangram::serve {
namespace {

using test::call_fields;
using test::frame;
using test::grpc_frame;
using test::hpack_field;
using test::Http2Client;

class GrpcAttackTest : public test::GrpcFixture {
 protected:
  // The error code of the GOAWAY that ends the connection; -1: there was none; -2: it did not end.
  static int goodbye(Http2Client& client) {
    int code = -1;
    for (const auto& found : client.receive_to_end()) {
      if (found.type == test::kGoaway && found.payload.size() >= 8) code = static_cast<std::uint8_t>(found.payload[7]);
    }
    return client.ended() ? code : -2;
  }
  // The header fields of the first answer.
  static std::string first_answer(Http2Client& client) {
    Http2Client::Frame found;
    while (client.receive(found)) {
      if (found.type == test::kHeaders) return found.fields;
    }
    return {};
  }
  // Whether everything that was charged is given back before long.
  bool comes_to_hold_nothing() {
    for (int i = 0; i < 1000 && memory_.data().used() > 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return memory_.data().used() == 0;
  }
  static std::string call(std::uint32_t stream, std::string_view message, const char* method = "ModelInfer") {
    return frame(test::kHeaders, test::kEndHeaders, stream, call_fields(method)) +
           frame(test::kData, test::kEndStream, stream, grpc_frame(message));
  }
};

constexpr int kEnhanceYourCalm = 11;

// 8 MiB of zeros in 8 kB. The limit of a message is 1 MiB: it is unpacked as far as that and no further.
TEST_F(GrpcAttackTest, AMessageIsUnpackedWithinItsLimit) {
  start({.message_max = 1 << 20});
  auto bomb = request({1}, true);
  bomb.set_raw_input_contents(0, std::string(8 << 20, '\0'));
  grpc::ClientContext context;
  context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  inference::ModelInferResponse response;
  const auto status = stub_->ModelInfer(&context, bomb, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), testing::HasSubstr("1048576 bytes unpacked"));
  EXPECT_LT(memory_.data().used_max(), 4u << 20);
}

// The same without packing is refused by its prefix, before anything of it is kept.
TEST_F(GrpcAttackTest, AMessageIsRefusedByTheLengthThatItAnnounces) {
  start({.message_max = 1 << 20});
  auto large = request({1}, true);
  large.set_raw_input_contents(0, std::string(2 << 20, '\0'));
  inference::ModelInferResponse response;
  const auto status = infer(large, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_LT(memory_.data().used_max(), 1u << 20);
}

// A block of header fields that never ends: after the 16 KiB of head_max the connection does.
TEST_F(GrpcAttackTest, AFloodOfContinuationFramesEndsTheConnection) {
  Http2Client client(port_);
  client.send(frame(test::kHeaders, 0, 1, call_fields("ModelInfer")));
  const std::string more = frame(test::kContinuation, 0, 1, hpack_field("x-fill", std::string(8000, 'a')));
  for (int i = 0; i < 1000 && client.send(more); ++i) continue;
  EXPECT_EQ(goodbye(client), kEnhanceYourCalm);
  EXPECT_LT(memory_.data().used_max(), 1u << 20);
}

TEST_F(GrpcAttackTest, EmptyContinuationFramesEndTheConnection) {
  Http2Client client(port_);
  client.send(frame(test::kHeaders, 0, 1, call_fields("ModelInfer")));
  std::string many;
  for (int i = 0; i < 10'000; ++i) many += frame(test::kContinuation, 0, 1, "");
  client.send(many);
  client.receive_to_end();
  EXPECT_TRUE(client.ended());
}

// One field of 3,000 bytes in the table of HPACK, named twenty times by one byte: 60 kB unpacked. The call fails, and
// the connection lives.
TEST_F(GrpcAttackTest, MetadataAreCountedUnpacked) {
  Http2Client client(port_);
  std::string fields = call_fields("ModelInfer") + hpack_field("x-fill", std::string(3000, 'a'), true);
  fields += std::string(20, '\xbe');
  client.send(frame(test::kHeaders, test::kEndHeaders | test::kEndStream, 1, fields));
  const std::string answer = first_answer(client);
  EXPECT_THAT(answer, testing::HasSubstr("grpc-status: 8\n"));
  client.send(frame(test::kHeaders, test::kEndHeaders, 3, call_fields("ServerLive")) +
              frame(test::kData, test::kEndStream, 3, grpc_frame("")));
  Http2Client::Frame found;
  bool answered = false;
  while (!answered && client.receive(found)) answered = found.type == test::kData && found.stream == 3;
  EXPECT_TRUE(answered);
}

TEST_F(GrpcAttackTest, OutputsCannotRepeatWithoutLimit) {
  auto asked = request({1}, true);
  for (int i = 0; i < 100'000; ++i) asked.add_outputs()->set_name("pooled");
  inference::ModelInferResponse response;
  const auto status = infer(asked, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "too many outputs");
  EXPECT_LT(memory_.data().used_max(), 8u << 20);
}

// A million empty elements of typed contents in 2 MB: their number is compared with the shape before any is converted.
TEST_F(GrpcAttackTest, TypedContentsAreCountedBeforeTheyAreConverted) {
  auto asked = request({1}, false);
  for (int i = 0; i < 1'000'000; ++i) asked.mutable_inputs(0)->mutable_contents()->add_int64_contents(1);
  inference::ModelInferResponse response;
  const auto status = infer(asked, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), testing::HasSubstr("has 8000008 bytes, expected 8"));
  EXPECT_LT(memory_.data().used_max(), 4u << 20);
}

// PING, SETTINGS, PRIORITY and WINDOW_UPDATE ask for nothing; 200 a second are enough for every client.
TEST_F(GrpcAttackTest, FramesThatAskForNothingAreLimited) {
  const std::string priority = test::big_endian(0) + std::string(1, '\1');
  for (const auto& one : {frame(test::kPing, 0, 0, "12345678"), frame(test::kSettings, 0, 0, ""),
                          frame(test::kWindow, 0, 0, test::big_endian(1)), frame(test::kPriority, 0, 1, priority)}) {
    Http2Client client(port_);
    std::string many;
    for (int i = 0; i < 100; ++i) many += one;
    bool open = true;
    for (int i = 0; i < 1000 && open; ++i) open = client.send(many);
    client.receive_to_end();
    EXPECT_TRUE(client.ended()) << static_cast<int>(one[3]);
  }
}

// Calls that are opened and reset at once, as in CVE-2023-44487.
TEST_F(GrpcAttackTest, RapidResetsEndTheConnection) {
  Http2Client client(port_);
  std::string many;
  for (std::uint32_t stream = 1; stream < 20'000; stream += 2) {
    many += frame(test::kHeaders, test::kEndHeaders, stream, call_fields("ModelInfer"));
    many += frame(test::kReset, 0, stream, test::big_endian(8));
  }
  client.send(many);
  client.receive_to_end();
  EXPECT_TRUE(client.ended());
  EXPECT_LT(memory_.data().used_max(), 8u << 20);
}

// Answers of 128 places in 3 kB each, to a client whose windows stay shut. What waits for it is at most unread_max, and
// after `unread` the connection is closed.
TEST_F(GrpcAttackTest, AClientThatDoesNotReadIsClosed) {
  start({.unread_max = 100'000, .unread = std::chrono::milliseconds(100)});
  Http2Client client(port_);
  client.send(frame(test::kSettings, 0, 0, std::string("\0\4", 2) + test::big_endian(0)));  // No window for any call.
  const std::string message = request(std::vector<std::int64_t>(100, 1), true).SerializeAsString();
  std::string many;
  for (std::uint32_t stream = 1; stream < 1000; stream += 2) many += call(stream, message);
  EXPECT_TRUE(client.send(many));
  const auto frames = client.receive_to_end();
  EXPECT_TRUE(client.ended());
  for (const auto& found : frames) EXPECT_NE(found.type, test::kData);
  EXPECT_LT(memory_.data().used_max(), 8u << 20);
  EXPECT_TRUE(comes_to_hold_nothing());
}

TEST_F(GrpcAttackTest, AConnectionThatSaysNothingIsClosed) {
  start({.grace = std::chrono::milliseconds(50)});
  Http2Client silent(port_, false);
  Http2Client half_head(port_);
  half_head.send(frame(test::kHeaders, 0, 1, call_fields("ModelInfer")));
  silent.receive_to_end();
  half_head.receive_to_end();
  EXPECT_TRUE(silent.ended());
  EXPECT_TRUE(half_head.ended());
}

// Sent fast and then paused: the rate counts in each window of `grace`, not from the start.
TEST_F(GrpcAttackTest, AMessageThatPausesIsEnded) {
  start({.grace = std::chrono::milliseconds(300)});
  Http2Client client(port_);
  client.send(frame(test::kHeaders, test::kEndHeaders, 1, call_fields("ModelInfer")));
  const std::string begin = '\0' + test::big_endian(1 << 20) + std::string(10'000, 'a');
  client.send(frame(test::kData, 0, 1, begin));
  EXPECT_THAT(first_answer(client), testing::HasSubstr("grpc-status: 4\n"));
}

TEST_F(GrpcAttackTest, ConnectionsOfOnePeerAreLimited) {
  std::vector<std::unique_ptr<Http2Client>> clients;
  for (int i = 0; i < 301; ++i) clients.push_back(std::make_unique<Http2Client>(port_));
  clients.back()->receive_to_end();
  EXPECT_TRUE(clients.back()->ended());
}

// The table is full of connections without a call: the oldest makes room.
TEST_F(GrpcAttackTest, QuietConnectionsGiveWayToNewOnes) {
  start({.connections_max = 3});
  std::vector<std::unique_ptr<Http2Client>> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(std::make_unique<Http2Client>(port_));
  inference::ModelInferResponse response;
  EXPECT_TRUE(infer(request({1}, true), &response).ok());
}

// No room for one more byte: calls are refused, and work again when there is.
TEST_F(GrpcAttackTest, WithoutRoomCallsAreRefusedAndNotHeld) {
  Charge all(MemoryPlaces{nullptr, nullptr, &memory_.data()});
  inference::ModelInferResponse response;
  ASSERT_TRUE(infer(request({1}, true), &response).ok());
  ASSERT_TRUE(all.resize(memory_.data().limit() - memory_.data().used() - 6000));
  auto large = request({1}, true);
  large.set_raw_input_contents(0, std::string(100'000, '\0'));
  EXPECT_EQ(infer(large, &response).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  all.release();
  EXPECT_TRUE(infer(request({1}, true), &response).ok());
}

TEST_F(GrpcAttackTest, AnswersPlainHttpInItsOwnWords) {
  Http2Client client(port_, false);
  client.send("GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(client.rest(), testing::HasSubstr("this port speaks gRPC"));
}

// Any bytes at all, cut anywhere: the server outlives them, and holds nothing when they are gone.
TEST_F(GrpcAttackTest, HoldsNothingForConnectionsThatAreGone) {
  const std::string message = request({1, 2, 3}, true).SerializeAsString();
  const std::string whole = call(1, message) + call(3, message, "ModelStreamInfer");
  for (std::size_t cut = 0; cut <= whole.size(); cut += 7) {
    Http2Client client(port_);
    client.send(std::string_view(whole).substr(0, cut));
  }
  inference::ModelInferResponse response;
  EXPECT_TRUE(infer(request({1}, true), &response).ok());
  channel_.reset();
  stub_.reset();
  EXPECT_TRUE(comes_to_hold_nothing());
}

}  // namespace
}  // namespace tangram::serve

#endif
