// Conversion between messages of the protocol and calls.
//
// A request carries its tensors in one of two forms: raw_input_contents, one string of bytes per input, or typed
// contents inside each input. Raw numbers are used where they are, inside the message; typed contents and all BYTES
// tensors are converted into call.converted. Before anything is converted, the number of elements is compared with the
// shape and charged, so that a message cannot make the server hold more than it says. As in infer_json.cc, views of
// call.converted are made only after the last conversion, because it moves while it grows. Answers are always raw, so
// only BYTES need a conversion there.

#ifdef TANGRAM_WITH_GRPC

#include "serve/grpc_codec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <bit>
#include <cstring>
#include <functional>
#include <span>

#include "base/check.h"
#include "base/json_reader.h"
#include "core/bytes_slot.h"
#include "serve/classification.h"
#include "serve/grpc_server.h"
#include "serve/proto_wire.h"

namespace tangram::serve {
namespace {

// ---- Requests ----

// The limits of infer_json.cc.
constexpr std::size_t kGrpcTensorsMax = 64;
constexpr std::size_t kGrpcRankMax = 9;  // Samples and eight axes.
constexpr std::size_t kGrpcParametersMax = 64;
// Fields of a message together, known or not.
constexpr int kGrpcFieldsMax = 10'000;

CallProblem not_a_message() { return invalid_request("not a message of the protocol"); }

// One input as the message describes it.
struct GrpcInput {
  std::string_view name;
  std::string_view datatype_name;
  std::optional<Datatype> datatype;  // Nothing: the name is none.
  std::array<std::int64_t, kGrpcRankMax> shape{};
  std::size_t rank = 0;
  bool has_contents = false;

