#include "node/batch_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engines/remote/remote_link.h"
#include "engines/tensor_memory.h"
#include "host/http_parser.h"

namespace tangram::node {
namespace {

engines::ModelSpec text_model() {
  engines::ModelSpec model;
  model.service = ServiceId(0);
  model.name = "rank";
  model.network = "encoder";
  model.signature = {{{"ids", Datatype::int64, {kVariableAxis}, 0, false}, {"flag", Datatype::uint8, {1}, 0, false}},
                     {{"pooled", Datatype::fp32, {2}, 0, false}}};
  model.shapes = {{4, 16}, {8, 8}};
  return model;
}

struct TensorRoom {
  TensorRoom(const engines::ModelSpec& model, const engines::BatchJob& job)
      : bytes(*engines::memory_needed(model.signature, job)) {
    engines::cut_memory(model.signature, job, bytes.data(), memory);
  }
  std::vector<std::byte> bytes;
  engines::BatchMemory memory;
};

const engines::BatchJob kJob{.batch = BatchId(1), .service = ServiceId(0), .samples = 2, .size = 3};

// What the gateway writes and the node reads, and back.
TEST(BatchTensors, ArriveAsTheyWereSent) {
  const auto model = text_model();
  TensorRoom sent(model, kJob);
  for (auto& tensor : sent.memory.inputs) {
    for (std::size_t i = 0; i < tensor.size(); ++i) tensor[i] = static_cast<std::byte>(i * 7);
  }
  const std::string request = engines::write_remote_request(model, kJob, sent.memory, "Host: n\r\n");
  host::HttpHead head;
  const auto parsed = host::parse_http_head(request, 4096, head);
  ASSERT_EQ(parsed.kind, host::HttpHeadResult::Kind::complete);
  const std::string_view body = std::string_view(request).substr(parsed.consumed);
  const auto json_length = static_cast<std::size_t>(std::stoul(std::string(*head.find("inference-header-content-length"))));
  TensorRoom got(model, kJob);
  const auto read = read_batch_tensors(model, kJob, body, json_length, got.memory);
  ASSERT_TRUE(read) << read.error().message;
  for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(std::ranges::equal(sent.memory.inputs[i], got.memory.inputs[i]));
  EXPECT_LE(body.size(), *batch_request_max(model));

  for (std::size_t i = 0; i < got.memory.outputs[0].size(); ++i) got.memory.outputs[0][i] = static_cast<std::byte>(i);
  const std::string answer = write_batch_answer(model, kJob, got.memory, "Tangram-Life: 1\r\n");
  const auto end = answer.find("\r\n\r\n") + 4;
  const auto at = answer.find("Inference-Header-Content-Length: ") + 33;
  const auto outputs = engines::read_remote_answer(model, std::string_view(answer).substr(end),
                                                   std::stoul(answer.substr(at)), sent.memory);
  ASSERT_TRUE(outputs) << outputs.error().message;
  EXPECT_TRUE(std::ranges::equal(sent.memory.outputs[0], got.memory.outputs[0]));
}

TEST(BatchTensors, OfAnotherBatchAreErrorsAndWriteNothingBeyondTheirPlace) {
  const auto model = text_model();
  TensorRoom sent(model, kJob);
  const std::string request = engines::write_remote_request(model, kJob, sent.memory, "Host: n\r\n");
  const std::string body = request.substr(request.find("\r\n\r\n") + 4);
  const auto json_length = body.find("]}") + 2;
  const std::string json = body.substr(0, json_length);
  const auto refused = [&](std::string changed_json, const std::string& tail) {
    TensorRoom got(model, kJob);
    return !read_batch_tensors(model, kJob, changed_json + tail, changed_json.size(), got.memory).ok();
  };
  const std::string tail = body.substr(json_length);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = json;
    const auto place = changed.find(from);
    EXPECT_NE(place, std::string::npos) << from;
    return changed.replace(place, from.size(), to);
  };
  EXPECT_FALSE(refused(json, tail)) << "the request itself is good: " << json;
  EXPECT_TRUE(refused(json, tail + "x"));
  EXPECT_TRUE(refused(json, tail.substr(1)));
  EXPECT_TRUE(refused(with("INT64", "INT32"), tail));
  EXPECT_TRUE(refused(with("[2,3]", "[3,2]"), tail));
  EXPECT_TRUE(refused(with("\"ids\"", "\"idz\""), tail));
  EXPECT_TRUE(refused(with("\"binary_data_size\":48", "\"binary_data_size\":50"), tail));
  EXPECT_TRUE(refused(with("\"binary_data_size\":48", "\"binary_data_size\":-1"), tail));
  for (const char* text : {"", "{}", "[]", "null", R"({"inputs":{}})", R"({"inputs":[{},{}]})"}) {
    EXPECT_TRUE(refused(text, tail)) << text;
  }
}

}  // namespace
}  // namespace tangram::node
