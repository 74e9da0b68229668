#include "serve/grpc_server.h"

#ifndef TANGRAM_WITH_GRPC

namespace tangram::serve {

bool has_grpc() { return false; }

Result<std::unique_ptr<GrpcServer>> make_grpc_server(const GrpcConfig&, Gateway&, LiveWorld&) {
  return Error{ErrorCode::unavailable, "this program was built without gRPC"};
}

std::optional<CallProblem> try_grpc_message(std::string_view, const Gateway&, const std::function<void(Call&)>&) {
  return CallProblem{CallStatus::unsupported, "this program was built without gRPC"};
}

}  // namespace tangram::serve

#else

#include <fmt/format.h>
#include <grpc/grpc_security.h>
#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

#include "base/check.h"
#include "core/bytes_slot.h"
#include "inference.grpc.pb.h"
#include "serve/grpc_health.h"
#include "serve/grpc_tag.h"

namespace tangram::serve {
namespace {

using GrpcService = inference::GRPCInferenceService::AsyncService;

// Calls that wait for clients, of each method of each thread. gRPC hands out the next only when one is posted.
constexpr int kInferWaiting = 64;
// Events that are handled before the world is woken for the calls that they brought.
constexpr int kTogether = 32;

grpc::StatusCode code_of(CallStatus status) {
  switch (status) {
    case CallStatus::ok: return grpc::StatusCode::OK;
    case CallStatus::invalid: return grpc::StatusCode::INVALID_ARGUMENT;
    case CallStatus::not_found: return grpc::StatusCode::NOT_FOUND;
    case CallStatus::refused: return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case CallStatus::unavailable: return grpc::StatusCode::UNAVAILABLE;
    case CallStatus::failed: return grpc::StatusCode::INTERNAL;
    case CallStatus::unsupported: return grpc::StatusCode::UNIMPLEMENTED;
    case CallStatus::unauthenticated: return grpc::StatusCode::UNAUTHENTICATED;
    case CallStatus::forbidden: return grpc::StatusCode::PERMISSION_DENIED;
  }
  return grpc::StatusCode::INTERNAL;
}

CallProblem unknown_model(const std::string& name) {
  return {CallStatus::not_found, fmt::format("Request for unknown model: '{}' is not found", name)};
}

// What all handlers see.
struct Shared {
  Gateway& gateway;
  LiveWorld& world;
  GrpcService service;
  host::LiveClock clock;
};

// ---- TLS ----

// Server credentials whose certificates can be replaced. gRPC's C++ classes have no such thing, its C core has: it asks
// before every handshake whether there are others.
class ReplaceableCredentials final : public grpc::ServerCredentials {
 public:
  explicit ReplaceableCredentials(host::TlsMaterial material) : material_(std::move(material)) {
    const auto wanted = material_.authorities.empty() ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                                      : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
    auto* options = grpc_ssl_server_credentials_create_options_using_config_fetcher(wanted, fetch, this);
    credentials_ = grpc_ssl_server_credentials_create_with_options(options);
  }
  ~ReplaceableCredentials() override { grpc_server_credentials_release(credentials_); }