  std::span<const std::int64_t> axes() const { return {shape.data(), rank}; }
  bool add_axis(std::uint64_t length) {
    if (rank == kGrpcRankMax) return false;
    shape[rank++] = static_cast<std::int64_t>(length);
    return true;
  }
};

// Where typed contents hold the elements of a datatype.
struct ContentsField {
  std::uint32_t number = 0;  // 0: nowhere, as for FP16 and BF16.
  ProtoType type = ProtoType::varint;
};

ContentsField contents_field(Datatype datatype) {
  switch (datatype) {
    case Datatype::boolean: return {1, ProtoType::varint};
    case Datatype::int8:
    case Datatype::int16:
    case Datatype::int32: return {2, ProtoType::varint};
    case Datatype::int64: return {3, ProtoType::varint};
    case Datatype::uint8:
    case Datatype::uint16:
    case Datatype::uint32: return {4, ProtoType::varint};
    case Datatype::uint64: return {5, ProtoType::varint};
    case Datatype::fp32: return {6, ProtoType::fixed32};
    case Datatype::fp64: return {7, ProtoType::fixed64};
    case Datatype::bytes: return {8, ProtoType::bytes};
    case Datatype::fp16:
    case Datatype::bf16: break;
  }
  return {};
}

// Calls `visit` for each field of the typed contents of an input that holds elements of this kind. False: malformed.
// Contents that occur several times are one after the other, as Protobuf merges them.
template <typename Visit>
bool each_contents_field(std::string_view input, ContentsField wanted, Visit&& visit) {
  ProtoReader fields(input);
  ProtoField field;
  while (fields.next(field)) {
    if (!field.is_bytes(5)) continue;
    ProtoReader contents(field.bytes);
    ProtoField element;
    while (contents.next(element)) {
      if (element.number != wanted.number) continue;
      // Numbers come packed or one by one; a field of another type is unknown, and so ignored.
      if (element.type != wanted.type && element.type != ProtoType::bytes) continue;
      if (!visit(element)) return false;
    }
    if (!contents.good()) return false;
  }
  return fields.good();
}

std::size_t width_of(ProtoType type) { return type == ProtoType::fixed32 ? 4 : 8; }

// How many elements the typed contents of an input hold. Nothing: malformed.
std::optional<std::uint64_t> count_contents(std::string_view input, ContentsField wanted) {
  std::uint64_t count = 0;
  const bool good = each_contents_field(input, wanted, [&](const ProtoField& element) {
    if (wanted.type == ProtoType::bytes || element.type != ProtoType::bytes) {
      ++count;
    } else if (wanted.type == ProtoType::varint) {
      count += count_varints(element.bytes);
    } else {
      count += element.bytes.size() / width_of(wanted.type);
      return element.bytes.size() % width_of(wanted.type) == 0;
    }
    return true;
  });
  return good ? std::optional(count) : std::nullopt;
}

// Appends the lowest `size` bytes of a number, little-endian as the protocol has it.
void append_element_bytes(std::uint64_t value, std::size_t size, std::string& out) {
  static_assert(std::endian::native == std::endian::little);
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, size);
}

// Appends the typed contents of an input as the bytes of its tensor. The problem, or nullopt.
std::optional<std::string> append_contents(std::string_view input, Datatype datatype, std::string& out) {
  const ContentsField wanted = contents_field(datatype);
  const std::size_t size = size_of(datatype);
  std::optional<std::string> problem;
  const bool good = each_contents_field(input, wanted, [&](const ProtoField& element) {
    if (wanted.type == ProtoType::bytes) {
      if (append_bytes_slot(element.bytes, out)) return true;
      problem = fmt::format("an element is longer than {} bytes", kBytesElementMax);
      return false;
    }
    if (element.type != ProtoType::bytes) {
      append_element_bytes(datatype == Datatype::boolean ? element.value != 0 : element.value, size, out);
      return true;
    }
    if (wanted.type != ProtoType::varint) {
      out += element.bytes;
      return true;
    }
    ProtoReader packed(element.bytes);
    std::uint64_t value = 0;
    while (packed.next_varint(value))
      append_element_bytes(datatype == Datatype::boolean ? value != 0 : value, size, out);
    return packed.good();
  });
  if (!good && !problem) problem = "its contents are malformed";
  return problem;
}

// How many elements a BYTES tensor holds, as far as its lengths make sense; wire_to_slots() reports where not.
std::uint64_t count_bytes_elements(std::string_view wire) {
  std::uint64_t count = 0;
  while (wire.size() >= 4) {
    std::uint32_t length = 0;
    std::memcpy(&length, wire.data(), 4);
    if (length > wire.size() - 4) break;
    wire.remove_prefix(4 + std::size_t{length});
    ++count;
  }
  return count;
}

// Numbers become doubles, which are exact up to kNaturalMax; larger values fail the range checks of parameters.
// Requires an InferParameter. Nothing: malformed.
std::optional<ParameterValue> read_parameter_value(std::string_view message) {
  ParameterValue value = ParameterValue::of_other("nothing");
  ProtoReader fields(message);
  ProtoField field;
  while (fields.next(field)) {
    if (field.is(1, ProtoType::varint)) value = ParameterValue::of(field.value != 0);
    if (field.is(2, ProtoType::varint)) {
      value = ParameterValue::of(static_cast<double>(static_cast<std::int64_t>(field.value)));
    }
    if (field.is_bytes(3)) value = ParameterValue::of_text(field.bytes);
    if (field.is(4, ProtoType::fixed64)) value = ParameterValue::of(std::bit_cast<double>(field.value));
    if (field.is(5, ProtoType::varint)) value = ParameterValue::of(static_cast<double>(field.value));
  }
  return fields.good() ? std::optional(value) : std::nullopt;
}

// One entry of a map of parameters.
struct GrpcParameter {
  std::string_view name;
  ParameterValue value = ParameterValue::of_other("nothing");

