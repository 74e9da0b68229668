// The meaning of inference requests, independent of the protocol that carried them.
//
// Everything here is untrusted input. The order of the checks in accept_input() keeps the arithmetic safe: each axis is
// bounded before it is multiplied, the products are checked for overflow, and the number of bytes must equal what the
// shape says. After that, padding and batching can trust shape and data without checking again.

#include "serve/infer_request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/json_reader.h"
#include "base/text.h"
#include "core/bytes_slot.h"
#include "serve/classification.h"

namespace tangram::serve {
namespace {

// The largest number of samples and the longest axis of one request: far beyond practical use, and the product of two
// of them still fits into 64 bits.
constexpr std::int64_t kAxisMax = 1'000'000'000;
// About 11 days. Nanoseconds of it fit into 64 bits with room for a sum.
constexpr double kDeadlineMsMax = 1e9;
// An input of up to so many bytes is read before the plan is asked whether it takes it.
constexpr std::uint64_t kLeftToScheduler = 256 << 10;

// The beginning of a text that a client sent, in quotes, for an error message. Cutting can split a UTF-8 sequence, so
// bytes that make no text become question marks: the message becomes a JSON string.
std::string in_quotes(std::string_view text) {
  constexpr std::size_t kShown = 40;
  std::string beginning(text.substr(0, kShown));
  if (!is_utf8(beginning)) {
    std::ranges::replace_if(
        beginning, [](char c) { return static_cast<unsigned char>(c) >= 0x80; }, '?');
  }
  return fmt::format("\"{}\"{}", beginning, text.size() > kShown ? "..." : "");
}

std::string shown_value(const ParameterValue& value) {
  switch (value.kind) {
    case ParameterValue::Kind::number: return text::shortest(value.number);
    case ParameterValue::Kind::boolean: return value.number != 0 ? "true" : "false";
    case ParameterValue::Kind::text: return in_quotes(value.text);
    case ParameterValue::Kind::other: break;
  }
  return std::string(value.text);
}

// Applies one parameter with a numeric or boolean value. Ignores unknown names, as the protocol demands. Header fields
// take the same path, so both have the same limits and messages.
std::optional<CallProblem> apply_number(std::string_view name, const ParameterValue& value, Call& call,
                                        std::optional<std::int64_t>& input_size, std::string_view header = {}) {
  const double number = value.number;
  const auto wrong = [&](std::string_view expected) { return wrong_parameter(name, expected, value, header); };
  // Several parameters can limit the time. The shortest wins, whatever their order.
  const auto bound_deadline = [&](Duration limit) { call.deadline = std::min(limit, call.deadline.value_or(limit)); };
  if (name == "priority") {
    if (!value.is_natural(0, kNaturalMax)) return wrong("a whole number from 0");
    call.priority = static_cast<std::int64_t>(number);
  } else if (name == "timeout") {
    // Triton's "timeout": a request that is not complete by then may be ended. So it is an upper bound of the deadline,
    // and 0 means none.
    if (!value.is_natural(0, kNaturalMax)) return wrong("whole microseconds from 0");
    if (number > 0) bound_deadline(from_seconds(number * 1e-6));
  } else if (name == "tangram_deadline_ms") {
    const bool good = value.kind == ParameterValue::Kind::number && number > 0 && number <= kDeadlineMsMax;
    if (!good) return wrong("milliseconds above 0 and up to 1e9");
    bound_deadline(from_milliseconds(number));
  } else if (name == "tangram_input_size") {
    const bool good = value.is_natural(1, static_cast<double>(kAxisMax));
    if (!good) return wrong(fmt::format("a whole number from 1 to {}", kAxisMax));
    input_size = static_cast<std::int64_t>(number);
  } else if (name == "tangram_background") {
    if (!value.is_boolean() && !value.is_natural(0, 2)) return wrong("0, 1, 2, true or false");
    call.background = static_cast<int>(number);
  }
  return std::nullopt;
}

std::string shape_text(const std::int64_t* shape, std::size_t rank) {
  return fmt::format("[{}]", fmt::join(shape, shape + rank, ","));
}

// The shape with -1 for the samples in front, as the metadata shows it.
std::string expected_shape(const TensorSpec& spec) {
  return spec.shape.empty() ? "[-1]" : fmt::format("[-1,{}]", fmt::join(spec.shape, ","));
}

CallProblem wrong_shape(const GivenInput& input, const TensorSpec& spec, const Call& call) {
  return invalid_request(fmt::format("unexpected shape for input '{}' for model '{}'. Expected {}, got {}", input.name,
                                     call.model->name, expected_shape(spec), shape_text(input.shape, input.rank)));
}

// Compares datatype and shape of one input with the model's specification, and computes its bytes. `samples` and
// `extent` hold the number of samples and the length of the variable axes seen so far, 0 for none: all inputs must
// agree, because a batch is padded along one common axis.
std::optional<CallProblem> check_shape(const GivenInput& input, const TensorSpec& spec, std::int64_t& extent,
                                       std::int64_t& samples, const Call& call, std::optional<std::uint64_t>& bytes) {
  if (input.datatype != spec.datatype) {
    return invalid_request(fmt::format("inference input '{}' data-type is '{}', but model '{}' expects '{}'",
                                       input.name, input.datatype_name, call.model->name, to_string(spec.datatype)));
  }
  if (input.rank != spec.shape.size() + 1 || input.shape[0] < 1 || input.shape[0] > kAxisMax) {
    return wrong_shape(input, spec, call);
  }
  if (samples != 0 && samples != input.shape[0]) {
    return invalid_request(
        fmt::format("input '{}' has {} samples, another input has {}", input.name, input.shape[0], samples));
  }
  samples = input.shape[0];
  // Multiplied with an overflow check: a few axes within the limit can exceed 64 bits.
  std::int64_t elements = samples;
  for (std::size_t axis = 0; axis < spec.shape.size(); ++axis) {
    const std::int64_t length = input.shape[axis + 1];
    const bool variable = spec.shape[axis] == kVariableAxis;
    if (variable ? length < 1 || length > kAxisMax : length != spec.shape[axis]) return wrong_shape(input, spec, call);
    if (variable && extent != 0 && extent != length) {
      return invalid_request(fmt::format("input '{}' is {} long, another input is {}", input.name, length, extent));
    }
    if (variable) extent = length;
    if (__builtin_mul_overflow(elements, length, &elements)) return wrong_shape(input, spec, call);
  }
  std::int64_t product = 0;
  if (__builtin_mul_overflow(elements, static_cast<std::int64_t>(size_of(spec.datatype)), &product)) {
    bytes.reset();
  } else {
    bytes = static_cast<std::uint64_t>(product);
  }
  return std::nullopt;
}

// Compares one input with the model's specification.
std::optional<CallProblem> accept_input(const GivenInput& input, const TensorSpec& spec, std::int64_t& extent,
                                        std::int64_t& samples, const Call& call) {
  std::optional<std::uint64_t> bytes;
  if (auto problem = check_shape(input, spec, extent, samples, call, bytes)) return problem;
  // Now the bytes decide. What passes here can be copied with lengths that are computed from the shape alone.
  if (bytes != input.data.size()) {
    return invalid_request(fmt::format("input '{}' of shape {} has {} bytes, expected {}", input.name,
                                       shape_text(input.shape, input.rank), input.data.size(), bytes.value_or(0)));
  }
  return std::nullopt;
}

// The answer of a request of this shape, all outputs of the model. Nothing: more than any number says.
std::optional<std::uint64_t> bytes_of_answer(const Call& call) {
  std::uint64_t sum = 0;
  for (const auto& spec : call.model->signature.outputs) {
    const auto each = bytes_of(spec, call.extent);
    std::uint64_t bytes = 0;
    if (!each ||
        __builtin_mul_overflow(static_cast<std::uint64_t>(*each), static_cast<std::uint64_t>(call.samples), &bytes) ||
        __builtin_add_overflow(sum, bytes, &sum)) {
      return std::nullopt;
    }
  }
  return sum;
}

}  // namespace

CallProblem invalid_request(std::string message) { return {CallStatus::invalid, std::move(message)}; }

std::optional<CallProblem> bytes_of_input(const GivenInput& input, const Call& call, std::uint64_t& bytes) {
  const ServedModel& model = *call.model;
  const auto spec = std::ranges::find(model.signature.inputs, input.name, &TensorSpec::name);
  if (spec == model.signature.inputs.end()) {
    return invalid_request(fmt::format("unexpected inference input '{}' for model '{}'", input.name, model.name));
  }
  std::int64_t extent = 0;
  std::int64_t samples = 0;
  std::optional<std::uint64_t> product;
  if (auto problem = check_shape(input, *spec, extent, samples, call, product)) return problem;
  if (!product) return wrong_shape(input, *spec, call);
  bytes = *product;
  // Small ones are left to the scheduler, which knows the plan better and counts what is beyond it.
  const bool too_long = model.size_max > 0 && extent > model.size_max;
  const bool too_many = model.size_max > 0 && samples > model.samples_max;
  if (bytes <= kLeftToScheduler || (!too_long && !too_many)) return std::nullopt;
  return invalid_request(fmt::format("model '{}': no slice of the plan accepts {} samples of size {}", model.name,
                                     samples, std::max<std::int64_t>(extent, 1)));
}

std::optional<CallProblem> charge(Call& call, std::uint64_t bytes) {
  if (call.memory.grow(bytes)) return std::nullopt;
  if (call.memory.could_hold(call.memory.bytes() + std::min(bytes, MemoryAccount::kUnlimited / 2))) {
    return CallProblem{CallStatus::unavailable, "the server holds too many bytes for its callers"};
  }
  return invalid_request("the request and its answer need more memory than one caller may have (--memory-max)");
}

// ---- Parameters ----

// NaN fails all comparisons, and an infinity exceeds `max`.
bool ParameterValue::is_natural(double min, double max) const {
  return kind == Kind::number && number >= min && number <= max && number == std::floor(number);
}

CallProblem wrong_parameter(std::string_view name, std::string_view expected, const ParameterValue& value,
                            std::string_view header) {
  const std::string where =
      header.empty() ? fmt::format("parameter '{}'", name) : fmt::format("header field {}", header);
  return invalid_request(fmt::format("{}: expected {}, got {}", where, expected, shown_value(value)));
}

// answer_ends has the end of each output; each begins where the one before it ends.
std::string_view raw_output(const Call& call, std::size_t index) {
  const std::size_t begin = index == 0 ? 0 : call.answer_ends[index - 1];
  return std::string_view(call.answer).substr(begin, call.answer_ends[index] - begin);
}

std::optional<CallProblem> apply_parameter(std::string_view name, const ParameterValue& value, Call& call,
                                           std::optional<std::int64_t>& input_size) {
  // The parameters of a sequence come together, and its id is a number or a text. 0, false and "" mean that there is no
  // sequence and are accepted; a real one would need state between requests.
  const bool set = value.kind == ParameterValue::Kind::text ? !value.text.empty() : value.number != 0;
  if (set && (name == "sequence_id" || name == "sequence_start" || name == "sequence_end")) {
    return invalid_request("sequences are not supported");
  }
  return apply_number(name, value, call, input_size);
}

// A request that relies on shared memory has no data in its body. Ignoring the parameter would end in a confusing
// message about missing data.
std::optional<CallProblem> check_input_parameter(std::string_view name) {
  if (name == "shared_memory_region") return invalid_request("shared memory is not supported");
  return std::nullopt;
}

std::optional<CallProblem> check_output_parameter(std::string_view name, const ParameterValue& value) {
  if (name == "shared_memory_region") return invalid_request("shared memory is not supported");
  if (name != "classification") return std::nullopt;
  if (!value.is_natural(0, kNaturalMax)) return wrong_parameter(name, "a whole number from 0", value);
  // 0 classes means the plain tensor.
  if (value.number == 0) return std::nullopt;
  return invalid_request("classification is not supported");
}

// Fills in call.inputs by the order of the signature, whatever order the client sent. Views of `given` are copied, not
// the data.
std::optional<CallProblem> accept_inputs(const std::vector<GivenInput>& given, std::optional<std::int64_t> input_size,
                                         Call& call) {
  const auto& specs = call.model->signature.inputs;
  call.inputs.assign(specs.size(), {});
  std::int64_t extent = 0;
  std::int64_t samples = 0;
  for (const auto& input : given) {
    const auto spec = std::ranges::find(specs, input.name, &TensorSpec::name);
    if (spec == specs.end()) {
      return invalid_request(
          fmt::format("unexpected inference input '{}' for model '{}'", input.name, call.model->name));
    }
    CallInput& slot = call.inputs[static_cast<std::size_t>(spec - specs.begin())];
    if (slot.given) return invalid_request(fmt::format("input '{}' is given twice", input.name));
    if (auto problem = accept_input(input, *spec, extent, samples, call)) return problem;
    slot = {input.data, true};
  }
  // A missing mask is filled in while batching; any other missing input is a problem.
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (call.inputs[i].given || specs[i].mask) continue;
    return invalid_request(fmt::format("expected {} inputs but got {} inputs for model '{}': '{}' is missing",
                                       specs.size(), given.size(), call.model->name, specs[i].name));
  }
  // The size may exceed the input, which is then padded further. A smaller one would choose a bucket that the input
  // does not fit into.
  if (input_size && *input_size < extent) {
    return invalid_request(fmt::format("the input is {} long, more than its declared size {}", extent, *input_size));
  }
  if (samples > INT32_MAX) return invalid_request("too many samples");
  call.samples = static_cast<std::int32_t>(samples);
  call.extent = std::max<std::int64_t>(extent, 1);
  // The size that buckets are chosen by: what the client says, else the length of the variable axis, else the service's
  // own constant.
  call.size = input_size ? *input_size : extent != 0 ? extent : call.model->size_fixed;
  // Charged before the request runs: an answer that there is no room for would have run in vain.
  return charge(call, bytes_of_answer(call).value_or(MemoryAccount::kUnlimited));
}

