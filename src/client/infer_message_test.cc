#include "client/infer_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tangram::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

InferRequest request() {
  return {.model = "encoder",
          .id = "7",
          .inputs = {{.name = "ids", .datatype = Datatype::int64, .shape = {1, 2}, .bytes = "0123456789abcdef"},
                     {.name = "a\"b", .datatype = Datatype::fp32, .shape = {1}, .bytes = "ABCD"}}};
}

// The JSON that the head of a message announces, and what lies behind it.
struct Parts {
  std::string head;
  nlohmann::json json;
  std::string tensors;
};

Parts parts_of(const std::string& message) {
  const auto end = message.find("\r\n\r\n") + 4;
  const std::string name = "Inference-Header-Content-Length: ";
  const auto length = std::stoul(message.substr(message.find(name) + name.size()));
  return {message.substr(0, end), nlohmann::json::parse(message.substr(end, length)), message.substr(end + length)};
}

TEST(InferRequest, PutsTheTensorsBehindTheJsonInItsOrder) {
  const Parts parts = parts_of(write_infer_request(request(), "Host: here\r\n"));
  EXPECT_THAT(parts.head, testing::StartsWith("POST /v2/models/encoder/infer HTTP/1.1\r\nHost: here\r\n"));
  EXPECT_EQ(parts.tensors, "0123456789abcdefABCD");
  const std::string length = "Content-Length: " + std::to_string(parts.json.dump().size() + 20);  // 16 + 4 bytes.
  EXPECT_THAT(parts.head, HasSubstr("\r\n" + length + "\r\n"));
  EXPECT_EQ(parts.json["id"], "7");
  EXPECT_EQ(parts.json["inputs"][0]["shape"], nlohmann::json({1, 2}));
  EXPECT_EQ(parts.json["inputs"][0]["parameters"]["binary_data_size"], 16);
  EXPECT_EQ(parts.json["inputs"][1]["name"], "a\"b");
  EXPECT_EQ(parts.json["inputs"][1]["datatype"], "FP32");
}

TEST(InferRequest, AsksForBinaryOutputsWhetherItNamesThemOrNot) {
  InferRequest asked = request();
  const auto all = parts_of(write_infer_request(asked, "")).json;
  EXPECT_EQ(all["parameters"]["binary_data_output"], true);
  EXPECT_FALSE(all.contains("outputs"));
  asked.outputs = {"x", "y"};
  const auto named = parts_of(write_infer_request(asked, "")).json;
  ASSERT_EQ(named["outputs"].size(), 2U);
  EXPECT_EQ(named["outputs"][1]["name"], "y");
  EXPECT_EQ(named["outputs"][1]["parameters"]["binary_data"], true);
}

TEST(InferRequest, PutsTheSamplesInFrontOfAShape) {
  EXPECT_THAT(batched_shape({.name = "ids", .datatype = Datatype::int64, .shape = {kVariableAxis, 3}}, 2, 128),
              ElementsAre(2, 128, 3));
}

TEST(InferAnswer, GivesEachOutputItsBytes) {
  const std::string json =
      R"({"outputs":[{"name":"a","datatype":"FP32","shape":[1],"parameters":{"binary_data_size":4}},)"
      R"({"name":"b","datatype":"UINT8","shape":[2],"parameters":{"binary_data_size":2}}]})";
  const std::string body = json + "aaaabb";
  const auto outputs = read_infer_answer(body, json.size());
  ASSERT_TRUE(outputs) << outputs.error().message;
  ASSERT_EQ(outputs->size(), 2U);
  EXPECT_EQ((*outputs)[0].name, "a");
  EXPECT_EQ((*outputs)[0].bytes, "aaaa");
  EXPECT_EQ((*outputs)[1].datatype, "UINT8");
  EXPECT_EQ((*outputs)[1].bytes, "bb");
}

TEST(InferAnswer, SaysWhatIsWrong) {
  const std::string json = R"({"outputs":[{"name":"a","datatype":"FP32","parameters":{"binary_data_size":4}}]})";
  EXPECT_EQ(read_infer_answer(json + "aaa", json.size()).error().message, "bytes are missing");
  EXPECT_EQ(read_infer_answer(json, json.size() + 1).error().message, "its JSON is longer than the answer");
  for (const std::string text :
       {"", "[]", "{}", R"({"outputs":[{}]})", R"({"outputs":[{"name":"a","datatype":"FP32","data":[1.5]}]})"}) {
    EXPECT_FALSE(read_infer_answer(text, text.size())) << text;
  }
}

}  // namespace
}  // namespace tangram::client
