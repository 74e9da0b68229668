// The REST form of inference requests and answers.
//
// A body is JSON, optionally followed by raw tensors. Inference-Header-Content-Length says where the JSON ends; an
// input with the parameter binary_data_size takes that many bytes from behind it, in the order of the inputs:
//
//   {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1,2], "data": [0.5, 1]}]}
//   {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1,2], "parameters": {"binary_data_size": 8}}]}........
//
// The JSON is read in one pass: numbers are converted to the bytes of their datatype while they are parsed and appended
// to call.converted, so a million numbers never become a tree. Because that string grows while it is filled, inputs are
// remembered as offsets into it and become views only when all of them are converted.

#include "serve/infer_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "base/json_reader.h"
#include "base/text.h"
#include "core/bytes_slot.h"
#include "serve/classification.h"
#include "serve/small_floats.h"

namespace tangram::serve {
namespace {

// Inputs of one request, and outputs. The limit bounds what a hostile body can make the server allocate.
constexpr std::size_t kInputsMax = 64;
constexpr std::size_t kRankMax = 9;  // Samples and eight axes.
// With so much text left or less, data is converted before its shape is looked at: it cannot become much.
constexpr std::size_t kConvertUnseen = 64 << 10;
// Data may be so much longer than its shape before its conversion ends: a small mistake is told with its numbers.
constexpr std::size_t kSlackBytes = 4096;

// The nesting of the JSON lists of one input. All lists of one level have the same length; the lists of the innermost
// level hold elements, all others hold lists. [[1,2,3],[4,5,6]] has two levels with the lengths 2 and 3.
struct Nesting {
  static constexpr std::size_t kUnknown = kRankMax;