  void replace(const host::TlsMaterial& material) {
    const std::lock_guard lock(mutex_);
    material_ = material;
    fetched_ = false;
  }
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  static grpc_ssl_certificate_config_reload_status fetch(void* self, grpc_ssl_server_certificate_config** config) {
    auto& credentials = *static_cast<ReplaceableCredentials*>(self);
    const std::lock_guard lock(credentials.mutex_);
    if (std::exchange(credentials.fetched_, true)) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const host::TlsMaterial& material = credentials.material_;
    const grpc_ssl_pem_key_cert_pair pair{material.key.c_str(), material.certificate.c_str()};
    // gRPC insists on roots, even where it asks clients for nothing.
    const std::string& roots = material.authorities.empty() ? material.certificate : material.authorities;
    *config = grpc_ssl_server_certificate_config_create(roots.c_str(), &pair, 1);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  std::mutex mutex_;
  host::TlsMaterial material_;
  bool fetched_ = false;
  grpc_server_credentials* credentials_ = nullptr;
};

template <typename Repeated, typename T>
void append_all(const Repeated& values, std::string& out) {
  for (const auto value : values) {
    const T element = static_cast<T>(value);
    out.append(reinterpret_cast<const char*>(&element), sizeof element);
  }
}

// Typed contents as the bytes of the tensor.
void append_contents(const inference::InferTensorContents& c, Datatype datatype, std::string& out) {
  switch (datatype) {
    case Datatype::boolean: return append_all<decltype(c.bool_contents()), std::uint8_t>(c.bool_contents(), out);
    case Datatype::int8: return append_all<decltype(c.int_contents()), std::int8_t>(c.int_contents(), out);
    case Datatype::int16: return append_all<decltype(c.int_contents()), std::int16_t>(c.int_contents(), out);
    case Datatype::int32: return append_all<decltype(c.int_contents()), std::int32_t>(c.int_contents(), out);
    case Datatype::int64: return append_all<decltype(c.int64_contents()), std::int64_t>(c.int64_contents(), out);
    case Datatype::uint8: return append_all<decltype(c.uint_contents()), std::uint8_t>(c.uint_contents(), out);
    case Datatype::uint16: return append_all<decltype(c.uint_contents()), std::uint16_t>(c.uint_contents(), out);
    case Datatype::uint32: return append_all<decltype(c.uint_contents()), std::uint32_t>(c.uint_contents(), out);
    case Datatype::uint64: return append_all<decltype(c.uint64_contents()), std::uint64_t>(c.uint64_contents(), out);
    case Datatype::fp32: return append_all<decltype(c.fp32_contents()), float>(c.fp32_contents(), out);
    case Datatype::fp64: return append_all<decltype(c.fp64_contents()), double>(c.fp64_contents(), out);
    case Datatype::fp16:
    case Datatype::bf16:
    case Datatype::bytes: return;  // FP16 and BF16 have no typed contents; BYTES may not fit, see append_input.
  }
}

// The bytes of one input, where they are not used as they came. What is wrong with them, in words.
std::optional<std::string> append_input(const inference::ModelInferRequest& request, int index, std::string& out) {
  const auto& input = request.inputs(index);
  const auto datatype = parse_datatype(input.datatype());
  const bool raw = request.raw_input_contents_size() > 0;
  if (!datatype) return std::nullopt;
  if (*datatype != Datatype::bytes) {
    if (!raw) append_contents(input.contents(), *datatype, out);
    return std::nullopt;
  }
  if (raw) return wire_to_slots(request.raw_input_contents(index), out);
  for (const auto& element : input.contents().bytes_contents()) {
    if (!append_bytes_slot(element, out)) return fmt::format("an element is longer than {} bytes", kBytesElementMax);
  }
  return std::nullopt;
}

ParameterValue value_of(const inference::InferParameter& parameter) {
  switch (parameter.parameter_choice_case()) {
    case inference::InferParameter::kBoolParam: return ParameterValue::of(parameter.bool_param());
    case inference::InferParameter::kInt64Param:
      return ParameterValue::of(static_cast<double>(parameter.int64_param()));
    case inference::InferParameter::kUint64Param:
      return ParameterValue::of(static_cast<double>(parameter.uint64_param()));
    case inference::InferParameter::kDoubleParam: return ParameterValue::of(parameter.double_param());
    case inference::InferParameter::kStringParam: return ParameterValue::of_text(parameter.string_param());
    default: return ParameterValue::of_other("nothing");
  }
}

// What the parameters of the request and of its tensors say.
std::optional<CallProblem> read_grpc_parameters(const inference::ModelInferRequest& request, Call& call,
                                                std::optional<std::int64_t>& input_size) {
  for (const auto& [name, parameter] : request.parameters()) {
    if (auto problem = apply_parameter(name, value_of(parameter), call, input_size)) return problem;
  }
  for (const auto& input : request.inputs()) {
    for (const auto& [name, parameter] : input.parameters()) {
      if (auto problem = check_input_parameter(name)) return problem;
    }
  }
  for (const auto& output : request.outputs()) {
    for (const auto& [name, parameter] : output.parameters()) {
      if (auto problem = check_output_parameter(name, value_of(parameter))) return problem;
    }
  }
  return std::nullopt;
}

// Fills in the call, whose tensors then point into the request.
std::optional<CallProblem> read_request(const inference::ModelInferRequest& request, const InferHeaders& headers,
                                        const Gateway& gateway, Call& call) {
  call.model = gateway.find_model(request.model_name());
  const std::string& version = request.model_version();
  if (call.model == nullptr || (!version.empty() && version != kModelVersion))
    return unknown_model(request.model_name());
  call.id = request.id();
  std::optional<std::int64_t> input_size;
  if (auto problem = read_headers(headers, call, input_size)) return problem;
  if (auto problem = read_grpc_parameters(request, call, input_size)) return problem;
  const bool raw = request.raw_input_contents_size() > 0;
  if (raw && request.raw_input_contents_size() != request.inputs_size()) {
    return CallProblem{CallStatus::invalid, fmt::format("expected {} raw inputs, got {}", request.inputs_size(),
                                                        request.raw_input_contents_size())};
  }
  std::vector<GivenInput> given;
  std::vector<std::size_t> ends;
  for (const auto& input : request.inputs()) {
    const auto datatype = parse_datatype(input.datatype());
    if (raw && input.has_contents()) {
      return CallProblem{CallStatus::invalid, fmt::format("input '{}' has both raw and typed contents", input.name())};
    }
    if (const auto problem = append_input(request, static_cast<int>(ends.size()), call.converted)) {
      return CallProblem{CallStatus::invalid, fmt::format("input '{}': {}", input.name(), *problem)};
    }
    ends.push_back(call.converted.size());
    given.push_back({input.name(),
                     datatype,
                     input.datatype(),
                     input.shape().data(),
                     static_cast<std::size_t>(input.shape_size()),
                     {}});
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::size_t begin = i == 0 ? 0 : ends[i - 1];
    const bool as_it_came = raw && given[i].datatype != Datatype::bytes;
    given[i].data = as_it_came ? std::string_view(request.raw_input_contents(static_cast<int>(i)))
                               : std::string_view(call.converted).substr(begin, ends[i] - begin);
  }
  if (auto problem = accept_inputs(given, input_size, call)) return problem;
  if (request.outputs_size() == 0) request_all_outputs(true, call);
  for (const auto& output : request.outputs()) {
    if (auto problem = request_output(output.name(), true, call)) return problem;
  }
  return std::nullopt;
}

// Outputs travel raw, as Triton's do.
void write_response(const Call& call, inference::ModelInferResponse& response) {
  response.set_model_name(call.model->name);
  response.set_model_version(std::string(kModelVersion));
  response.set_id(call.id);
  for (const auto& output : call.outputs) {
    const TensorSpec& spec = call.model->signature.outputs[output.index];
    auto* tensor = response.add_outputs();
    tensor->set_name(spec.name);
    tensor->set_datatype(std::string(to_string(spec.datatype)));
    tensor->add_shape(call.samples);
    for (const std::int64_t axis : spec.shape) tensor->add_shape(axis == kVariableAxis ? call.extent : axis);
    const std::string_view raw = raw_output(call, output.index);
    if (spec.datatype == Datatype::bytes) {
      response.add_raw_output_contents(slots_to_wire(raw));
    } else {
      response.add_raw_output_contents(raw.data(), raw.size());
    }
  }
}

// ---- Who calls ----

// What two readers could understand differently is refused, as over HTTP.
bool has_several(const grpc::ServerContext& context, const char* name) {
  return context.client_metadata().count(name) > 1;
}

std::string_view metadata_of(const grpc::ServerContext& context, const char* name) {
  const auto found = context.client_metadata().find(name);
  if (found == context.client_metadata().end()) return {};
  return {found->second.data(), found->second.size()};
}

// Names of a client certificate that was found good.
std::vector<std::string> peer_names(const grpc::ServerContext& context) {
  const auto peer = context.auth_context();
  if (peer == nullptr || !peer->IsPeerAuthenticated()) return {};
  const auto shown = peer->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  if (shown.empty()) return {};
  return host::certificate_names(std::string(shown.front().data(), shown.front().size()));
}

// Who calls, while the call begins.
struct Caller {
  std::shared_ptr<const AccessTable> table = {};
  const TenantRule* tenant = nullptr;  // Of the table. Null: nobody is asked, or it is not known.
  AccessTime time = {};
};

// Why the caller may not, or nothing. With `call` it is an inference request, which is then one of the tenant's in
// flight.
std::optional<AccessDenial> why_denied(Shared& shared, const grpc::ServerContext& context, AccessNeed need,
                                       const ServedModel* model, Call* call, Caller& caller) {
  Access& access = shared.gateway.access;
  if (!access.on() || need == AccessNeed::nothing) return std::nullopt;
  for (const char* name : {"authorization", "x-api-key"}) {
    if (has_several(context, name))
      return AccessDenial{CallStatus::invalid, fmt::format("several {} fields", name), {}};
  }
  caller.table = access.table();
  Credentials shown{metadata_of(context, "authorization"), metadata_of(context, "x-api-key"), {}};
  std::vector<std::string> names;
  if (shown.authorization.empty() && shown.api_key.empty()) shown.certificate_names = names = peer_names(context);
  caller.time.wall_s = std::chrono::system_clock::now().time_since_epoch() / std::chrono::seconds(1);
  AccessDenial denial;
  caller.tenant = caller.table->identify(shown, caller.time.wall_s, denial.message);
  if (caller.tenant == nullptr) {
    access.unauthenticated.fetch_add(1, std::memory_order_relaxed);
    return denial;
  }
  if (auto forbidden = why_forbidden(*caller.tenant, need, model)) return forbidden;
  if (call == nullptr) return std::nullopt;
  caller.time.now = shared.clock.now();
  if (auto refused = begin_request(*caller.tenant, caller.time)) return refused;
  call->tenant_state = caller.tenant->state;
  call->tenant = caller.tenant->state->id;
  return std::nullopt;
}

void end_tenant(Call& call) {
  if (call.tenant_state != nullptr) end_request(*std::exchange(call.tenant_state, nullptr));
}

// The trace that the call belongs to comes back with the answer, as over HTTP.
void take_trace(const grpc::ServerContext& context, Call& call) {
  const auto trace = metadata_of(context, "traceparent");
  if (is_traceparent(trace)) call.traceparent = trace;
}

// Our own fields, which mean what they do over HTTP.
InferHeaders headers_of(const grpc::ServerContext& context) {
  const auto field = [&](const char* name) -> std::optional<std::string_view> {
    if (context.client_metadata().count(name) == 0) return std::nullopt;
    return has_several(context, name) ? "several values" : metadata_of(context, name);
  };
  InferHeaders headers;
  headers.deadline_ms = field("tangram-deadline-ms");
  headers.input_size = field("tangram-input-size");
  headers.background = field("tangram-background");
  return headers;
}

// Everything that comes before the world: who calls, how much, and whether the request makes sense. Answers why it does
// not get there, which is counted and logged; then it is none of the tenant's in flight.
std::optional<AccessDenial> why_refused(Shared& shared, const grpc::ServerContext& context,
                                        const inference::ModelInferRequest& request, Call& call) {
  const ServedModel* model = shared.gateway.find_model(request.model_name());
  Caller caller;
  take_trace(context, call);
  auto denial = why_denied(shared, context, AccessNeed::client, model, &call, caller);
  if (!denial) {
    if (auto problem = read_request(request, headers_of(context), shared.gateway, call)) {
      denial = AccessDenial{problem->status, std::move(problem->message), {}};
    } else if (caller.tenant != nullptr) {
      denial = use_quota(*caller.tenant, caller.time);
    }
  }
  if (!denial) return std::nullopt;
  end_tenant(call);
  RefusedRequest refused{refusal_of(*denial), http_status(denial->status), denial->message, model};
  refused.id = request.id();
  if (caller.tenant != nullptr) refused.tenant = caller.tenant->said.name;
  refused.traceparent = call.traceparent;
  shared.gateway.tell_of_refused(refused);
  return denial;
}

// When a client may try again, as gRPC's own retries understand it.
void tell_retry(grpc::ServerContext& context, Duration after) {
  if (after <= Duration::zero()) return;
  context.AddTrailingMetadata("grpc-retry-pushback-ms", fmt::format("{:.0f}", std::ceil(to_milliseconds(after))));
}

// One call of a method that asks once and is answered once. It posts its successor, and deletes itself.
template <typename Request, typename Response>
class Unary : public GrpcTag, public CallOwner {
 public:
  using Post = void (GrpcService::*)(grpc::ServerContext*, Request*, grpc::ServerAsyncResponseWriter<Response>*,
                                     grpc::CompletionQueue*, grpc::ServerCompletionQueue*, void*);
  // Answers at once (true), or posts `call` to the world and is asked again when it is answered.
  using Begin = bool (*)(Unary& rpc);
  using End = void (*)(Unary& rpc);

