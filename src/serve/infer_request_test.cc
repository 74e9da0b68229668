#include "serve/infer_request.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <limits>
#include <string>

namespace tangram::serve {
namespace {

using namespace std::chrono_literals;

// Token ids of any length with a mask, and one output of each length.
const ServedModel& ranking_model() {
  static const ServedModel kModel = [] {
    ServedModel model;
    model.name = "rank";
    model.size_fixed = 7;
    model.signature.inputs = {{"ids", Datatype::int64, {kVariableAxis}, 0, false},
                              {"mask", Datatype::int64, {kVariableAxis}, 0, true}};
    model.signature.outputs = {{"score", Datatype::fp32, {1}, 0, false}, {"all", Datatype::fp32, {2}, 0, false}};
    return model;
  }();
  return kModel;
}

// The bytes of two samples of three 64-bit numbers.
const std::string kTwoByThree(2 * 3 * 8, '\1');
constexpr std::array<std::int64_t, 2> kShape{2, 3};

GivenInput ids(const std::int64_t* shape = kShape.data(), std::string_view data = kTwoByThree) {
  return {"ids", Datatype::int64, "INT64", shape, 2, data};
}

// The problem of these inputs, or "" and the call that they make.
std::string accepted(const std::vector<GivenInput>& given, std::optional<std::int64_t> input_size, Call& call) {
  call.model = &ranking_model();
  const auto problem = accept_inputs(given, input_size, call);
  return problem ? problem->message : "";
}

TEST(AcceptInputs, TakesSamplesAndSizeFromTheShape) {
  Call call;
  EXPECT_EQ(accepted({ids()}, std::nullopt, call), "");
  EXPECT_EQ(call.samples, 2);
  EXPECT_EQ(call.extent, 3);
  EXPECT_EQ(call.size, 3);
  // The mask is not given: the gateway makes it.
  ASSERT_EQ(call.inputs.size(), 2U);
  EXPECT_TRUE(call.inputs[0].given);
  EXPECT_FALSE(call.inputs[1].given);
}

// A declared size above the length only pads more; one below would choose a bucket that the input does not fit into.
TEST(AcceptInputs, TakesADeclaredSizeThatTheInputFitsInto) {
  Call call;
  EXPECT_EQ(accepted({ids()}, 5, call), "");
  EXPECT_EQ(call.size, 5);
  EXPECT_EQ(accepted({ids()}, 2, call), "the input is 3 long, more than its declared size 2");
}

TEST(AcceptInputs, NamesTheInputThatIsUnknownRepeatedOrMissing) {
  Call call;
  GivenInput other = ids();
  other.name = "words";
  EXPECT_EQ(accepted({other}, std::nullopt, call), "unexpected inference input 'words' for model 'rank'");
  EXPECT_EQ(accepted({ids(), ids()}, std::nullopt, call), "input 'ids' is given twice");
  EXPECT_EQ(accepted({}, std::nullopt, call), "expected 2 inputs but got 0 inputs for model 'rank': 'ids' is missing");
}

// 2^31 samples of 2^31 elements of 8 bytes overflow 64 bits; the shape is an error before any length is computed.
TEST(AcceptInputs, RejectsBytesThatDoNotMatchTheShape) {
  Call call;
  EXPECT_EQ(accepted({ids(kShape.data(), "1234")}, std::nullopt, call),
            "input 'ids' of shape [2,3] has 4 bytes, expected 48");
  const std::array<std::int64_t, 2> huge{std::int64_t{1} << 31, std::int64_t{1} << 31};
  EXPECT_NE(accepted({ids(huge.data())}, std::nullopt, call), "");
}

// The shortest limit wins, in whatever order they come; a timeout of 0 is none.
TEST(Parameters, LimitTheDeadlineByTheShortest) {
  Call call;
  std::optional<std::int64_t> size;
  EXPECT_FALSE(apply_parameter("timeout", ParameterValue::of(0.0), call, size));
  EXPECT_FALSE(call.deadline);
  EXPECT_FALSE(apply_parameter("tangram_deadline_ms", ParameterValue::of(20.0), call, size));
  EXPECT_FALSE(apply_parameter("timeout", ParameterValue::of(30'000.0), call, size));
  EXPECT_EQ(call.deadline, Duration(20ms));
  EXPECT_FALSE(apply_parameter("timeout", ParameterValue::of(5'000.0), call, size));
  EXPECT_EQ(call.deadline, Duration(5ms));
}

TEST(Parameters, SayWhatWasExpectedAndWhatWasRead) {
  Call call;
  std::optional<std::int64_t> size;
  const auto message = [&](std::string_view name, const ParameterValue& value) {
    const auto problem = apply_parameter(name, value, call, size);
    return problem ? problem->message : std::string();
  };
  EXPECT_EQ(message("priority", ParameterValue::of(1.5)),
            "parameter 'priority': expected a whole number from 0, got 1.5");
  EXPECT_EQ(message("timeout", ParameterValue::of(std::numeric_limits<double>::quiet_NaN())),
            "parameter 'timeout': expected whole microseconds from 0, got nan");
  EXPECT_EQ(message("tangram_background", ParameterValue::of_other("null")),
            "parameter 'tangram_background': expected 0, 1, 2, true or false, got null");
  EXPECT_EQ(message("sequence_start", ParameterValue::of(true)), "sequences are not supported");
  // No sequence, and a name that the protocol does not have.
  EXPECT_EQ(message("sequence_id", ParameterValue::of_text("")), "");
  EXPECT_EQ(message("colour", ParameterValue::of_other("null")), "");
}

TEST(Outputs, AreThoseAskedForInTheirOrder) {
  Call call;
  call.model = &ranking_model();
  request_all_outputs(true, call);
  ASSERT_EQ(call.outputs.size(), 2U);
  EXPECT_TRUE(call.outputs[1].binary);
  call.outputs.clear();
  EXPECT_FALSE(request_output("all", false, call));
  ASSERT_EQ(call.outputs.size(), 1U);
  EXPECT_EQ(call.outputs[0].index, 1U);
  const auto problem = request_output("none", false, call);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->message, "unexpected inference output 'none' for model 'rank'");
  // Outputs lie one after the other: 4 bytes of the first, 8 of the second.
  call.answer = "aaaabbbbbbbb";
  call.answer_ends = {4, 12};
  EXPECT_EQ(raw_output(call, 0), "aaaa");
  EXPECT_EQ(raw_output(call, 1), "bbbbbbbb");
}

}  // namespace
}  // namespace tangram::serve