  std::size_t levels = 0;
  std::size_t elements_at = kUnknown;  // The level whose lists hold elements.
  std::array<std::int64_t, kRankMax> lengths;
  // The converted bytes must not exceed this: data that is longer than its shape is not converted to its end.
  std::size_t end_max = std::string::npos;
};

// One input as it appears in the JSON. Its members can come in any order, so nothing is checked against anything else
// until the whole request is read.
struct JsonInput {
  std::string name;
  std::string datatype_name;
  std::vector<std::int64_t> shape;
  std::optional<std::int64_t> binary_size;
  std::string_view data_text;  // JSON that could not be converted yet, because the datatype came later.
  bool has_data = false;
  bool wire = false;      // BYTES that came behind the JSON, and were converted.
  bool prepared = false;  // prepare() has charged what it becomes.
  std::size_t converted_begin = 0;
  std::size_t converted_end = 0;
  Nesting nesting;
};

struct JsonOutput {
  std::string name;
  std::optional<bool> binary;
  std::int32_t classes = 0;
};

struct JsonRequest {
  std::vector<JsonInput> inputs;
  std::vector<JsonOutput> outputs;
  bool outputs_named = false;
  bool binary_output = false;
  std::optional<std::int64_t> input_size;
  std::optional<CallProblem> problem;  // In words of its own, where it is not the JSON that is wrong.
};

// Appends the bytes of the value. Tensors are little-endian, and the host is assumed to be.
template <typename T>
void append_raw(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename Integer>
bool convert_integer(JsonReader& json, std::string& out) {
  Integer value{};
  if (!json.integer(value)) return false;
  append_raw(out, value);
  return true;
}

// Accepts true and false as well as 1 and 0.
bool convert_boolean(JsonReader& json, std::string& out) {
  bool truth = false;
  std::int64_t number = 0;
  if (json.peek() != '0') {
    if (!json.boolean(truth)) return false;
  } else {
    if (!json.integer(number)) return false;
    if (number != 0 && number != 1) return json.fail("expected true, false, 1 or 0");
    truth = number == 1;
  }
  out += truth ? '\1' : '\0';
  return true;
}

bool convert_number(JsonReader& json, Datatype datatype, std::string& out) {
  double value = 0;
  if (!json.number(value)) return false;
  // A finite number that no float is near would become infinity, and a wrong answer without an error: it is refused.
  // 3.4028235e38 is above the largest float and rounds to it: it is how that float is written.
  if (datatype == Datatype::fp32) {
    constexpr double kRoundsToInfinity = 0x1.ffffffp127;
    constexpr double kLargest = std::numeric_limits<float>::max();
    const bool finite = std::isfinite(value);
    if (finite && std::abs(value) >= kRoundsToInfinity) return json.fail("number out of range");
    append_raw(out, static_cast<float>(finite ? std::clamp(value, -kLargest, kLargest) : value));
  } else if (datatype == Datatype::fp16 || datatype == Datatype::bf16) {
    const auto bits = to_small_float(datatype, value);
    if (!bits) return json.fail("number out of range");
    append_raw(out, *bits);
  } else {
    append_raw(out, value);
  }
  return true;
}

bool convert_text(JsonReader& json, std::string& out) {
  std::string element;
  if (!json.string(element)) return false;
  // Fails for an element that does not fit into its slot, and when the slots of the request together exceed
  // kBytesSlotsMax. A slot takes 1 KiB for an element of a few bytes, so the body limit alone does not bound this
  // memory.
  if (append_bytes_slot(element, out)) return true;
  return json.fail(fmt::format("an element of BYTES is longer than {} bytes, or there are too many", kBytesElementMax));
}

bool convert_element(JsonReader& json, Datatype datatype, std::string& out) {
  switch (datatype) {
    case Datatype::boolean: return convert_boolean(json, out);
    case Datatype::uint8: return convert_integer<std::uint8_t>(json, out);
    case Datatype::uint16: return convert_integer<std::uint16_t>(json, out);
    case Datatype::uint32: return convert_integer<std::uint32_t>(json, out);
    case Datatype::uint64: return convert_integer<std::uint64_t>(json, out);
    case Datatype::int8: return convert_integer<std::int8_t>(json, out);
    case Datatype::int16: return convert_integer<std::int16_t>(json, out);
    case Datatype::int32: return convert_integer<std::int32_t>(json, out);
    case Datatype::int64: return convert_integer<std::int64_t>(json, out);
    case Datatype::fp16:
    case Datatype::bf16:
    case Datatype::fp32:
    case Datatype::fp64: return convert_number(json, datatype, out);
    case Datatype::bytes: return convert_text(json, out);
  }
  return false;
}

// Compares the length of a list that has just ended with the other lists of its level. Fails if the data is ragged.
bool note_length(JsonReader& json, Nesting& nesting, std::size_t level, std::int64_t length) {
  std::int64_t& known = nesting.lengths[level];
  if (known >= 0 && known != length) {
    return json.fail(fmt::format("data is ragged: a list of {} elements where another has {}", length, known));
  }
  known = length;
  return true;
}

bool convert_data(JsonReader& json, Datatype datatype, std::string& out, Nesting& nesting, std::size_t level = 0);

// Reads one member of a list at `level`: a list of the next level, or an element.
bool convert_member(JsonReader& json, Datatype datatype, std::string& out, Nesting& nesting, std::size_t level) {
  if (json.peek() == '[') return convert_data(json, datatype, out, nesting, level + 1);
  // The first element fixes the level of the elements; one at any other level means that the data is no tensor.
  if (nesting.elements_at != level) {
    if (nesting.elements_at != Nesting::kUnknown) return json.fail("data is ragged: elements are at several depths");
    nesting.elements_at = level;
  }
  if (out.size() > nesting.end_max) return json.fail("there are more elements than the shape has");
  return convert_element(json, datatype, out);
}

// Converts nested or flat lists to the bytes of a row-major tensor. Both forms have the same element order, so the
// nesting changes nothing but what check_nesting() verifies.
bool convert_data(JsonReader& json, Datatype datatype, std::string& out, Nesting& nesting, std::size_t level) {
  // Also bounds the recursion, whatever the client sends.
  if (level == kRankMax) return json.fail("data is nested deeper than any shape");
  // A level is registered when its first list begins: the lists inside that one end earlier than it does.
  if (level >= nesting.levels) {
    nesting.levels = level + 1;
    nesting.lengths[level] = -1;
  }
  std::int64_t length = 0;
  const bool good = json.array([&] {
    ++length;
    return convert_member(json, datatype, out, nesting, level);
  });
  return good && note_length(json, nesting, level, length);
}

// Checks the nesting against the shape. Lists may stop at any level of the shape and continue flat, but each level
// above the last must have the length of its axis: for [2,3], both [[1,2,3],[4,5,6]] and [1,2,3,4,5,6] are accepted.
// The length of the last level is checked later, by the number of bytes.
std::optional<CallProblem> check_nesting(const JsonInput& input) {
  const Nesting& nesting = input.nesting;
  const std::vector<std::int64_t>& shape = input.shape;
  // Elements above the deepest level, as in [1,[]]. convert_member() has failed [1,[2]] already.
  const bool mixed = nesting.elements_at != Nesting::kUnknown && nesting.elements_at + 1 != nesting.levels;
  bool fits = !mixed && nesting.levels <= std::max<std::size_t>(shape.size(), 1);
  for (std::size_t level = 0; fits && level + 1 < nesting.levels; ++level) {
    fits = nesting.lengths[level] == shape[level];
  }
  if (fits) return std::nullopt;
  return invalid_request(fmt::format("input '{}': data is nested as [{}], its shape is [{}]", input.name,
                                     fmt::join(nesting.lengths.begin(), nesting.lengths.begin() + nesting.levels, ","),
                                     fmt::join(shape, ",")));
}

// Reads an object of parameters and calls `visit(name, value)` for each. The protocol knows strings, numbers and
// booleans; other kinds are passed on as well, so that the error message can name what was found.
template <typename Visit>
bool read_parameters(JsonReader& json, Visit&& visit) {
  return json.object([&](std::string_view name) {
    double value = 0;
    bool truth = false;
    std::string text;
    switch (json.peek()) {
      case '0': return json.number(value) && visit(name, ParameterValue::of(value));
      case 't':
      case 'f': return json.boolean(truth) && visit(name, ParameterValue::of(truth));
      case '"': return json.string(text) && visit(name, ParameterValue::of_text(text));
      case 'n': return json.null() && visit(name, ParameterValue::of_other("null"));
      case '[': return json.skip() && visit(name, ParameterValue::of_other("a list"));
      case '{': return json.skip() && visit(name, ParameterValue::of_other("an object"));
      // No value begins here. skip() reports the problem.
      default: return json.skip();
    }
  });
}

// Returns true without a problem. Otherwise stores it and fails the reader, which ends the pass; the stored problem
// then takes the place of the reader's own message.
bool go_on(JsonReader& json, JsonRequest& request, std::optional<CallProblem> problem) {
  if (!problem) return true;
  request.problem = std::move(problem);
  return json.fail("wrong");
}

bool read_shape(JsonReader& json, std::vector<std::int64_t>& shape) {
  return json.array([&] {
    if (shape.size() == kRankMax) return json.fail("too many axes");
    return json.integer(shape.emplace_back());
  });
}

// Reads one parameter of an input. binary_data_size belongs to the REST protocol; the rest is common to both.
std::optional<CallProblem> read_input_parameter(std::string_view name, const ParameterValue& value, JsonInput& input) {
  if (name != "binary_data_size") return check_input_parameter(name);
  if (!value.is_natural(0, kNaturalMax)) return wrong_parameter(name, "a number of bytes", value);
  input.binary_size = static_cast<std::int64_t>(value.number);
  return std::nullopt;
}

std::optional<CallProblem> read_output_parameter(std::string_view name, const ParameterValue& value,
                                                 JsonOutput& output) {
  if (name == "classification") return read_classes(value, output.classes);
  if (name != "binary_data") return check_output_parameter(name, value);
  if (!value.is_boolean()) return wrong_parameter(name, "true or false", value);
  output.binary = value.number != 0;
  return std::nullopt;
}

GivenInput as_given(const JsonInput& input, std::string_view data) {
  return {input.name, parse_datatype(input.datatype_name), input.datatype_name, input.shape.data(), input.shape.size(),
          data};
}

// Before data is converted: its shape fits the model, and there is memory for what it becomes. Ensures that the
// conversion ends soon after the last element of the shape.
std::optional<CallProblem> prepare(JsonInput& input, Call& call) {
  std::uint64_t bytes = 0;
  if (auto problem = bytes_of_input(as_given(input, {}), call, bytes)) return problem;
  if (auto problem = charge(call, bytes)) return problem;
  input.prepared = true;
  input.nesting.end_max = call.converted.size() + static_cast<std::size_t>(bytes) + kSlackBytes;
  call.converted.reserve(call.converted.size() + static_cast<std::size_t>(bytes));
  return std::nullopt;
}

// Converts the data at once if the datatype is known. JSON members have no order, so the datatype can follow the data:
// then the text is remembered and skipped, and convert_late() reads it a second time. So it is with long data, and with
// BYTES, which become many times as long, if the shape is not known.
bool read_data(JsonReader& json, JsonRequest& request, JsonInput& input, Call& call) {
  input.has_data = true;
  const auto datatype = parse_datatype(input.datatype_name);
  const bool large = json.rest().size() > kConvertUnseen || datatype == Datatype::bytes;
  if (!datatype || (large && (input.name.empty() || input.shape.empty()))) {
    input.data_text = json.rest();
    return json.skip();
  }
  if (large && !go_on(json, request, prepare(input, call))) return false;
  input.converted_begin = call.converted.size();
  const bool good = convert_data(json, *datatype, call.converted, input.nesting);
  input.converted_end = call.converted.size();
  if (input.prepared) return good;
  return good && go_on(json, request, charge(call, input.converted_end - input.converted_begin));
}

constexpr std::array<std::string_view, 4> kRequestKeys{"id", "parameters", "inputs", "outputs"};
constexpr std::array<std::string_view, 5> kInputKeys{"name", "datatype", "shape", "data", "parameters"};
constexpr std::array<std::string_view, 2> kOutputKeys{"name", "parameters"};

// The keys of an object that mean something, each of which may come once: of two, a proxy in front could have checked
// the other one.
class OnceEach {
 public:
  explicit OnceEach(std::span<const std::string_view> keys) : keys_(keys) {}
  // False, with the problem, if the key came before.
  bool take(JsonReader& json, std::string_view key) {
    const auto known = static_cast<std::size_t>(std::ranges::find(keys_, key) - keys_.begin());
    if (known == keys_.size()) return true;
    const unsigned bit = 1U << known;
    if ((seen_ & bit) != 0) return json.fail(fmt::format("{} is given twice", key));
    seen_ |= bit;
    return true;
  }

 private:
  std::span<const std::string_view> keys_;
  unsigned seen_ = 0;
};

bool read_input(JsonReader& json, JsonRequest& request, Call& call) {
  if (request.inputs.size() == kInputsMax) return json.fail("too many inputs");
  JsonInput& input = request.inputs.emplace_back();
  OnceEach once(kInputKeys);
  return json.object([&](std::string_view key) {
    if (!once.take(json, key)) return false;
    if (key == "name") return json.string(input.name);
    if (key == "datatype") return json.string(input.datatype_name);
    if (key == "shape") return read_shape(json, input.shape);
    if (key == "data") return read_data(json, request, input, call);
    if (key != "parameters" || json.peek() == 'n') return json.skip();
    return read_parameters(json, [&](std::string_view name, const ParameterValue& value) {
      return go_on(json, request, read_input_parameter(name, value, input));
    });
  });
}

bool read_output(JsonReader& json, JsonRequest& request) {
  if (request.outputs.size() == kInputsMax) return json.fail("too many outputs");
  JsonOutput& output = request.outputs.emplace_back();
  OnceEach once(kOutputKeys);
  return json.object([&](std::string_view key) {
    if (!once.take(json, key)) return false;
    if (key == "name") return json.string(output.name);
    if (key != "parameters" || json.peek() == 'n') return json.skip();
    return read_parameters(json, [&](std::string_view name, const ParameterValue& value) {
      return go_on(json, request, read_output_parameter(name, value, output));
    });
  });
}

bool read_request_parameters(JsonReader& json, JsonRequest& request, Call& call) {
  return read_parameters(json, [&](std::string_view name, const ParameterValue& value) {
    if (name != "binary_data_output") {
      return go_on(json, request, apply_parameter(name, value, call, request.input_size));
    }
    request.binary_output = value.number != 0;
    return value.is_boolean() || go_on(json, request, wrong_parameter(name, "true or false", value));
  });
}

bool read_request(JsonReader& json, JsonRequest& request, Call& call) {
  OnceEach once(kRequestKeys);
  return json.object([&](std::string_view key) {
    if (!once.take(json, key)) return false;
    // Clients with optional fields, such as KServe's, write those that they leave out as null.
    const bool optional = key == "id" || key == "parameters" || key == "outputs";
    if (optional && json.peek() == 'n') return json.null();
    if (key == "id") return json.string(call.id);
    if (key == "parameters") return read_request_parameters(json, request, call);
    if (key == "inputs") return json.array([&] { return read_input(json, request, call); });
    if (key != "outputs") return json.skip();
    request.outputs_named = true;
    return json.array([&] { return read_output(json, request); });
  }) && json.end();
}

// Converts data that preceded its datatype in the JSON.
std::optional<CallProblem> convert_late(JsonInput& input, Call& call) {
  std::string& converted = call.converted;
  const auto datatype = parse_datatype(input.datatype_name);
  if (!datatype) return std::nullopt;  // Reported when the inputs are compared with the model.
  if (auto problem = prepare(input, call)) return problem;
  JsonReader json(input.data_text);
  json.allow_non_finite();
  input.converted_begin = converted.size();
  const bool good = convert_data(json, *datatype, converted, input.nesting);
  input.converted_end = converted.size();
  if (good) return std::nullopt;
  return invalid_request(fmt::format("input '{}': {} of its data", input.name, json.problem()));
}

// How many elements the wire form of BYTES has; nothing: the last is cut off.
std::optional<std::uint64_t> count_wire_elements(std::string_view wire) {
  std::uint64_t count = 0;
  for (; !wire.empty(); ++count) {
    std::uint32_t length = 0;
    if (wire.size() < sizeof length) return std::nullopt;
    std::memcpy(&length, wire.data(), sizeof length);
    if (wire.size() - sizeof length < length) return std::nullopt;
    wire.remove_prefix(sizeof length + std::size_t{length});
  }
  return count;
}

// Converts BYTES elements behind the JSON to slots of a fixed size. Walks over the binary inputs in the same order as
// locate_data(), which also reports announced bytes that are missing; here they only shorten the part.
std::optional<CallProblem> convert_wire(std::vector<JsonInput>& inputs, std::string_view binary, Call& call) {
  std::string& converted = call.converted;
  for (auto& input : inputs) {
    if (!input.binary_size || input.has_data) continue;
    const std::string_view part = binary.substr(0, static_cast<std::size_t>(std::min<std::int64_t>(
                                                       *input.binary_size, static_cast<std::int64_t>(binary.size()))));
    binary.remove_prefix(part.size());
    if (parse_datatype(input.datatype_name) != Datatype::bytes) continue;
    input.wire = true;
    // An element takes four bytes behind the JSON and a slot here: the shape says how many there may be.
    std::uint64_t slots = 0;
    if (auto problem = bytes_of_input(as_given(input, {}), call, slots)) return problem;
    const auto found = count_wire_elements(part);
    if (!found) return invalid_request(fmt::format("input '{}': an element is longer than what is left", input.name));
    if (*found * kBytesSlot != slots) {
      return invalid_request(
          fmt::format("input '{}' has {} elements, expected {}", input.name, *found, slots / kBytesSlot));
    }
    if (auto problem = charge(call, slots)) return problem;
    converted.reserve(converted.size() + static_cast<std::size_t>(slots));
    input.converted_begin = converted.size();
    if (const auto problem = wire_to_slots(part, converted)) {
      return invalid_request(fmt::format("input '{}': {}", input.name, *problem));
    }
    input.converted_end = converted.size();
  }
  return std::nullopt;
}

// Finds the bytes of each input: behind the JSON, in the order of the inputs, or in call.converted. Requires that the
// whole JSON was read. Ensures that every view in `given` stays valid as long as neither `request` nor the call
// changes.
std::optional<CallProblem> locate_data(JsonRequest& request, std::string_view binary, Call& call,
                                       std::vector<GivenInput>& given) {
  // All conversions come first: they append to call.converted and can move it, so no view of it may exist yet.
  for (auto& input : request.inputs) {
    if (!input.data_text.empty()) {
      if (auto problem = convert_late(input, call)) return problem;
    }
  }
  if (auto problem = convert_wire(request.inputs, binary, call)) return problem;
  for (auto& input : request.inputs) {
    if (input.binary_size && input.has_data) {
      return invalid_request(fmt::format("input '{}' has both data and binary_data_size", input.name));
    }
    if (!input.binary_size && !input.has_data)
      return invalid_request(fmt::format("input '{}' has no data", input.name));
    if (input.has_data) {
      if (auto problem = check_nesting(input)) return problem;
    }
    std::string_view data;
    if (input.binary_size) {
      if (static_cast<std::uint64_t>(*input.binary_size) > binary.size()) {
        return invalid_request(fmt::format("input '{}': {} bytes of binary data were announced, but {} were sent",
                                           input.name, *input.binary_size, binary.size()));
      }
      data = binary.substr(0, static_cast<std::size_t>(*input.binary_size));
      binary.remove_prefix(data.size());
    }
    // BYTES from behind the JSON were counted there like all others, but are read in their converted form.
    if (!input.binary_size || input.wire) {
      data =
          std::string_view(call.converted).substr(input.converted_begin, input.converted_end - input.converted_begin);
    }
    given.push_back(as_given(input, data));
  }
  // Bytes that belong to no input mean that a length is wrong, and then earlier tensors could be shifted, too.
  if (!binary.empty()) return invalid_request(fmt::format("{} unexpected bytes follow the last input", binary.size()));
  return std::nullopt;
}

std::optional<std::int64_t> whole(std::string_view text) { return text::parse_integer(text); }

// Reads a raw request: the body is the data of the only input, with one sample. The length of the body gives the length
// of the variable axis. Masks do not count as inputs here, because the gateway fills them in.
std::optional<CallProblem> read_raw(std::optional<std::int64_t> input_size, Call& call) {
  const auto& inputs = call.model->signature.inputs;
  const TensorSpec* only = nullptr;
  for (const auto& spec : inputs) {
    if (spec.mask) continue;
    if (only != nullptr) return invalid_request("a raw request needs a model with one input");
    only = &spec;
  }
  // The length of the body does not tell how many BYTES elements it holds.
  if (only->datatype == Datatype::bytes) return invalid_request("a raw request needs a model that takes numbers");
  // The bytes of one sample whose variable axis has length 1. accept_inputs() rejects a body that is no multiple.
  const std::size_t place = static_cast<std::size_t>(*bytes_of(*only, 1));
  std::vector<std::int64_t> shape{1};
  const std::int64_t length = static_cast<std::int64_t>(call.body.size() / place);
  for (const std::int64_t axis : only->shape) shape.push_back(axis == kVariableAxis ? length : axis);
  const std::vector<GivenInput> given{
      {only->name, only->datatype, to_string(only->datatype), shape.data(), shape.size(), call.body}};
  if (auto problem = accept_inputs(given, input_size, call)) return problem;
  request_all_outputs(true, call);
  return std::nullopt;
}

// Calls `write(value)` for each element, with commas between them. Copies each element out, since the tensor inside the
// answer need not be aligned for T.
template <typename T, typename Write>
void write_elements(std::string& out, std::string_view raw, Write&& write) {
  for (std::size_t at = 0; at < raw.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, raw.data() + at, sizeof value);
    if (at != 0) out += ',';
    write(value);
  }
}

// Widens to 64 bits, the only integers that append_json_number() takes.
template <typename T>
void write_integers(std::string& out, std::string_view raw) {
  write_elements<T>(out, raw, [&](T value) {
    if constexpr (std::is_signed_v<T>) {
      append_json_number(out, static_cast<std::int64_t>(value));
    } else {
      append_json_number(out, static_cast<std::uint64_t>(value));
    }
  });
}

// NaN and infinities as Triton and Python write them: null would be read as NaN, whichever it was. A zero keeps its
// sign only with a point, since -0 is a whole number.
template <typename Float>
void write_number(std::string& out, Float value) {
  if (std::isnan(value)) {
    out += "NaN";
  } else if (std::isinf(value)) {
    out += value < 0 ? "-Infinity" : "Infinity";
  } else if (value == 0 && std::signbit(value)) {
    out += "-0.0";
  } else {
    append_json_number(out, value);
  }
}

void write_texts(std::string& out, std::string_view slots) {
  for (std::size_t at = 0; at + kBytesSlot <= slots.size(); at += kBytesSlot) {
    if (at != 0) out += ',';
    append_json_string(out, element_of_slot(slots.data() + at));
  }
}

// True if each element of the slots can be a JSON string.
bool all_text(std::string_view slots) {
  for (std::size_t at = 0; at + kBytesSlot <= slots.size(); at += kBytesSlot) {
    if (!is_utf8(element_of_slot(slots.data() + at))) return false;
  }
  return true;
}

void write_data(std::string& out, Datatype datatype, std::string_view raw) {
  switch (datatype) {
    case Datatype::boolean:
      return write_elements<std::uint8_t>(out, raw, [&](std::uint8_t v) { out += v != 0 ? "true" : "false"; });
    case Datatype::uint8: return write_integers<std::uint8_t>(out, raw);
    case Datatype::uint16: return write_integers<std::uint16_t>(out, raw);
    case Datatype::uint32: return write_integers<std::uint32_t>(out, raw);
    case Datatype::uint64: return write_integers<std::uint64_t>(out, raw);
    case Datatype::int8: return write_integers<std::int8_t>(out, raw);
    case Datatype::int16: return write_integers<std::int16_t>(out, raw);
    case Datatype::int32: return write_integers<std::int32_t>(out, raw);
    case Datatype::int64: return write_integers<std::int64_t>(out, raw);
    case Datatype::fp32: return write_elements<float>(out, raw, [&](float v) { write_number(out, v); });
    case Datatype::fp64: return write_elements<double>(out, raw, [&](double v) { write_number(out, v); });
    case Datatype::fp16:
    case Datatype::bf16:
      return write_elements<std::uint16_t>(out, raw,
                                           [&](std::uint16_t v) { write_number(out, from_small_float(datatype, v)); });
    case Datatype::bytes: return write_texts(out, raw);
  }
}

// BYTES elements that are not UTF-8 are sent as bytes even if the client asked for JSON, whose strings cannot hold
// them.
bool goes_binary(const CallOutput& output, const TensorSpec& spec, std::string_view raw) {
  if (output.binary || output.classes > 0) return output.binary;
  return spec.datatype == Datatype::bytes && !all_text(raw);
}

// The wire form of BYTES.
std::string texts_to_wire(const std::vector<std::string>& texts) {
  std::string wire;
  for (const auto& text : texts) {
    append_raw(wire, static_cast<std::uint32_t>(text.size()));
    wire += text;
  }
  return wire;
}

// An output of which the classes were asked for is BYTES, with a row for each sample.
void write_classes(std::string& out, const Call& call, const CallOutput& output) {
  const TensorSpec& spec = call.model->signature.outputs[output.index];
  const auto classes = classify(spec.datatype, raw_output(call, output.index), call.samples, output.classes);
  out += R"({"name":)";
  append_json_string(out, spec.name);
  out += fmt::format(R"(,"datatype":"BYTES","shape":[{},{}],)", call.samples,
                     classes.size() / static_cast<std::size_t>(call.samples));
  if (output.binary) {
    out += fmt::format(R"("parameters":{{"binary_data_size":{}}}}})", texts_to_wire(classes).size());
  } else {
    // Digits, signs, points and colons only: nothing to escape.
    out += fmt::format(R"("data":["{}"]}})", fmt::join(classes, R"(",")"));
  }
}

// Writes the description of one output, and its data if that goes into the JSON. The shape is that of the request: the
// samples it sent and its own extent, not those of the padded batch.
void write_output(std::string& out, const Call& call, const CallOutput& output) {
  if (output.classes > 0) return write_classes(out, call, output);
  const TensorSpec& spec = call.model->signature.outputs[output.index];
  const std::string_view raw = raw_output(call, output.index);
  out += R"({"name":)";
  append_json_string(out, spec.name);
  out += R"(,"datatype":")";
  out += to_string(spec.datatype);
  out += R"(","shape":[)";
  append_json_number(out, std::int64_t{call.samples});
  for (const std::int64_t axis : spec.shape) {
    out += ',';
    append_json_number(out, axis == kVariableAxis ? call.extent : axis);
  }
  if (goes_binary(output, spec, raw)) {
    out += R"(],"parameters":{"binary_data_size":)";
    // The wire form has no padding, so it is shorter than the slots.
    const std::size_t bytes = spec.datatype == Datatype::bytes ? slots_to_wire(raw).size() : raw.size();
    append_json_number(out, static_cast<std::uint64_t>(bytes));
    out += "}}";
  } else {
    out += R"(],"data":[)";
    write_data(out, spec.datatype, raw);
    out += "]}";
  }
}

}  // namespace