void request_all_outputs(bool binary, Call& call) {
  call.outputs.clear();
  for (std::size_t i = 0; i < call.model->signature.outputs.size(); ++i) call.outputs.push_back({i, binary, 0});
}

std::optional<CallProblem> read_classes(const ParameterValue& value, std::int32_t& classes) {
  if (!value.is_natural(0, INT32_MAX)) return wrong_parameter("classification", "a whole number from 0", value);
  classes = static_cast<std::int32_t>(value.number);
  return std::nullopt;
}

std::optional<CallProblem> request_output(std::string_view name, bool binary, Call& call, std::int32_t classes) {
  const auto& specs = call.model->signature.outputs;
  const auto spec = std::ranges::find(specs, name, &TensorSpec::name);
  if (spec == specs.end()) {
    return invalid_request(fmt::format("unexpected inference output '{}' for model '{}'", name, call.model->name));
  }
  if (classes > 0 && !can_classify(spec->datatype)) {
    return invalid_request(fmt::format("output '{}' of model '{}' is {}: only numbers have classes", name,
                                       call.model->name, to_string(spec->datatype)));
  }
  call.outputs.push_back({static_cast<std::size_t>(spec - specs.begin()), binary, classes});
  return std::nullopt;
}

std::optional<CallProblem> read_headers(const InferHeaders& headers, Call& call,
                                        std::optional<std::int64_t>& input_size) {
  if (headers.traceparent && is_traceparent(*headers.traceparent)) call.traceparent = *headers.traceparent;
  // Header fields are text. A text that is no number and no boolean is passed on, so that the message can quote it.
  const auto apply = [&](std::string_view name, std::string_view header, std::string_view text) {
    const auto number = text::parse_number(text);
    const bool truth = text == "true" || text == "false";
    const ParameterValue value = number  ? ParameterValue::of(*number)
                                 : truth ? ParameterValue::of(text == "true")
                                         : ParameterValue::of_text(text);
    return apply_number(name, value, call, input_size, header);
  };
  if (headers.deadline_ms) {
    if (auto problem = apply("tangram_deadline_ms", "Tangram-Deadline-Ms", *headers.deadline_ms)) return problem;
  }
  if (headers.input_size) {
    if (auto problem = apply("tangram_input_size", "Tangram-Input-Size", *headers.input_size)) return problem;
  }
  if (headers.background) return apply("tangram_background", "Tangram-Background", *headers.background);
  return std::nullopt;
}

// W3C Trace Context: version-trace-parent-flags in lower-case hexadecimal, 55 characters, neither trace nor parent all
// zeros. Version ff is invalid. Versions after 00 may append further fields behind a dash.
bool is_traceparent(std::string_view text) {
  constexpr std::string_view kZeros = "00000000000000000000000000000000";
  if (text.size() < 55 || (text.size() > 55 && (text.starts_with("00") || text[55] != '-'))) return false;
  for (std::size_t i = 0; i < 55; ++i) {
    const bool dash = i == 2 || i == 35 || i == 52;
    const bool hex = (text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f');
    if (dash ? text[i] != '-' : !hex) return false;
  }
  return !text.starts_with("ff") && text.substr(3, 32) != kZeros && text.substr(36, 16) != kZeros.substr(0, 16);
}

}  // namespace tangram::serve