  // False: malformed.
  bool read(std::string_view entry) {
    ProtoReader fields(entry);
    ProtoField field;
    while (fields.next(field)) {
      if (field.is_bytes(1)) name = field.bytes;
      if (!field.is_bytes(2)) continue;
      const auto found = read_parameter_value(field.bytes);
      if (!found) return false;
      value = *found;
    }
    return fields.good();
  }
};

// Reads what the message says of one input, and rejects parameters that are not supported.
std::optional<CallProblem> read_grpc_input(std::string_view message, GrpcInput& input) {
  ProtoReader fields(message);
  ProtoField field;
  while (fields.next(field)) {
    if (field.is_bytes(1)) input.name = field.bytes;
    if (field.is_bytes(2)) input.datatype_name = field.bytes;
    if (field.is_bytes(5)) input.has_contents = true;
    if (field.is(3, ProtoType::varint) && !input.add_axis(field.value)) return invalid_request("too many axes");
    if (field.is_bytes(3)) {
      ProtoReader packed(field.bytes);
      std::uint64_t axis = 0;
      while (packed.next_varint(axis)) {
        if (!input.add_axis(axis)) return invalid_request("too many axes");
      }
      if (!packed.good()) return not_a_message();
    }
    if (field.is_bytes(4)) {
      GrpcParameter parameter;
      if (!parameter.read(field.bytes)) return not_a_message();
      if (auto problem = check_input_parameter(parameter.name)) return problem;
    }
  }
  if (!fields.good() || !is_utf8(input.name) || !is_utf8(input.datatype_name)) return not_a_message();
  input.datatype = parse_datatype(input.datatype_name);
  return std::nullopt;
}

// Appends the tensor of one input to call.converted where it cannot be used as it came. `raw`: its raw contents, if
// there are some. Requires a known datatype.
std::optional<CallProblem> convert_input(const GrpcInput& input, std::string_view message,
                                         std::optional<std::string_view> raw, Call& call) {
  std::string& out = call.converted;
  const auto malformed = [&](std::string_view what) {
    return invalid_request(fmt::format("input '{}': {}", input.name, what));
  };
  const auto found = raw ? count_bytes_elements(*raw) : count_contents(message, contents_field(*input.datatype));
  if (!found) return malformed("its contents are malformed");
  const std::uint64_t size = size_of(*input.datatype);
  std::uint64_t wanted = 0;
  const GivenInput shape{input.name, input.datatype, input.datatype_name, input.shape.data(), input.rank, {}};
  if (auto problem = bytes_of_input(shape, call, wanted)) return problem;
  // Of a tensor of the wrong size, nothing is converted. Raw BYTES have a message of their own where they end early.
  if (*found * size != wanted && !(raw && *found * size < wanted)) {
    return invalid_request(fmt::format("input '{}' of shape [{}] has {} bytes, expected {}", input.name,
                                       fmt::join(input.axes(), ","), *found * size, wanted));
  }
  if (auto problem = charge(call, *found * size)) return problem;
  out.reserve(out.size() + static_cast<std::size_t>(*found * size));
  const auto problem = raw ? wire_to_slots(*raw, out) : append_contents(message, *input.datatype, out);
  return problem ? std::optional(malformed(*problem)) : std::nullopt;
}

// Applies the parameters of the request to the call, and finds its outputs. Outputs are always binary, since there is
// no JSON to put them into.
std::optional<CallProblem> read_grpc_parameters(const GrpcInferRequest& request, Call& call,
                                                std::optional<std::int64_t>& input_size) {
  for (const auto& entry : request.parameters) {
    GrpcParameter parameter;
    if (!parameter.read(entry)) return not_a_message();
    if (auto problem = apply_parameter(parameter.name, parameter.value, call, input_size)) return problem;
  }
  return std::nullopt;
}

std::optional<CallProblem> read_grpc_output(std::string_view message, Call& call) {
  std::string_view name;
  std::int32_t classes = 0;
  ProtoReader fields(message);
  ProtoField field;
  while (fields.next(field)) {
    if (field.is_bytes(1)) name = field.bytes;
    if (!field.is_bytes(2)) continue;
    GrpcParameter parameter;
    if (!parameter.read(field.bytes)) return not_a_message();
    if (parameter.name == "classification") {
      if (auto problem = read_classes(parameter.value, classes)) return problem;
    } else if (auto problem = check_output_parameter(parameter.name, parameter.value)) {
      return problem;
    }
  }
  if (!fields.good() || !is_utf8(name)) return not_a_message();
  return request_output(name, true, call, classes);
}

// Finds the bytes of each input: in the request, or in `converted` if they had to be converted.
std::optional<CallProblem> locate_inputs(const GrpcInferRequest& request, std::vector<GrpcInput>& inputs,
                                         std::vector<GivenInput>& given, Call& call) {
  std::string& converted = call.converted;
  const bool raw = !request.raw.empty();
  if (raw && request.raw.size() != request.inputs.size()) {
    return invalid_request(fmt::format("expected {} raw inputs, got {}", request.inputs.size(), request.raw.size()));
  }
  inputs.resize(request.inputs.size());
  // Where each input ends in `converted`. An input that is used in place adds nothing, so its end equals its begin.
  std::array<std::size_t, kGrpcTensorsMax> ends{};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    GrpcInput& input = inputs[i] = {};
    if (auto problem = read_grpc_input(request.inputs[i], input)) return problem;
    if (raw && input.has_contents) {
      return invalid_request(fmt::format("input '{}' has both raw and typed contents", input.name));
    }
    // An unknown datatype is reported when the inputs are compared with the model.
    if (input.datatype && (!raw || *input.datatype == Datatype::bytes)) {
      const auto bytes = raw ? std::optional(request.raw[i]) : std::nullopt;
      if (auto problem = convert_input(input, request.inputs[i], bytes, call)) return problem;
    }
    ends[i] = converted.size();
  }
  // The second pass: neither `converted` nor the shapes move any more.
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const GrpcInput& input = inputs[i];
    const std::size_t begin = i == 0 ? 0 : ends[i - 1];
    const bool as_it_came = raw && input.datatype != Datatype::bytes;
    given.push_back({input.name, input.datatype, input.datatype_name, input.shape.data(), input.rank,
                     as_it_came ? request.raw[i] : std::string_view(converted).substr(begin, ends[i] - begin)});
  }
  return std::nullopt;
}