std::optional<CallProblem> read_infer_request(const InferHeaders& headers, Call& call) {
  JsonRequest request;
  if (auto problem = read_headers(headers, call, request.input_size)) return problem;
  std::size_t json_length = call.body.size();
  // Without the header field the whole body is JSON. A length of 0 means that there is no JSON: the raw form.
  if (headers.json_length) {
    const auto length = whole(*headers.json_length);
    if (!length || *length < 0 || static_cast<std::uint64_t>(*length) > call.body.size()) {
      return invalid_request("Inference-Header-Content-Length must be a number of bytes within the body");
    }
    if (*length == 0) return read_raw(request.input_size, call);
    json_length = static_cast<std::size_t>(*length);
  }
  const std::string_view body = call.body;
  JsonReader json(body.substr(0, json_length));
  json.allow_non_finite();
  if (!read_request(json, request, call)) {
    // A problem with the meaning of a value has a better message than the place where reading stopped.
    if (request.problem) return std::move(request.problem);
    return invalid_request("failed to parse the request JSON: " + json.problem());
  }
  std::vector<GivenInput> given;
  if (auto problem = locate_data(request, body.substr(json_length), call, given)) return problem;
  if (auto problem = accept_inputs(given, request.input_size, call)) return problem;
  // Naming no outputs, or an empty list of them, asks for all.
  if (!request.outputs_named || request.outputs.empty()) request_all_outputs(request.binary_output, call);
  for (const auto& output : request.outputs) {
    if (auto problem =
            request_output(output.name, output.binary.value_or(request.binary_output), call, output.classes)) {
      return problem;
    }
  }
  return std::nullopt;
}