  Unary(Shared& s, grpc::ServerCompletionQueue* queue, Post post, Begin begin, End end)
      : shared(s), queue_(queue), post_(post), begin_(begin), end_(end), writer_(&context) {
    call.owner = this;
    (shared.service.*post_)(&context, &request, &writer_, queue_, queue_, static_cast<GrpcTag*>(this));
  }

  void on_event(bool ok) override {
    if (finished_ || !ok) {
      delete this;
      return;
    }
    new Unary(shared, queue_, post_, begin_, end_);
    if (begin_(*this)) finish();
  }

  // On the world's thread.
  void on_answered(Call*) override {
    end_tenant(call);
    if (call.status != CallStatus::ok) {
      tell_retry(context, call.retry_after);
      fail(call.status, call.error);
    } else if (end_ != nullptr) {
      end_(*this);
    }
    finish();
  }

  bool fail(CallStatus code, const std::string& message) {
    status = grpc::Status(code_of(code), message);
    return true;
  }
  // False if the caller may not ask this; the call has failed then.
  bool allowed(AccessNeed need, const ServedModel* model = nullptr) {
    Caller caller;
    const auto denial = why_denied(shared, context, need, model, nullptr, caller);
    if (denial) fail(denial->status, denial->message);
    return !denial;
  }
  bool ask(std::function<void(LiveWorld&, Call&)> control) {
    call.control = std::move(control);
    shared.world.post(&call, false);
    return false;
  }

