#include "serve/infer_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "core/bytes_slot.h"

namespace tangram::serve {
namespace {

using testing::HasSubstr;

// Token ids with a mask, and a number beside them.
const ServedModel& model() {
  static const ServedModel kModel = [] {
    ServedModel m;
    m.name = "rank";
    m.signature.inputs = {{"ids", Datatype::int64, {kVariableAxis}, 0, false},
                          {"mask", Datatype::int64, {kVariableAxis}, 0, true},
                          {"scale", Datatype::fp32, {2}, 0, false}};
    m.signature.outputs = {{"score", Datatype::fp32, {1}, 0, false},
                           {"half", Datatype::fp16, {kVariableAxis}, 0, false}};
    return m;
  }();
  return kModel;
}

struct Read {
  Call call;
  std::optional<CallProblem> problem;
  std::string message() const { return problem ? problem->message : ""; }
};

// Tensors point into the call, so it stays where it is.
std::unique_ptr<Read> read(const std::string& body, std::optional<std::string> json_length = std::nullopt,
                           const ServedModel& served = model()) {
  auto result = std::make_unique<Read>();
  result->call.model = &served;
  result->call.body = body;
  InferHeaders headers;
  if (json_length) headers.json_length = *json_length;
  result->problem = read_infer_request(headers, result->call);
  return result;
}

template <typename T>
std::vector<T> values_of(std::string_view raw) {
  std::vector<T> values(raw.size() / sizeof(T));
  std::memcpy(values.data(), raw.data(), raw.size());
  return values;
}

constexpr const char* kScale = R"({"name":"scale","shape":[2,2],"datatype":"FP32","data":[1,2,3,4.5]})";

TEST(InferRequest, ReadsNestedAndFlatNumbers) {
  const auto r =
      read(R"({"id":"a\u00e9","inputs":[{"name":"ids","shape":[2,3],"datatype":"INT64","data":[[1,2,3],[4,5,6]]},)" +
           std::string(kScale) + R"(],"parameters":{"priority":2,"timeout":1500}})");
  ASSERT_EQ(r->message(), "");
  EXPECT_EQ(r->call.id, "a\xc3\xa9");
  EXPECT_EQ(r->call.samples, 2);
  EXPECT_EQ(r->call.extent, 3);
  EXPECT_EQ(r->call.size, 3);
  EXPECT_EQ(r->call.priority, 2);
  EXPECT_EQ(r->call.deadline, std::chrono::microseconds(1500));
  EXPECT_EQ(values_of<std::int64_t>(r->call.inputs[0].data), (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_FALSE(r->call.inputs[1].given);
  EXPECT_EQ(values_of<float>(r->call.inputs[2].data), (std::vector<float>{1, 2, 3, 4.5}));
  EXPECT_EQ(r->call.outputs.size(), 2u);
}

// Data may come before the datatype that says how to read it.
TEST(InferRequest, ReadsKeysInAnyOrder) {
  const auto r = read(R"({"inputs":[{"data":[7,8],"shape":[1,2],"name":"ids","datatype":"INT64"},)"
                      R"({"data":[1,2],"datatype":"FP32","shape":[1,2],"name":"scale"}]})");
  ASSERT_EQ(r->message(), "");
  EXPECT_EQ(values_of<std::int64_t>(r->call.inputs[0].data), (std::vector<std::int64_t>{7, 8}));
  EXPECT_EQ(values_of<float>(r->call.inputs[2].data), (std::vector<float>{1, 2}));
}

// As Triton's client sends it: the JSON first, then 16 bytes of ids and 8 bytes of scale.
TEST(InferRequest, ReadsBinaryTensorsInTheirOrder) {
  const std::string json =
      R"({"inputs":[{"name":"ids","shape":[1,2],"datatype":"INT64","parameters":{"binary_data_size":16}},)"
      R"({"name":"scale","shape":[1,2],"datatype":"FP32","parameters":{"binary_data_size":8}}],)"
      R"("outputs":[{"name":"score","parameters":{"binary_data":true}}]})";
  const std::int64_t ids[2] = {-5, 6};
  const float scale[2] = {0.5, -1};
  std::string body = json;
  body.append(reinterpret_cast<const char*>(ids), sizeof ids);
  body.append(reinterpret_cast<const char*>(scale), sizeof scale);
  const auto r = read(body, std::to_string(json.size()));
  ASSERT_EQ(r->message(), "");
  EXPECT_EQ(values_of<std::int64_t>(r->call.inputs[0].data), (std::vector<std::int64_t>{-5, 6}));
  EXPECT_EQ(values_of<float>(r->call.inputs[2].data), (std::vector<float>{0.5, -1}));
  ASSERT_EQ(r->call.outputs.size(), 1u);
  EXPECT_TRUE(r->call.outputs[0].binary);
  EXPECT_THAT(read(body + "x", std::to_string(json.size()))->message(),
              HasSubstr("1 unexpected bytes follow the last input"));
  EXPECT_THAT(read(body.substr(0, body.size() - 1), std::to_string(json.size()))->message(), HasSubstr("announced"));
  EXPECT_THAT(read(body, std::to_string(body.size() + 1))->message(), HasSubstr("within the body"));
  EXPECT_THAT(read(body, "-1")->message(), HasSubstr("within the body"));
}

// A header of zero: the body is the only input, here three numbers of four bytes.
TEST(InferRequest, TakesARawBodyForAModelWithOneInput) {
  ServedModel one;
  one.name = "one";
  one.signature = default_signature();
  const auto r = read(std::string(12, '\0'), "0", one);
  ASSERT_EQ(r->message(), "");
  EXPECT_EQ(r->call.samples, 1);
  EXPECT_EQ(r->call.size, 3);
  EXPECT_TRUE(r->call.outputs[0].binary);
  EXPECT_THAT(read(std::string(13, '\0'), "0", one)->message(), HasSubstr("has 13 bytes, expected 12"));
  EXPECT_THAT(read(std::string(12, '\0'), "0")->message(), HasSubstr("one input"));
}

TEST(InferRequest, SaysWhatIsWrongWithIt) {
  const auto ids = [](const char* rest) {
    return R"({"inputs":[{"name":"ids",)" + std::string(rest) + "}," + kScale + "]}";
  };
  EXPECT_THAT(read("{")->message(), HasSubstr("failed to parse the request JSON"));
  EXPECT_THAT(read("{}")->message(), HasSubstr("expected 3 inputs but got 0 inputs"));
  EXPECT_THAT(read(ids(R"("shape":[2,3],"datatype":"INT32","data":[1])"))->message(),
              HasSubstr("data-type is 'INT32', but model 'rank' expects 'INT64'"));
  EXPECT_THAT(read(ids(R"("shape":[2],"datatype":"INT64","data":[1,2])"))->message(),
              HasSubstr("Expected [-1,-1], got [2]"));
  EXPECT_THAT(read(ids(R"("shape":[2,0],"datatype":"INT64","data":[])"))->message(), HasSubstr("unexpected shape"));
  EXPECT_THAT(read(ids(R"("shape":[2,-3],"datatype":"INT64","data":[])"))->message(), HasSubstr("unexpected shape"));
  EXPECT_THAT(read(ids(R"("shape":[1,2],"datatype":"INT64","data":[1,2])"))->message(), HasSubstr("samples"));
  EXPECT_THAT(read(ids(R"("shape":[2,2],"datatype":"INT64","data":[1,2,3])"))->message(),
              HasSubstr("24 bytes, expected 32"));
  EXPECT_THAT(read(ids(R"("shape":[2,1],"datatype":"INT64","data":[1.5,2])"))->message(), HasSubstr("whole number"));
  EXPECT_THAT(read(ids(R"("shape":[2,1],"datatype":"INT64")"))->message(), HasSubstr("has no data"));
  EXPECT_THAT(read(R"({"inputs":[{"name":"other","shape":[1],"datatype":"FP32","data":[1]}]})")->message(),
              HasSubstr("unexpected inference input 'other'"));
  EXPECT_THAT(read(ids(R"("shape":[2,9000000000000000000],"datatype":"INT64","data":[1])"))->message(),
              HasSubstr("unexpected shape"));
  EXPECT_THAT(read(R"({"parameters":{"sequence_id":7}})")->message(), HasSubstr("sequences"));
  EXPECT_THAT(read(R"({"parameters":{"tangram_deadline_ms":-1}})")->message(), HasSubstr("deadline"));
}

// What is wrong with {"parameters": {"NAME": VALUE}}; empty where only the inputs are missed.
std::string parameter_problem(const std::string& name, const std::string& value) {
  const std::string message = read("{\"parameters\":{\"" + name + "\":" + value + "}}")->message();
  return message.starts_with("expected 3 inputs") ? "" : message;
}

TEST(InferRequest, SaysWhichParameterHasAnotherTypeThanItMust) {
  EXPECT_EQ(parameter_problem("timeout", R"("100")"),
            "parameter 'timeout': expected whole microseconds from 0, got \"100\"");
  EXPECT_EQ(parameter_problem("timeout", "1.5"), "parameter 'timeout': expected whole microseconds from 0, got 1.5");
  EXPECT_EQ(parameter_problem("priority", "true"), "parameter 'priority': expected a whole number from 0, got true");
  EXPECT_EQ(parameter_problem("priority", "-1"), "parameter 'priority': expected a whole number from 0, got -1");
  EXPECT_EQ(parameter_problem("priority", "null"), "parameter 'priority': expected a whole number from 0, got null");
  EXPECT_EQ(parameter_problem("tangram_deadline_ms", "[5]"),
            "parameter 'tangram_deadline_ms': expected milliseconds above 0 and up to 1e9, got a list");
  EXPECT_EQ(parameter_problem("tangram_input_size", "{}"),
            "parameter 'tangram_input_size': expected a whole number from 1 to 1000000000, got an object");
  EXPECT_EQ(parameter_problem("tangram_background", "3"),
            "parameter 'tangram_background': expected 0, 1, 2, true or false, got 3");
  EXPECT_EQ(parameter_problem("binary_data_output", "1"),
            "parameter 'binary_data_output': expected true or false, got 1");
  const std::string endless = "\"" + std::string(100, 'x') + "\"";
  EXPECT_THAT(parameter_problem("timeout", endless), HasSubstr("got \"" + std::string(40, 'x') + "\"..."));
}

// As Triton's clients write them, and names that mean nothing here, whatever their values.
TEST(InferRequest, TakesTheParametersThatClientsSend) {
  for (const char* value : {"0", "1", "2", "true", "false"}) {
    EXPECT_EQ(parameter_problem("tangram_background", value), "") << value;
  }
  EXPECT_EQ(parameter_problem("tangram_deadline_ms", "0.5"), "");
  EXPECT_EQ(parameter_problem("timeout", "1000000"), "");
  EXPECT_EQ(parameter_problem("binary_data_output", "true"), "");
  EXPECT_EQ(parameter_problem("sequence_id", "0"), "");
  EXPECT_EQ(parameter_problem("sequence_id", R"("")"), "");
  EXPECT_EQ(parameter_problem("sequence_start", "false"), "");
  EXPECT_EQ(parameter_problem("sequence_id", R"("a")"), "sequences are not supported");
  EXPECT_EQ(parameter_problem("sequence_end", "true"), "sequences are not supported");
  for (const char* value : {"0", R"("a")", "null", "[1]", "{}"}) EXPECT_EQ(parameter_problem("mine", value), "");
}

TEST(InferRequest, ChecksTheParametersOfItsTensors) {
  const auto of_input = [](const std::string& parameters) {
    return read(R"({"inputs":[{"name":"ids","shape":[1,1],"datatype":"INT64","parameters":)" + parameters + "}]}")
        ->message();
  };
  const auto of_output = [](const std::string& parameters) {
    return read(R"({"outputs":[{"name":"score","parameters":)" + parameters + "}]}")->message();
  };
  EXPECT_EQ(of_input(R"({"binary_data_size":"8"})"),
            "parameter 'binary_data_size': expected a number of bytes, got \"8\"");
  EXPECT_EQ(of_input(R"({"shared_memory_region":"a","shared_memory_byte_size":8})"), "shared memory is not supported");
  EXPECT_EQ(of_output(R"({"binary_data":1})"), "parameter 'binary_data': expected true or false, got 1");
  EXPECT_EQ(of_output(R"({"classification":-1})"),
            "parameter 'classification': expected a whole number from 0, got -1");
  EXPECT_EQ(of_output(R"({"classification":"2"})"),
            "parameter 'classification': expected a whole number from 0, got \"2\"");
  EXPECT_EQ(of_output(R"({"shared_memory_region":"a"})"), "shared memory is not supported");
  EXPECT_THAT(of_output(R"({"classification":0,"binary_data":false})"), HasSubstr("expected 3 inputs"));
}

TEST(InferRequest, SaysWhichHeaderFieldIsWrong) {
  const auto problem = [](InferHeaders headers) {
    Call call;
    call.model = &model();
    call.body = "{}";
    return read_infer_request(headers, call)->message;
  };
  EXPECT_EQ(problem({.deadline_ms = "soon"}),
            "header field Tangram-Deadline-Ms: expected milliseconds above 0 and up to 1e9, got \"soon\"");
  EXPECT_EQ(problem({.deadline_ms = ""}),
            "header field Tangram-Deadline-Ms: expected milliseconds above 0 and up to 1e9, got \"\"");
  EXPECT_EQ(problem({.input_size = "1.5"}),
            "header field Tangram-Input-Size: expected a whole number from 1 to 1000000000, got 1.5");
  EXPECT_EQ(problem({.background = "yes"}),
            "header field Tangram-Background: expected 0, 1, 2, true or false, got \"yes\"");
  EXPECT_THAT(problem({.background = "\xff"}), HasSubstr("got \"?\""));  // The answer must be text.
  EXPECT_THAT(problem({.deadline_ms = "5", .background = "1"}), HasSubstr("expected 3 inputs"));
}

// Six numbers of shape [2,3] or [1,2,3], in all the ways in which lists can stand in lists.
TEST(InferRequest, TakesListsThatAreNestedAsTheShapeSays) {
  ServedModel cubes;
  cubes.name = "cubes";
  cubes.signature.inputs = {{"a", Datatype::int64, {2, 3}, 0, false}};
  cubes.signature.outputs = {{"b", Datatype::int64, {1}, 0, false}};
  const auto data_of = [&](const std::string& data, bool datatype_first) {
    const std::string datatype = R"("datatype":"INT64")";
    const std::string value = "\"data\":" + data;
    return read(R"({"inputs":[{"name":"a","shape":[1,2,3],)" +
                    (datatype_first ? datatype + "," + value : value + "," + datatype) + "}]}",
                std::nullopt, cubes)
        ->message();
  };
  for (const bool datatype_first : {true, false}) {
    const auto problem = [&](const std::string& data) { return data_of(data, datatype_first); };
    EXPECT_EQ(problem("[1,2,3,4,5,6]"), "");
    EXPECT_EQ(problem("[[1,2,3,4,5,6]]"), "");
    EXPECT_EQ(problem("[[[1,2,3],[4,5,6]]]"), "");
    EXPECT_THAT(problem("[[[1,2,3,4],[5,6]]]"), HasSubstr("ragged: a list of 2 elements where another has 4"));
    EXPECT_THAT(problem("[[[1,2,3]],[[4,5,6]]]"), HasSubstr("data is nested as [2,1,3], its shape is [1,2,3]"));
    EXPECT_THAT(problem("[[1,2],[3,4],[5,6]]"), HasSubstr("data is nested as [3,2], its shape is [1,2,3]"));
    EXPECT_THAT(problem("[[[[1,2,3],[4,5,6]]]]"), HasSubstr("data is nested as [1,1,2,3]"));
    EXPECT_THAT(problem("[1,2,3,[4,5,6]]"), HasSubstr("ragged: elements are at several depths"));
    EXPECT_THAT(problem("[[1,2,3],4,5,6]"), HasSubstr("ragged: elements are at several depths"));
    EXPECT_THAT(problem("[1,2,3,4,5,6,[]]"), HasSubstr("data is nested as [7,0]"));
    EXPECT_THAT(problem("[[],1,2,3,4,5,6]"), HasSubstr("data is nested as [7,0]"));
    EXPECT_THAT(problem("[[[[[[[[[[1]]]]]]]]]]"), HasSubstr("nested deeper than any shape"));
    EXPECT_THAT(problem("[1,2,3,4,5]"), HasSubstr("40 bytes, expected 48"));
  }
}

TEST(InferRequest, RefusesASizeBelowTheLengthOfItsInput) {
  const std::string inputs =
      R"("inputs":[{"name":"ids","shape":[2,1],"datatype":"INT64","data":[1,2]},)" + std::string(kScale) + "]}";
  EXPECT_EQ(read(R"({"parameters":{"tangram_input_size":9},)" + inputs)->call.size, 9);
  const auto longer =
      R"({"parameters":{"tangram_input_size":1},"inputs":[{"name":"ids","shape":[2,2],"datatype":"INT64","data":[1,2,3,4]},)" +
      std::string(kScale) + "]}";
  EXPECT_THAT(read(longer)->message(), HasSubstr("more than its declared size 1"));
}

// 1.5, -2 and 2^-24 as half floats: numbers unless the client asks for bytes.
TEST(InferAnswer, WritesHalfFloatsAsNumbersUnlessBinaryIsAskedFor) {
  const std::string inputs = R"("inputs":[{"name":"ids","shape":[1,3],"datatype":"INT64","data":[1,2,3]},)"
                             R"({"name":"scale","shape":[1,2],"datatype":"FP32","data":[1,2]}])";
  const std::string halves("\x00\x3e\x00\xc0\x01\x00", 6);
  for (const bool binary : {false, true}) {
    const auto r =
        read(std::string(R"({"id":"x",)") +
             (binary ? R"("outputs":[{"name":"score"},{"name":"half","parameters":{"binary_data":true}}],)" : "") +
             inputs + "}");
    ASSERT_EQ(r->message(), "");
    const float score = 0.25;
    r->call.answer.assign(reinterpret_cast<const char*>(&score), sizeof score);
    r->call.answer += halves;
    r->call.answer_ends = {4, 10};
    InferBody body;
    write_infer_answer(r->call, body);
    const auto json = nlohmann::json::parse(body.text.substr(0, body.json_length.value_or(body.text.size())));
    EXPECT_EQ(json["id"], "x");
    EXPECT_EQ(json["model_name"], "rank");
    EXPECT_EQ(json["outputs"][0]["data"], nlohmann::json::array({0.25}));
    EXPECT_EQ(json["outputs"][1]["shape"], nlohmann::json::array({1, 3}));
    if (binary) {
      EXPECT_EQ(body.text.substr(*body.json_length), halves);
      EXPECT_EQ(json["outputs"][1]["parameters"]["binary_data_size"], 6);
    } else {
      EXPECT_EQ(json["outputs"][1]["data"], nlohmann::json::array({1.5, -2, 5.9604645e-08}));
    }
  }
}

// One input and one output of the same floating-point type.
ServedModel echo_of(Datatype datatype) {
  ServedModel m;
  m.name = "echo";
  m.signature.inputs = {{"x", datatype, {kVariableAxis}, 0, false}};
  m.signature.outputs = {{"y", datatype, {kVariableAxis}, 0, false}};
  return m;
}

// What an answer has as data, where the model gives back what it was given; or the problem.
std::string echoed(Datatype datatype, const std::string& data, bool datatype_first = true) {
  const ServedModel model = echo_of(datatype);
  const std::string type = R"("datatype":")" + std::string(to_string(datatype)) + "\"";
  const std::string members = datatype_first ? type + R"(,"data":[)" + data + "]" : R"("data":[)" + data + "]," + type;
  const auto count = std::count(data.begin(), data.end(), ',') + 1;
  const auto r = read(R"({"inputs":[{"name":"x","shape":[1,)" + std::to_string(count) + "]," + members + "}]}",
                      std::nullopt, model);
  if (r->problem) return r->message();
  r->call.answer = r->call.inputs[0].data;
  r->call.answer_ends = {r->call.answer.size()};
  InferBody body;
  write_infer_answer(r->call, body);
  const auto from = body.text.find(R"("data":[)") + 8;
  return body.text.substr(from, body.text.rfind("]}]}") - from);
}

TEST(InferJson, HasNumbersThatJsonHasNot) {
  for (const Datatype datatype : {Datatype::fp16, Datatype::bf16, Datatype::fp32, Datatype::fp64}) {
    for (const bool first : {true, false}) {
      EXPECT_EQ(echoed(datatype, "NaN,Infinity,-Infinity,-0.0,0,1.5", first), "NaN,Infinity,-Infinity,-0.0,0,1.5");
    }
  }
  EXPECT_THAT(echoed(Datatype::int32, "NaN"), HasSubstr("expected a number"));
  EXPECT_THAT(echoed(Datatype::fp32, "nan"), HasSubstr("expected a number"));
  EXPECT_THAT(echoed(Datatype::fp32, "-Inf"), HasSubstr("expected a number"));
}

// The largest float is 3.40282346638528859812e38 and written as 3.4028235e38. The next step up would be 3.40282357e38,
// and 3.4028235677973366e38 is half way.
TEST(InferJson, JudgesTheRangeAfterRounding) {
  EXPECT_EQ(echoed(Datatype::fp32, "3.4028235e38,-3.4028235e38"), "3.4028235e+38,-3.4028235e+38");
  EXPECT_EQ(echoed(Datatype::fp32, "3.40282356e38"), "3.4028235e+38");
  EXPECT_THAT(echoed(Datatype::fp32, "3.4028236e38"), HasSubstr("number out of range"));
  EXPECT_EQ(echoed(Datatype::fp16, "65504,65519"), "65504,65504");
  EXPECT_THAT(echoed(Datatype::fp16, "65520"), HasSubstr("number out of range"));
  EXPECT_EQ(echoed(Datatype::bf16, "0.1"), "0.100097656");
}

TEST(InferRequest, RefusesAKeyThatComesTwice) {
  const std::string ids = R"("name":"ids","shape":[2,1],"datatype":"INT64","data":[1,2])";
  const auto problem = [&](const std::string& head, const std::string& more) {
    return read("{" + head + R"("inputs":[{)" + ids + more + "}," + std::string(kScale) + "]}")->message();
  };
  EXPECT_EQ(problem("", ""), "");
  EXPECT_EQ(problem(R"("mine":1,"mine":2,)", R"(,"other":1,"other":2)"), "");
  EXPECT_THAT(problem(R"("id":"a","id":"b",)", ""), HasSubstr("id is given twice"));
  EXPECT_THAT(problem(R"("inputs":[],)", ""), HasSubstr("inputs is given twice"));
  EXPECT_THAT(problem("", R"(,"datatype":"INT64")"), HasSubstr("datatype is given twice"));
  EXPECT_THAT(problem("", R"(,"data":[1,2])"), HasSubstr("data is given twice"));
  EXPECT_THAT(problem("", R"(,"shape":[2,1])"), HasSubstr("shape is given twice"));
}

TEST(InferRequest, TakesNullAsAbsent) {
  const auto r = read(R"({"id":null,"parameters":null,"outputs":null,"inputs":[)"
                      R"({"name":"ids","shape":[2,1],"datatype":"INT64","parameters":null,"data":[1,2]},)" +
                      std::string(kScale) + "]}");
  EXPECT_EQ(r->message(), "");
  EXPECT_EQ(r->call.id, "");
  EXPECT_EQ(r->call.outputs.size(), 2u);
  const auto named = read(R"({"outputs":[{"name":"half","parameters":null}],"inputs":[)"
                          R"({"name":"ids","shape":[2,1],"datatype":"INT64","data":[1,2]},)" +
                          std::string(kScale) + "]}");
  EXPECT_EQ(named->message(), "");
  EXPECT_EQ(named->call.outputs.size(), 1u);
}

// Texts of any length, answered with a label for each.
const ServedModel& texts() {
  static const ServedModel kModel = [] {
    ServedModel m;
    m.name = "label";
    m.signature.inputs = {{"text", Datatype::bytes, {kVariableAxis}, 0, false}};
    m.signature.outputs = {{"label", Datatype::bytes, {kVariableAxis}, 0, false}};
    return m;
  }();
  return kModel;
}

std::string slots_of(const std::vector<std::string>& elements) {
  std::string slots;
  for (const auto& element : elements) EXPECT_TRUE(append_bytes_slot(element, slots));
  return slots;
}

// The same two texts as JSON strings and with four bytes of length before each.
TEST(InferBytes, ReadsTextsInJsonAndBehindIt) {
  const std::string head = R"({"inputs":[{"name":"text","shape":[1,2],"datatype":"BYTES",)";
  const auto in_json = read(head + R"("data":["h\u00e9","x"]}]})", std::nullopt, texts());
  ASSERT_EQ(in_json->message(), "");
  EXPECT_EQ(in_json->call.extent, 2);
  EXPECT_EQ(in_json->call.inputs[0].data, slots_of({"h\xc3\xa9", "x"}));
  const std::string json = head + R"("parameters":{"binary_data_size":12}}]})";
  const std::string wire("\x03\0\0\0h\xc3\xa9\x01\0\0\0x", 12);
  const auto behind = read(json + wire, std::to_string(json.size()), texts());
  ASSERT_EQ(behind->message(), "");
  EXPECT_EQ(behind->call.inputs[0].data, in_json->call.inputs[0].data);
  EXPECT_THAT(read(json + std::string(12, 'z'), std::to_string(json.size()), texts())->message(),
              HasSubstr("input 'text': an element is longer than what is left"));
  EXPECT_THAT(read(head + R"("data":[")" + std::string(1021, 'x') + R"(","x"]}]})", std::nullopt, texts())->message(),
              HasSubstr("longer than 1020 bytes"));
  EXPECT_THAT(read(head + R"("data":["x"]}]})", std::nullopt, texts())->message(),
              HasSubstr("1024 bytes, expected 2048"));
  EXPECT_THAT(read("x", "0", texts())->message(), HasSubstr("takes numbers"));
}

// As strings where they are text, as bytes where a client asks for it or JSON could not hold them.
TEST(InferBytes, WritesTextsInJsonAndBehindIt) {
  const std::string body = R"({"inputs":[{"name":"text","shape":[1,2],"datatype":"BYTES","data":["a","b"]}]})";
  const auto answer = [&](const std::vector<std::string>& labels, bool binary) {
    const auto r = read(body, std::nullopt, texts());
    EXPECT_EQ(r->message(), "");
    r->call.outputs[0].binary = binary;
    r->call.answer = slots_of(labels);
    r->call.answer_ends = {r->call.answer.size()};
    InferBody out;
    write_infer_answer(r->call, out);
    return out;
  };
  const InferBody plain = answer({"good", "\"bad\""}, false);
  EXPECT_FALSE(plain.json_length);
  EXPECT_EQ(nlohmann::json::parse(plain.text)["outputs"][0]["data"], nlohmann::json::array({"good", "\"bad\""}));
  const std::string wire("\x02\0\0\0ok\0\0\0\0", 10);
  const InferBody asked = answer({"ok", ""}, true);
  ASSERT_TRUE(asked.json_length);
  EXPECT_EQ(asked.text.substr(*asked.json_length), wire);
  EXPECT_THAT(asked.text, HasSubstr(R"("binary_data_size":10)"));
  const InferBody no_text = answer({"\xff", ""}, false);
  ASSERT_TRUE(no_text.json_length);
  EXPECT_EQ(no_text.text.substr(*no_text.json_length), std::string("\x01\0\0\0\xff\0\0\0\0", 9));
}

// The example of W3C Trace Context, and what it forbids.
TEST(InferJson, KnowsATraceparent) {
  const std::string good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  EXPECT_TRUE(is_traceparent(good));
  EXPECT_FALSE(is_traceparent(""));
  EXPECT_FALSE(is_traceparent(good + "-more"));  // Version 00 says no more.
  EXPECT_TRUE(is_traceparent("cc" + good.substr(2) + "-more"));
  EXPECT_FALSE(is_traceparent("ff" + good.substr(2)));
  EXPECT_FALSE(is_traceparent("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01"));
  EXPECT_FALSE(is_traceparent("00-00000000000000000000000000000000-b7ad6b7169203331-01"));
  EXPECT_FALSE(is_traceparent("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"));
}

}  // namespace
}  // namespace tangram::serve