// ---- Descriptions ----

// The first axis is the number of samples, which the signature leaves out.
template <typename Add>
void describe_tensors(const std::vector<TensorSpec>& specs, Add&& add) {
  for (const auto& spec : specs) {
    auto* tensor = add();
    tensor->set_name(spec.name);
    tensor->set_datatype(std::string(to_string(spec.datatype)));
    tensor->add_shape(-1);
    for (const std::int64_t axis : spec.shape) tensor->add_shape(axis);
  }
}

// The configuration has an enum where the metadata has text, with TYPE_STRING for BYTES.
inference::DataType data_type(Datatype datatype) {
  inference::DataType type = inference::TYPE_INVALID;
  inference::DataType_Parse("TYPE_" + (datatype == Datatype::bytes ? "STRING" : std::string(to_string(datatype))),
                            &type);
  return type;
}

// Dimensions without the samples, which max_batch_size implies.
template <typename Add>
void configure_tensors(const std::vector<TensorSpec>& specs, Add&& add) {
  for (const auto& spec : specs) {
    auto* tensor = add();
    tensor->set_name(spec.name);
    tensor->set_data_type(data_type(spec.datatype));
    for (const std::int64_t axis : spec.shape) tensor->add_dims(axis);
  }
}

// The protocol's pair of a count and a sum in nanoseconds.
void set_duration(inference::StatisticDuration* stat, std::uint64_t count, std::int64_t ns) {
  stat->set_count(count);
  stat->set_ns(static_cast<std::uint64_t>(ns));
}

}  // namespace

std::optional<CallProblem> GrpcInferRequest::read(std::string_view message) {
  model_name = model_version = id = {};
  for (auto* list : {&parameters, &inputs, &outputs, &raw}) list->clear();
  ProtoReader fields(message);
  ProtoField field;
  for (int count = 0; fields.next(field); ++count) {
    if (count == kGrpcFieldsMax) return invalid_request("too many fields");
    if (field.type != ProtoType::bytes) continue;
    switch (field.number) {
      case 1: model_name = field.bytes; break;
      case 2: model_version = field.bytes; break;
      case 3: id = field.bytes; break;
      case 4:
        if (parameters.size() == kGrpcParametersMax) return invalid_request("too many parameters");
        parameters.push_back(field.bytes);
        break;
      case 5:
        if (inputs.size() == kGrpcTensorsMax) return invalid_request("too many inputs");
        inputs.push_back(field.bytes);
        break;
      case 6:
        if (outputs.size() == kGrpcTensorsMax) return invalid_request("too many outputs");
        outputs.push_back(field.bytes);
        break;
      case 7:
        if (raw.size() == kGrpcTensorsMax) return invalid_request("too many inputs");
        raw.push_back(field.bytes);
        break;
      default: break;
    }
  }
  if (!fields.good() || !is_utf8(model_name) || !is_utf8(model_version) || !is_utf8(id)) return not_a_message();
  return std::nullopt;
}

// The message is Triton's.
CallProblem model_not_found(const std::string& name) {
  return {CallStatus::not_found, fmt::format("Request for unknown model: '{}' is not found", name)};
}

