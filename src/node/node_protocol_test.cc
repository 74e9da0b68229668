#include "node/node_protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tangram::node {
namespace {

using namespace std::chrono_literals;

TEST(NodeProtocol, JoinsAreReadAsTheyWereWritten) {
  JoinRequest join{.version = "0.1.0", .name = "n1", .token = "t", .munge = "MUNGE:x"};
  join.boards.push_back({"rack1-0", "a100-80gb", 0, true, {}});
  join.boards.push_back({"", "", 0, false, {{"MIG-1", "1g.10gb", -1}, {"MIG-2", "2g.20gb", 4}}});
  EXPECT_EQ(*read_join(write_join(join)), join);
}

// Another version may have other keys: the number alone is enough to say so.
TEST(NodeProtocol, JoinsOfAnotherVersionAreReadAsFarAsTheirNumber) {
  const auto join = read_join(R"({"protocol":7,"version":"9.9.9","hello":[]})");
  ASSERT_TRUE(join);
  EXPECT_EQ(join->protocol, 7);
  EXPECT_EQ(join->version, "9.9.9");
}

TEST(NodeProtocol, JoinsOfStrangersAreRefused) {
  JoinRequest good{.version = "1", .name = "n1"};
  EXPECT_TRUE(read_join(write_join(good)));
  JoinRequest spaces = good;
  spaces.name = "n 1";
  EXPECT_FALSE(read_join(write_join(spaces)));
  JoinRequest many = good;
  many.boards.resize(kBoardsMax + 1);
  EXPECT_FALSE(read_join(write_join(many)));
  JoinRequest slices = good;
  slices.boards.resize(2);
  for (auto& board : slices.boards) board.slices.resize(kOfferedSlicesMax / 2 + 1, {"1", "1g.10gb", -1});
  EXPECT_FALSE(read_join(write_join(slices)));
  for (const char* text : {"", "[]", "{}", "{\"protocol\":\"1\"}", "{\"protocol\":1}", "{\"protocol\":1,\"version\":1}"}) {
    EXPECT_FALSE(read_join(text)) << text;
  }
}

TEST(NodeProtocol, ControlMessagesAreReadAsTheyWereWritten) {
  ControlMessage load{.kind = ControlKind::load, .slice = "rack1-0/1g.10gb@0#1", .life = 7};
  load.board = 1;
  load.offered = "MIG-1";
  load.mig_profile = "1g.10gb";
  load.start = 3;
  load.device_units = 8;
  load.units_per_core = 4;
  load.cut_units = 2;
  load.process = 1;
  load.fresh = true;
  load.spec = "{\"a\":\"\n\"}";
  ControlMessage ready{.kind = ControlKind::ready, .slice = "s", .life = 9};
  ready.digests = {{"net", "00ff"}};
  for (const auto& message :
       {load, ready, ControlMessage{.kind = ControlKind::ping, .number = 5}, ControlMessage{.kind = ControlKind::leaving},
        ControlMessage{.kind = ControlKind::stop, .slice = "s", .life = 1, .batch = 4, .must = true},
        ControlMessage{.kind = ControlKind::lost, .slice = "s", .life = 1, .reason = "it \"died\""}}) {
    const std::string line = write_control(message);
    EXPECT_EQ(line.find('\n'), line.size() - 1) << "one line";
    EXPECT_EQ(*read_control(line.substr(0, line.size() - 1)), message) << line;
  }
}

TEST(NodeProtocol, ControlMessagesThatMeanNothingAreErrors) {
  for (const char* line : {"", "{}", "ping", R"({"is":"dance"})", R"({"is":"ping"})", R"({"is":"ping","number":-1.5e9})",
                           R"({"is":"stop","slice":"s","life":1})",
                           R"({"is":"load","slice":"s","life":1,"board":64})"}) {
    EXPECT_FALSE(read_control(line)) << line;
  }
}

host::HttpHead head_of(const std::string& text) {
  host::HttpHead head;
  EXPECT_EQ(host::parse_http_head(text, 64 << 10, head).kind, host::HttpHeadResult::Kind::complete) << text;
  return head;
}

TEST(NodeProtocol, BatchesKeepTheirNumbers) {
  BatchHead batch;
  batch.life = 99;
  batch.job = {.batch = BatchId(7), .service = ServiceId(2), .samples = 3, .size = 64, .expected = 5ms, .cold = true,
               .load = 2s};
  batch.remaining = 120ms;
  batch.unloaded = {ServiceId(4), ServiceId(5)};
  const std::string text = "POST /v2/models/m/infer HTTP/1.1\r\nHost: n\r\n" + write_batch_fields(batch) + "\r\n";
  const auto read = read_batch_fields(head_of(text));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->life, 99u);
  EXPECT_EQ(read->job.batch, BatchId(7));
  EXPECT_EQ(read->job.service, ServiceId(2));
  EXPECT_EQ(read->job.samples, 3);
  EXPECT_EQ(read->job.size, 64);
  EXPECT_EQ(read->job.expected, 5ms);
  EXPECT_TRUE(read->job.cold);
  EXPECT_EQ(read->job.load, 2s);
  EXPECT_EQ(read->remaining, 120ms);
  EXPECT_EQ(read->unloaded, batch.unloaded);
}