  Shared& shared;
  grpc::ServerContext context;
  Request request;
  Response response;
  grpc::Status status;
  Call call;

 private:
  void finish() {
    finished_ = true;
    if (status.ok()) {
      writer_.Finish(response, status, static_cast<GrpcTag*>(this));
    } else {
      writer_.FinishWithError(status, static_cast<GrpcTag*>(this));
    }
  }

  grpc::ServerCompletionQueue* queue_;
  Post post_;
  Begin begin_;
  End end_;
  grpc::ServerAsyncResponseWriter<Response> writer_;
  bool finished_ = false;
};

using Infer = Unary<inference::ModelInferRequest, inference::ModelInferResponse>;

bool begin_infer(Infer& rpc) {
  if (const auto refused = why_refused(rpc.shared, rpc.context, rpc.request, rpc.call)) {
    tell_retry(rpc.context, refused->retry_after);
    return rpc.fail(refused->status, refused->message);
  }
  if (!rpc.call.traceparent.empty()) rpc.context.AddInitialMetadata("traceparent", rpc.call.traceparent);
  rpc.shared.world.post(&rpc.call, false);
  return false;
}

void end_infer(Infer& rpc) { write_response(rpc.call, rpc.response); }

// A stream of requests, each answered in its turn: the next is read when the one before has been written.
class StreamInfer final : public GrpcTag, public CallOwner {
 public:
  StreamInfer(Shared& shared, grpc::ServerCompletionQueue* queue) : shared_(shared), queue_(queue), stream_(&context_) {
    call_.owner = this;
    shared_.service.RequestModelStreamInfer(&context_, &stream_, queue_, queue_, static_cast<GrpcTag*>(this));
  }