// The steps are those of read_infer_request().
std::optional<CallProblem> read_grpc_request(const GrpcInferRequest& request, const InferHeaders& headers, Call& call) {
  if (call.model == nullptr || !has_version(request.model_version)) {
    return model_not_found(std::string(request.model_name));
  }
  std::optional<std::int64_t> input_size;
  if (auto problem = read_headers(headers, call, input_size)) return problem;
  if (auto problem = read_grpc_parameters(request, call, input_size)) return problem;
  // Kept from request to request, so that the usual one allocates nothing here.
  thread_local std::vector<GrpcInput> inputs;
  thread_local std::vector<GivenInput> given;
  given.clear();
  if (auto problem = locate_inputs(request, inputs, given, call)) return problem;
  if (auto problem = accept_inputs(given, input_size, call)) return problem;
  // As over HTTP, a request that names no outputs asks for all.
  if (request.outputs.empty()) request_all_outputs(true, call);
  for (const auto& output : request.outputs) {
    if (auto problem = read_grpc_output(output, call)) return problem;
  }
  return std::nullopt;
}

// ---- Answers ----

namespace {

std::string class_texts_to_wire(const std::vector<std::string>& texts) {
  std::string wire;
  for (const auto& text : texts) {
    append_element_bytes(text.size(), 4, wire);
    wire += text;
  }
  return wire;
}

}  // namespace

// The shape is that of the request: its own samples and extent, not those of the padded batch.
GrpcAnswer::GrpcAnswer(const Call& call, bool on_stream) : on_stream_(on_stream) {
  ProtoWriter head(head_);
  head.text(1, call.model->name);
  head.text(2, kModelVersion);
  head.text(3, call.id);
  // A client of streams learns by this parameter that no further answer to its request follows. As a map entry: the
  // name, and an InferParameter that is true.
  if (on_stream) head.bytes(4, std::string_view("\x0a\x15triton_final_response\x12\x02\x08\x01", 27));
  std::string tensor;
  std::string shape;
  for (const auto& output : call.outputs) {
    const TensorSpec& spec = call.model->signature.outputs[output.index];
    const std::string_view raw = raw_output(call, output.index);
    tensor.clear();
    shape.clear();
    ProtoWriter axes(shape);
    axes.varint(static_cast<std::uint64_t>(call.samples));
    // Of classes, a row of texts for each sample.
    std::vector<std::string> classes;
    if (output.classes > 0) {
      classes = classify(spec.datatype, raw, call.samples, output.classes);
      axes.varint(classes.size() / static_cast<std::size_t>(call.samples));
    } else {
      for (const std::int64_t axis : spec.shape) {
        axes.varint(static_cast<std::uint64_t>(axis == kVariableAxis ? call.extent : axis));
      }
    }
    ProtoWriter fields(tensor);
    fields.text(1, spec.name);
    fields.text(2, to_string(output.classes > 0 ? Datatype::bytes : spec.datatype));
    fields.text(3, shape);
    head.bytes(5, tensor);
    // On the wire BYTES elements have their length in front and no padding. Reserved for all, so that views of the
    // strings stay valid.
    if (converted_.empty()) converted_.reserve(call.outputs.size());
    if (output.classes > 0) {
      raw_.push_back(converted_.emplace_back(class_texts_to_wire(classes)));
    } else if (spec.datatype == Datatype::bytes) {
      raw_.push_back(converted_.emplace_back(slots_to_wire(raw)));
    } else {
      raw_.push_back(raw);
    }
  }
}

namespace {

std::size_t varint_bytes(std::uint64_t value) {
  std::size_t bytes = 1;
  while (value >>= 7) ++bytes;
  return bytes;
}

std::size_t field_bytes(std::size_t content) { return 1 + varint_bytes(content) + content; }

}  // namespace

std::size_t GrpcAnswer::bytes() const {
  std::size_t all = head_.size();
  for (const auto& raw : raw_) all += field_bytes(raw.size());
  return on_stream_ ? field_bytes(all) : all;
}

void GrpcAnswer::append_to(std::string& out) const {
  ProtoWriter fields(out);
  if (on_stream_) {
    std::size_t inner = head_.size();
    for (const auto& raw : raw_) inner += field_bytes(raw.size());
    fields.bytes_follow(2, inner);
  }
  out += head_;
  for (const auto& raw : raw_) fields.bytes(6, raw);
}

std::string grpc_stream_problem(std::string_view id, std::string_view problem) {
  std::string response;
  ProtoWriter(response).text(3, id);
  std::string out;
  ProtoWriter fields(out);
  fields.text(1, problem);
  fields.bytes(2, response);
  return out;
}

