// What an inference request must hold, whatever protocol it came by: its parameters, its tensors, its header fields.
//
// infer_json.h (REST) and grpc_codec.h (gRPC) parse the messages and pass the parts on to these functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/call.h"

namespace tangram::serve {

// Why a request cannot be understood or served.
struct CallProblem {
  CallStatus status = CallStatus::invalid;
  std::string message;
};
CallProblem invalid_request(std::string message);

// The header fields that matter to inference.
struct InferHeaders {
  std::optional<std::string_view> json_length = {};  // Inference-Header-Content-Length
  std::optional<std::string_view> deadline_ms = {};  // Tangram-Deadline-Ms
  std::optional<std::string_view> input_size = {};   // Tangram-Input-Size
  std::optional<std::string_view> background = {};   // Tangram-Background
  std::optional<std::string_view> traceparent = {};
};

// Applies the header fields to the call, whatever the protocol.
std::optional<CallProblem> read_headers(const InferHeaders& headers, Call& call,
                                        std::optional<std::int64_t>& input_size);

// One input as it arrived, whatever the protocol. accept_inputs() checks all of them against the model and fills in
// inputs, samples, extent and size of the call. The first axis of `shape` is the number of samples.
struct GivenInput {
  std::string_view name;
  std::optional<Datatype> datatype;  // Nothing: the name of the datatype was not one.
  std::string_view datatype_name;
  const std::int64_t* shape = nullptr;
  std::size_t rank = 0;
  std::string_view data;
};
std::optional<CallProblem> accept_inputs(const std::vector<GivenInput>& given, std::optional<std::int64_t> input_size,
                                         Call& call);
// The bytes that an input of this datatype and shape has inside, of BYTES those of its slots, before its data is looked
// at. A problem: it is none of the model's, or so large that no slice of the plan takes it.
std::optional<CallProblem> bytes_of_input(const GivenInput& input, const Call& call, std::uint64_t& bytes);
// Charges further bytes to the call, before they are allocated.
std::optional<CallProblem> charge(Call& call, std::uint64_t bytes);
// Requests all outputs, for a request that names none.
void request_all_outputs(bool binary, Call& call);
// Requests the output with this name.
std::optional<CallProblem> request_output(std::string_view name, bool binary, Call& call, std::int32_t classes = 0);

// The value of a parameter, in the types that the protocols have for one.
struct ParameterValue {
  enum class Kind : std::uint8_t { number, boolean, text, other };

  Kind kind = Kind::other;
  double number = 0;           // Of a boolean 0 or 1.
  std::string_view text = {};  // Of something else: what it is, "null".

  bool is_boolean() const { return kind == Kind::boolean; }
  // A whole number within these bounds.
  bool is_natural(double min, double max) const;

  static ParameterValue of(double value) { return {Kind::number, value}; }
  static ParameterValue of(bool value) { return {Kind::boolean, value ? 1.0 : 0.0}; }
  static ParameterValue of_text(std::string_view value) { return {Kind::text, 0, value}; }
  static ParameterValue of_other(std::string_view what) { return {Kind::other, 0, what}; }
};
// Whole numbers up to here are exact in a double.
inline constexpr double kNaturalMax = 9e15;

// The problem with a parameter whose value is not what `expected` describes. `header` names the header field if the
// value came in one.
CallProblem wrong_parameter(std::string_view name, std::string_view expected, const ParameterValue& value,
                            std::string_view header = {});
// Applies a parameter of the request. Unknown names are ignored, as the protocol demands; a known name with a value of
// another type or range is a problem, which says what was found and what was expected.
std::optional<CallProblem> apply_parameter(std::string_view name, const ParameterValue& value, Call& call,
                                           std::optional<std::int64_t>& input_size);
// The same for parameters of inputs and of outputs, as far as both protocols have them.
std::optional<CallProblem> check_input_parameter(std::string_view name);
std::optional<CallProblem> check_output_parameter(std::string_view name, const ParameterValue& value);

// The number of classes that the value of the parameter `classification` of an output asks for.
std::optional<CallProblem> read_classes(const ParameterValue& value, std::int32_t& classes);

// The bytes of one output of an answered call, as engines write them.
std::string_view raw_output(const Call& call, std::size_t index);

// Whether the text is a `traceparent` as W3C Trace Context wants it; any other is ignored.
bool is_traceparent(std::string_view text);

}  // namespace tangram::serve