  void on_event(bool ok) override {
    switch (step_) {
      case Step::waiting:
        if (!ok) return destroy();
        new StreamInfer(shared_, queue_);
        return begin();
      case Step::reading:
        if (!ok) return end();  // The client has said everything.
        return answer();
      case Step::writing:
        if (!ok) return end();
        return read();
      case Step::ending: return destroy();
    }
  }

  void on_answered(Call*) override {
    end_tenant(call_);
    if (call_.status == CallStatus::ok) {
      write_response(call_, *response_.mutable_infer_response());
    } else {
      response_.set_error_message(call_.error);
      response_.mutable_infer_response()->set_id(call_.id);
    }
    write();
  }

 private:
  enum class Step : std::uint8_t { waiting, reading, writing, ending };

  void begin() {
    Caller caller;
    const auto denial = why_denied(shared_, context_, AccessNeed::client, nullptr, nullptr, caller);
    if (!denial) return read();
    shared_.gateway.tell_of_refused({refusal_of(*denial), http_status(denial->status), denial->message, nullptr});
    end(grpc::Status(code_of(denial->status), denial->message));
  }
  void read() {
    step_ = Step::reading;
    request_.Clear();
    stream_.Read(&request_, static_cast<GrpcTag*>(this));
  }
  void answer() {
    response_.Clear();
    call_.clear();
    step_ = Step::writing;
    // Asked for each message: a key that is taken back while the stream is open is of no use any more.
    if (const auto refused = why_refused(shared_, context_, request_, call_)) {
      if (refused->status != CallStatus::unauthenticated) return write_problem(refused->message);
      return end(grpc::Status(code_of(refused->status), refused->message));
    }
    shared_.world.post(&call_, false);
  }
  void write_problem(const std::string& message) {
    response_.set_error_message(message);
    response_.mutable_infer_response()->set_id(request_.id());
    write();
  }
  void write() { stream_.Write(response_, static_cast<GrpcTag*>(this)); }
  void end(const grpc::Status& status = grpc::Status::OK) {
    step_ = Step::ending;
    stream_.Finish(status, static_cast<GrpcTag*>(this));
  }
  void destroy() { delete this; }