// Writes the JSON with the size of each binary output, and then the bytes of these outputs in the same order. Reuses
// the memory of `body`.
void write_infer_answer(const Call& call, InferBody& body) {
  std::string& out = body.text;
  out.clear();
  body.json_length.reset();
  out += '{';
  if (!call.id.empty()) {
    out += R"("id":)";
    append_json_string(out, call.id);
    out += ',';
  }
  out += R"("model_name":)";
  append_json_string(out, call.model->name);
  out += R"(,"model_version":"1","outputs":[)";
  bool binary = false;
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    if (i != 0) out += ',';
    write_output(out, call, call.outputs[i]);
    const std::size_t index = call.outputs[i].index;
    binary |= goes_binary(call.outputs[i], call.model->signature.outputs[index], raw_output(call, index));
  }
  out += "]}";
  if (!binary) return;
  body.json_length = out.size();
  for (const auto& output : call.outputs) {
    const TensorSpec& spec = call.model->signature.outputs[output.index];
    const std::string_view raw = raw_output(call, output.index);
    if (!goes_binary(output, spec, raw)) continue;
    if (output.classes > 0) {
      out += texts_to_wire(classify(spec.datatype, raw, call.samples, output.classes));
      continue;
    }
    spec.datatype == Datatype::bytes ? out += slots_to_wire(raw) : out += raw;
  }
}