TEST(NodeProtocol, BatchesWithoutSenseAreErrors) {
  const auto fields = [](std::string_view samples, std::string_view size) {
    return "POST / HTTP/1.1\r\nHost: n\r\nTangram-Life: 1\r\nTangram-Batch: 1\r\nTangram-Service: 0\r\nTangram-Samples: " +
           std::string(samples) + "\r\nTangram-Size: " + std::string(size) +
           "\r\nTangram-Expected-Ns: 1\r\nTangram-Load-Ns: 0\r\nTangram-Cold: 0\r\nTangram-Remaining-Us: 0\r\n\r\n";
  };
  const auto good = [&](std::string_view samples, std::string_view size) {
    const std::string text = fields(samples, size);
    return read_batch_fields(head_of(text)).ok();
  };
  EXPECT_TRUE(good("1", "1"));
  EXPECT_FALSE(good("0", "1"));
  EXPECT_FALSE(good("-1", "1"));
  EXPECT_FALSE(good("1", "0"));
  EXPECT_FALSE(good("1e3", "1"));
  EXPECT_FALSE(good("99999999999999999999", "1"));
  EXPECT_FALSE(read_batch_fields(head_of("POST / HTTP/1.1\r\nHost: n\r\n\r\n")));
}

TEST(NodeProtocol, AnswersSayHowLongTheBatchRan) {
  const std::string head = "HTTP/1.1 200 OK\r\n" + write_answer_fields({7, 99, 5ms, true}) + "Content-Length: 0\r\n\r\n";
  const auto read = read_answer_fields(head);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->batch, 7u);
  EXPECT_EQ(read->life, 99u);
  EXPECT_EQ(read->ran, 5ms);
  EXPECT_TRUE(read->stopped);
  EXPECT_FALSE(read_answer_fields("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
}

// An answer may come in pieces, and the first message of the gateway right behind it.
TEST(NodeProtocol, AnAnswerIsTakenWhenItIsWholeAndWhatFollowsStays) {
  const std::string whole = write_answer(200, "{\"a\":1}");
  for (std::size_t n = 0; n < whole.size(); ++n) {
    std::string part = whole.substr(0, n);
    const auto taken = take_answer(part);
    ASSERT_TRUE(taken);
    EXPECT_FALSE(*taken) << n;
    EXPECT_EQ(part.size(), n);
  }
  std::string in = whole + "{\"is\":\"ping\",\"number\":1}\n";
  const auto taken = take_answer(in);
  ASSERT_TRUE(taken && *taken);
  EXPECT_EQ((*taken)->status, 200);
  EXPECT_EQ((*taken)->body, "{\"a\":1}");
  EXPECT_EQ(in, "{\"is\":\"ping\",\"number\":1}\n");
  std::string other = "SSH-2.0-OpenSSH\r\n\r\n";
  EXPECT_FALSE(take_answer(other));
  std::string endless(kJoinHeadMax + 1, 'x');
  EXPECT_FALSE(take_answer(endless));
}

}  // namespace
}  // namespace tangram::node