void write_metadata(const ServedModel& model, inference::ModelMetadataResponse& out) {
  out.set_name(model.name);
  out.add_versions(std::string(kModelVersion));
  out.set_platform(model.platform);
  describe_tensors(model.signature.inputs, [&] { return out.add_inputs(); });
  describe_tensors(model.signature.outputs, [&] { return out.add_outputs(); });
}

void write_config(const ServedModel& model, inference::ModelConfig& out) {
  out.set_name(model.name);
  out.set_platform(model.platform);
  out.set_backend("tangram");
  out.set_max_batch_size(model.samples_max);
  configure_tensors(model.signature.inputs, [&] { return out.add_input(); });
  // A mask that is not given is made.
  for (std::size_t i = 0; i < model.signature.inputs.size(); ++i) {
    out.mutable_input(static_cast<int>(i))->set_optional(model.signature.inputs[i].mask);
  }
  configure_tensors(model.signature.outputs, [&] { return out.add_output(); });
  // Only says that requests are batched: there are no settings.
  out.mutable_dynamic_batching();
}

// Mirrors statistics_of() in reports.cc. Input and output times are 0: copying is part of the run time.
void write_statistics(const ServedModel& model, const ServiceTally& tally, inference::ModelStatistics& out) {
  const std::uint64_t answered = tally.latency.count();
  out.set_name(model.name);
  out.set_version(std::string(kModelVersion));
  out.set_last_inference(static_cast<std::uint64_t>(tally.last_ms));
  out.set_inference_count(tally.samples);
  out.set_execution_count(tally.batches);
  auto* stats = out.mutable_inference_stats();
  set_duration(stats->mutable_success(), answered, tally.latency.sum_ns());
  // Rejected and failed requests, by OutcomeKind.
  set_duration(stats->mutable_fail(), tally.outcomes[2] + tally.outcomes[3],
               static_cast<std::int64_t>(tally.failed_ns));
  set_duration(stats->mutable_queue(), answered, tally.queue.sum_ns());
  set_duration(stats->mutable_compute_input(), answered, 0);
  set_duration(stats->mutable_compute_infer(), answered, tally.compute.sum_ns());
  set_duration(stats->mutable_compute_output(), answered, 0);
  set_duration(stats->mutable_cache_hit(), 0, 0);
  set_duration(stats->mutable_cache_miss(), 0, 0);
  for (const auto& [size, batch] : tally.by_batch_size) {
    auto* entry = out.add_batch_stats();
    entry->set_batch_size(static_cast<std::uint64_t>(size));
    set_duration(entry->mutable_compute_input(), batch.count, 0);
    set_duration(entry->mutable_compute_infer(), batch.count, batch.compute_ns);
    set_duration(entry->mutable_compute_output(), batch.count, 0);
  }
}

// Does what the server does with a message, without a server, for the fuzzer and tests.
std::optional<CallProblem> try_grpc_message(std::string_view bytes, const Gateway& gateway,
                                            const std::function<void(Call&)>& accepted) {
  GrpcInferRequest request;
  Call call;
  if (auto problem = request.read(bytes)) return problem;
  call.model = gateway.find_model(request.model_name);
  call.id = request.id;
  if (auto problem = read_grpc_request(request, {}, call)) return problem;
  // Another reader of the same message must understand the same, if it accepts it.
  inference::ModelInferRequest other;
  if (other.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    TANGRAM_CHECK(other.model_name() == call.model->name && other.id() == call.id, "both readers agree on the model");
    TANGRAM_CHECK(static_cast<std::size_t>(other.inputs_size()) == request.inputs.size(), "and on the inputs");
  }
  accepted(call);
  for (const bool on_stream : {false, true}) {
    const GrpcAnswer answer(call, on_stream);
    std::string message;
    answer.append_to(message);
    TANGRAM_CHECK(message.size() == answer.bytes(), "an answer is as long as was charged for it");
    // Reading the response back proves that it is a valid message, whatever the request held.
    inference::ModelInferResponse response;
    inference::ModelStreamInferResponse streamed;
    TANGRAM_CHECK(on_stream ? streamed.ParseFromString(message) : response.ParseFromString(message),
                  "a response is a message of the protocol");
    const auto& again = on_stream ? streamed.infer_response() : response;
    TANGRAM_CHECK(again.outputs_size() == static_cast<int>(call.outputs.size()), "every output that was asked for");
  }
  return std::nullopt;
}

}  // namespace tangram::serve

#endif
