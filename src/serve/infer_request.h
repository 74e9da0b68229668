// What an inference request must hold, whatever protocol it came by: its parameters, its tensors, its header fields.
//
// The REST protocol (infer_json.h) and gRPC (grpc_codec.h) take their messages apart, and ask here what the parts mean.
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

// What stands in header fields of the request.
struct InferHeaders {
  std::optional<std::string_view> json_length = {};  // Inference-Header-Content-Length
  std::optional<std::string_view> deadline_ms = {};  // Tangram-Deadline-Ms
  std::optional<std::string_view> input_size = {};   // Tangram-Input-Size
  std::optional<std::string_view> background = {};   // Tangram-Background
  std::optional<std::string_view> traceparent = {};
};

// What the fields say of the request, whatever the protocol.
std::optional<CallProblem> read_headers(const InferHeaders& headers, Call& call,
                                        std::optional<std::int64_t>& input_size);

// Checks what came, whatever the protocol, and fills in samples, extent and size. Of each input `shape` has the
// samples first.
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
// All outputs, where the request names none.
void request_all_outputs(bool binary, Call& call);
// Asks for the output with this name.
std::optional<CallProblem> request_output(std::string_view name, bool binary, Call& call);

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

// The problem of a parameter with another value than `expected` describes. `header` names the header field if it came
// in one.
CallProblem wrong_parameter(std::string_view name, std::string_view expected, const ParameterValue& value,
                            std::string_view header = {});
// What the parameters of a request say, by name. Those that mean nothing here are ignored, as the protocol wants; those
// that do and have a value of another type or range are a problem, which says what was read and what was expected.
std::optional<CallProblem> apply_parameter(std::string_view name, const ParameterValue& value, Call& call,
                                           std::optional<std::int64_t>& input_size);
// The same for parameters of inputs and of outputs, as far as both protocols have them.
std::optional<CallProblem> check_input_parameter(std::string_view name);
std::optional<CallProblem> check_output_parameter(std::string_view name, const ParameterValue& value);

// The bytes of one output of an answered call, as engines write them.
std::string_view raw_output(const Call& call, std::size_t index);

// Whether the text is a `traceparent` as W3C Trace Context wants it; any other is ignored.
bool is_traceparent(std::string_view text);

}  // namespace tangram::serve