// By the longest text of an element of each datatype and the comma behind it: -1.17549435e-38 and
// -2.2250738585072014e-308 are the longest floats. A letter of a text becomes six at most (\u001f).
std::size_t infer_answer_max(const Call& call) {
  constexpr std::size_t kHeadOfOutput = 160;
  constexpr std::size_t kClassBytes = 512;  // A double can have 309 digits before its point.
  const auto text_factor = [](Datatype datatype) -> std::size_t {
    switch (datatype) {
      case Datatype::boolean: return 6;
      case Datatype::int8:
      case Datatype::uint8: return 5;
      case Datatype::fp16:
      case Datatype::bf16: return 8;
      case Datatype::int16:
      case Datatype::uint16:
      case Datatype::int32:
      case Datatype::uint32: return 4;
      case Datatype::int64:
      case Datatype::uint64:
      case Datatype::fp64: return 4;
      case Datatype::fp32: return 4;
      case Datatype::bytes: return 6;
    }
    return 6;
  };
  std::size_t most = 256 + 6 * (call.id.size() + call.model->name.size());
  for (const auto& output : call.outputs) {
    const TensorSpec& spec = call.model->signature.outputs[output.index];
    const std::size_t raw = raw_output(call, output.index).size();
    most += kHeadOfOutput + 6 * spec.name.size() + 24 * (spec.shape.size() + 1);
    if (output.classes > 0) {
      // An order of the elements of a sample, and for each class a text, its string and a copy.
      const std::size_t elements = raw / size_of(spec.datatype);
      const std::size_t classes = static_cast<std::size_t>(call.samples) * static_cast<std::size_t>(output.classes);
      most += elements * sizeof(std::uint32_t) + std::min(elements, classes) * kClassBytes;
      continue;
    }
    most += output.binary ? raw : raw * text_factor(spec.datatype);
  }
  return most;
}

std::string error_body(std::string_view message) {
  std::string out = R"({"error":)";
  append_json_string(out, message);
  out += '}';
  return out;
}

}  // namespace tangram::serve