  Shared& shared_;
  grpc::ServerCompletionQueue* queue_;
  grpc::ServerContext context_;
  grpc::ServerAsyncReaderWriter<inference::ModelStreamInferResponse, inference::ModelInferRequest> stream_;
  inference::ModelInferRequest request_;
  inference::ModelStreamInferResponse response_;
  Call call_;
  Step step_ = Step::waiting;
};

using Live = Unary<inference::ServerLiveRequest, inference::ServerLiveResponse>;
using Ready = Unary<inference::ServerReadyRequest, inference::ServerReadyResponse>;
using ModelReady = Unary<inference::ModelReadyRequest, inference::ModelReadyResponse>;
using Metadata = Unary<inference::ServerMetadataRequest, inference::ServerMetadataResponse>;
using ModelMetadata = Unary<inference::ModelMetadataRequest, inference::ModelMetadataResponse>;
using ConfigCall = Unary<inference::ModelConfigRequest, inference::ModelConfigResponse>;
using Statistics = Unary<inference::ModelStatisticsRequest, inference::ModelStatisticsResponse>;
using Index = Unary<inference::RepositoryIndexRequest, inference::RepositoryIndexResponse>;
using Load = Unary<inference::RepositoryModelLoadRequest, inference::RepositoryModelLoadResponse>;
using Unload = Unary<inference::RepositoryModelUnloadRequest, inference::RepositoryModelUnloadResponse>;

bool begin_live(Live& rpc) {
  rpc.response.set_live(true);
  return true;
}

bool begin_ready(Ready& rpc) {
  rpc.response.set_ready(rpc.shared.gateway.ready());
  return true;
}

bool begin_model_ready(ModelReady& rpc) {
  const ServedModel* model = rpc.shared.gateway.find_model(rpc.request.name());
  if (!rpc.allowed(AccessNeed::client, model)) return true;
  if (model == nullptr) return true;
  return rpc.ask([&rpc, model](LiveWorld& world, Call&) {
    rpc.response.set_ready(world.why_not_ready(model->service).empty() && !rpc.shared.gateway.draining());
  });
}

bool begin_metadata(Metadata& rpc) {
  if (!rpc.allowed(AccessNeed::client)) return true;
  rpc.response.set_name("tangram");
  rpc.response.set_version(rpc.shared.gateway.version());
  for (const auto& name : kExtensionNames) rpc.response.add_extensions(std::string(name));
  return true;
}

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

bool begin_model_metadata(ModelMetadata& rpc) {
  const ServedModel* model = rpc.shared.gateway.find_model(rpc.request.name());
  if (!rpc.allowed(AccessNeed::client, model)) return true;
  if (model == nullptr) return rpc.fail(CallStatus::not_found, unknown_model(rpc.request.name()).message);
  rpc.response.set_name(model->name);
  rpc.response.add_versions(std::string(kModelVersion));
  rpc.response.set_platform(model->platform);
  describe_tensors(model->signature.inputs, [&] { return rpc.response.add_inputs(); });
  describe_tensors(model->signature.outputs, [&] { return rpc.response.add_outputs(); });
  return true;
}

inference::DataType data_type(Datatype datatype) {
  inference::DataType type = inference::TYPE_INVALID;
  inference::DataType_Parse("TYPE_" + (datatype == Datatype::bytes ? "STRING" : std::string(to_string(datatype))),
                            &type);
  return type;
}

template <typename Add>
void configure_tensors(const std::vector<TensorSpec>& specs, Add&& add) {
  for (const auto& spec : specs) {
    auto* tensor = add();
    tensor->set_name(spec.name);
    tensor->set_data_type(data_type(spec.datatype));
    for (const std::int64_t axis : spec.shape) tensor->add_dims(axis);
  }
}

// The same as over HTTP.
bool begin_model_config(ConfigCall& rpc) {
  const ServedModel* model = rpc.shared.gateway.find_model(rpc.request.name());
  if (!rpc.allowed(AccessNeed::client, model)) return true;
  if (model == nullptr) return rpc.fail(CallStatus::not_found, unknown_model(rpc.request.name()).message);
  inference::ModelConfig& config = *rpc.response.mutable_config();
  config.set_name(model->name);
  config.set_platform(model->platform);
  config.set_backend("tangram");
  config.set_max_batch_size(model->samples_max);
  configure_tensors(model->signature.inputs, [&] { return config.add_input(); });
  configure_tensors(model->signature.outputs, [&] { return config.add_output(); });
  config.mutable_dynamic_batching();
  return true;
}

void set(inference::StatisticDuration* stat, std::uint64_t count, std::int64_t ns) {
  stat->set_count(count);
  stat->set_ns(static_cast<std::uint64_t>(ns));
}

void fill_statistics(const ServedModel& model, const ServiceTally& tally, inference::ModelStatistics& out) {
  const std::uint64_t answered = tally.latency.count();
  out.set_name(model.name);
  out.set_version(std::string(kModelVersion));
  out.set_last_inference(static_cast<std::uint64_t>(tally.last_ms));
  out.set_inference_count(tally.samples);
  out.set_execution_count(tally.batches);
  auto* stats = out.mutable_inference_stats();
  set(stats->mutable_success(), answered, tally.latency.sum_ns());
  set(stats->mutable_fail(), tally.outcomes[2] + tally.outcomes[3], static_cast<std::int64_t>(tally.failed_ns));
  set(stats->mutable_queue(), answered, tally.queue.sum_ns());
  set(stats->mutable_compute_input(), answered, 0);
  set(stats->mutable_compute_infer(), answered, tally.compute.sum_ns());
  set(stats->mutable_compute_output(), answered, 0);
  set(stats->mutable_cache_hit(), 0, 0);
  set(stats->mutable_cache_miss(), 0, 0);
  for (const auto& [size, batch] : tally.by_batch_size) {
    auto* entry = out.add_batch_stats();
    entry->set_batch_size(static_cast<std::uint64_t>(size));
    set(entry->mutable_compute_input(), batch.count, 0);
    set(entry->mutable_compute_infer(), batch.count, batch.compute_ns);
    set(entry->mutable_compute_output(), batch.count, 0);
  }
}

bool begin_statistics(Statistics& rpc) {
  const std::string& name = rpc.request.name();
  const ServedModel* only = rpc.shared.gateway.find_model(name);
  if (!rpc.allowed(name.empty() ? AccessNeed::every_model : AccessNeed::client, only)) return true;
  if (!name.empty() && only == nullptr) return rpc.fail(CallStatus::not_found, unknown_model(name).message);
  return rpc.ask([&rpc, only](LiveWorld& world, Call&) {
    for (std::size_t i = 0; i < world.models().size(); ++i) {
      if (only != nullptr && only != &world.models()[i]) continue;
      fill_statistics(world.models()[i], world.service_tallies()[i], *rpc.response.add_model_stats());
    }
  });
}

bool begin_index(Index& rpc) {
  if (!rpc.allowed(AccessNeed::every_model)) return true;
  return rpc.ask([&rpc](LiveWorld& world, Call&) {
    for (const auto& model : world.models()) {
      const std::string why_not = world.why_not_ready(model.service);
      if (rpc.request.ready() && !why_not.empty()) continue;
      auto* entry = rpc.response.add_models();
      entry->set_name(model.name);
      entry->set_version(std::string(kModelVersion));
      entry->set_state(why_not.empty() ? "READY" : "UNAVAILABLE");
      entry->set_reason(why_not);
    }
  });
}

template <typename Rpc, bool load>
bool begin_loading(Rpc& rpc) {
  if (!rpc.allowed(AccessNeed::admin)) return true;
  const ServedModel* model = rpc.shared.gateway.find_model(rpc.request.model_name());
  if (model == nullptr) return rpc.fail(CallStatus::invalid, "no such service in the services file");
  return rpc.ask([model](LiveWorld& world, Call&) { world.set_loaded(model->service, load); });
}

class GrpcServerImpl final : public GrpcServer {
 public:
  GrpcServerImpl(Gateway& gateway, LiveWorld& world, const host::LiveClock& clock) : shared_{gateway, world, {}, clock} {}

  Result<Nothing> start(const GrpcConfig& config) {
    // gRPC writes a line of its own to standard error for each handshake that fails, so any stranger could fill the
    // log, which holds lines of JSON. What matters comes back as a status.
    gpr_set_log_function([](gpr_log_func_args*) {});
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    grpc::ServerBuilder builder;
    const bool v6 = config.address.find(':') != std::string::npos;
    int bound = 0;
    std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
    if (config.tls) credentials = credentials_ = std::make_shared<ReplaceableCredentials>(*config.tls);
    builder.AddListeningPort(fmt::format("{}{}{}:{}", v6 ? "[" : "", config.address, v6 ? "]" : "", config.port),
                             credentials, &bound);
    set_limits(config, builder);
    builder.RegisterService(&shared_.service);
    builder.RegisterService(health_.service());
    for (int i = 0; i < config.threads; ++i) queues_.push_back(builder.AddCompletionQueue());
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || bound == 0) {
      for (auto& queue : queues_) drain_queue(*queue);
      queues_.clear();
      return Error{ErrorCode::unavailable,
                   fmt::format("cannot listen at {} port {} for gRPC", config.address, config.port)};
    }
    port_ = static_cast<std::uint16_t>(bound);
    for (auto& queue : queues_) {
      post_all(queue.get());
      health_.post(queue.get());
      threads_.emplace_back([this, q = queue.get()] { run(*q); });
    }
    return Nothing{};
  }

  ~GrpcServerImpl() override {
    if (!server_) return;
    if (!draining_.joinable()) server_->Shutdown(std::chrono::system_clock::now());
    if (draining_.joinable()) draining_.join();
    for (auto& queue : queues_) queue->Shutdown();
    for (auto& thread : threads_) thread.join();
  }

  std::uint16_t port() const override { return port_; }
  void set_serving(bool serving) override { health_.set_serving(serving); }

  void set_tls(const host::TlsMaterial& material) override {
    if (credentials_) credentials_->replace(material);
  }

  void drain(Duration grace) override {
    health_.end();
    const auto deadline =
        std::chrono::system_clock::now() + std::chrono::duration_cast<std::chrono::milliseconds>(grace);
    draining_ = std::thread([this, deadline] { server_->Shutdown(deadline); });
  }

 private:
  using Queue = grpc::ServerCompletionQueue;
  // A client that says nothing is asked whether it is there, and one that does not answer is let go; so is one that
  // asks for nothing, whose library connects again when it does. The number of connections cannot be bounded: this gRPC
  // has no such argument, and its own acceptors (ExternalConnectionAcceptor) are not told when a connection ends.
  static void set_limits(const GrpcConfig& config, grpc::ServerBuilder& builder) {
    const auto milliseconds = [](Duration d) { return static_cast<int>(d / std::chrono::milliseconds(1)); };
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, config.streams_max);
    builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE,
                               static_cast<int>(std::min<std::uint64_t>(config.head_max, INT32_MAX)));
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, milliseconds(config.grace));
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, milliseconds(config.idle));
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 60'000);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
    builder.SetMaxReceiveMessageSize(static_cast<int>(std::min<std::uint64_t>(config.message_max, INT32_MAX)));
    builder.SetMaxSendMessageSize(INT32_MAX);
    grpc::ResourceQuota quota("tangram");
    quota.Resize(static_cast<std::size_t>(config.memory_max));
    builder.SetResourceQuota(quota);
  }

  void post_all(grpc::ServerCompletionQueue* queue) {
    for (int i = 0; i < kInferWaiting; ++i) {
      new Infer(shared_, queue, &GrpcService::RequestModelInfer, begin_infer, end_infer);
    }
    new StreamInfer(shared_, queue);
    new Live(shared_, queue, &GrpcService::RequestServerLive, begin_live, nullptr);
    new Ready(shared_, queue, &GrpcService::RequestServerReady, begin_ready, nullptr);
    new ModelReady(shared_, queue, &GrpcService::RequestModelReady, begin_model_ready, nullptr);
    new Metadata(shared_, queue, &GrpcService::RequestServerMetadata, begin_metadata, nullptr);
    new ModelMetadata(shared_, queue, &GrpcService::RequestModelMetadata, begin_model_metadata, nullptr);
    new ConfigCall(shared_, queue, &GrpcService::RequestModelConfig, begin_model_config, nullptr);
    new Statistics(shared_, queue, &GrpcService::RequestModelStatistics, begin_statistics, nullptr);
    new Index(shared_, queue, &GrpcService::RequestRepositoryIndex, begin_index, nullptr);
    new Load(shared_, queue, &GrpcService::RequestRepositoryModelLoad, begin_loading<Load, true>, nullptr);
    new Unload(shared_, queue, &GrpcService::RequestRepositoryModelUnload, begin_loading<Unload, false>, nullptr);
  }

  // What has come together goes to the world together: waking it can cost more than a call.
  void run(grpc::ServerCompletionQueue& queue) {
    void* tag = nullptr;
    bool ok = false;
    while (queue.Next(&tag, &ok)) {
      static_cast<GrpcTag*>(tag)->on_event(ok);
      const auto at_once = gpr_inf_past(GPR_CLOCK_MONOTONIC);
      for (int i = 1; i < kTogether && queue.AsyncNext(&tag, &ok, at_once) == Queue::GOT_EVENT; ++i) {
        static_cast<GrpcTag*>(tag)->on_event(ok);
      }
      shared_.world.wake_for_posted();
    }
  }

  static void drain_queue(grpc::ServerCompletionQueue& queue) {
    queue.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue.Next(&tag, &ok)) {
    }
  }

  Shared shared_;
  HealthService health_{"inference.GRPCInferenceService"};
  std::shared_ptr<ReplaceableCredentials> credentials_;  // Null: plain.
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues_;
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::thread> threads_;
  std::thread draining_;
  std::uint16_t port_ = 0;
};

}  // namespace

bool has_grpc() { return true; }

std::optional<CallProblem> try_grpc_message(std::string_view bytes, const Gateway& gateway,
                                            const std::function<void(Call&)>& accepted) {
  inference::ModelInferRequest request;
  if (!request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return CallProblem{CallStatus::invalid, "not a message of the protocol"};
  }
  Call call;
  if (auto problem = read_request(request, {}, gateway, call)) return problem;
  accepted(call);
  inference::ModelInferResponse response;
  write_response(call, response);
  inference::ModelInferResponse again;
  TANGRAM_CHECK(again.ParseFromString(response.SerializeAsString()), "a response is a message of the protocol");
  TANGRAM_CHECK(again.outputs_size() == static_cast<int>(call.outputs.size()), "every output that was asked for");
  return std::nullopt;
}

Result<std::unique_ptr<GrpcServer>> make_grpc_server(const GrpcConfig& config, Gateway& gateway, LiveWorld& world) {
  auto server = std::make_unique<GrpcServerImpl>(gateway, world, config.clock);
  if (const auto started = server->start(config); !started) return started.error();
  return std::unique_ptr<GrpcServer>(std::move(server));
}

}  // namespace tangram::serve

#endif
