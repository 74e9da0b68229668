// The open-loop load over gRPC: one channel, one thread, as many calls under way as are due. HTTP/2 multiplexes them,
// so there is no limit on connections and no queue of due requests.
//
// Invariant: calls_ owns every call that has not completed. Its key is the tag that the completion queue returns.

#include "client/detail/load_clients.h"

#ifdef TANGRAM_WITH_GRPC

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <map>
#include <memory>

#include "client/infer_message.h"
#include "host/socket.h"
#include "inference.grpc.pb.h"

namespace tangram::client {
namespace {

constexpr std::chrono::milliseconds kGrpcBreath{100};
constexpr std::chrono::seconds kConnectPatience{5};
// gRPC's default of 4 MiB is less than one batch of large output tensors.
constexpr int kGrpcAnswerMax = 256 << 20;

struct InferCall {
  std::size_t request = 0;
  grpc::ClientContext context;
  grpc::Status status;
  inference::ModelInferResponse answer;
  std::unique_ptr<grpc::ClientAsyncResponseReader<inference::ModelInferResponse>> reader;
};

using Stub = inference::GRPCInferenceService::Stub;

// With no authorities configured, gRPC uses its default root certificates.
std::shared_ptr<grpc::ChannelCredentials> load_credentials(const LoadConfig& config) {
  if (!config.tls) return grpc::InsecureChannelCredentials();
  return grpc::SslCredentials({config.tls->authorities, config.tls->key, config.tls->certificate});
}

Result<std::unique_ptr<Stub>> connect_load(const LoadConfig& config) {
  const std::string address = host::Endpoint{config.address, config.grpc_port}.text();
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kGrpcAnswerMax);
  // The name to check in the certificate where it is not the address.
  if (!config.server_name.empty()) arguments.SetSslTargetNameOverride(config.server_name);
  const auto channel = grpc::CreateCustomChannel(address, load_credentials(config), arguments);
  if (!channel->WaitForConnected(std::chrono::system_clock::now() + kConnectPatience)) {
    return Error{ErrorCode::unavailable, address + ": no gRPC server answers at this address"};
  }
  return inference::GRPCInferenceService::NewStub(channel);
}

// Adds "Name: value" as metadata. HTTP/2 requires names in lower case; gRPC rejects others.
void add_load_header(grpc::ClientContext& context, const std::string& header) {
  const auto colon = header.find(':');
  if (colon == std::string::npos) return;
  std::string name = header.substr(0, colon);
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  const auto value = header.find_first_not_of(' ', colon + 1);
  context.AddMetadata(name, value == std::string::npos ? "" : header.substr(value));
}

class GrpcLoad {
 public:
  explicit GrpcLoad(LoadTask& task) : task_(task) {}

  Result<Nothing> run() {
    TANGRAM_TRY(auto connected, connect_load(task_.config));
    stub_ = std::move(connected);
    while (!finished()) {
      send_due();
      wait();
    }
    stop();
    return Nothing{};
  }

 private:
  // True when every answer is in, on interruption, or when the last request has been due for longer than the timeout.
  bool finished() const {
    if (task_.interrupted()) return true;
    if (next_ < task_.mine.size()) return false;
    if (calls_.empty()) return true;
    return LoadClock::now() > task_.due(task_.mine.back()) + task_.config.answer_timeout;
  }

  void send_due() {
    while (next_ < task_.mine.size() && task_.due(task_.mine[next_]) <= LoadClock::now()) begin(task_.mine[next_++]);
  }

  void begin(std::size_t request) {
    auto call = std::make_unique<InferCall>();
    call->request = request;
    for (const auto& header : task_.config.headers) add_load_header(call->context, header);
    task_.answers[request].sent_after = task_.since_due(request);
    task_.answers[request].sent = true;
    call->reader = stub_->PrepareAsyncModelInfer(&call->context, message(request), &queue_);
    call->reader->StartCall();
    call->reader->Finish(&call->answer, &call->status, call.get());
    calls_.emplace(call.get(), std::move(call));
  }

  inference::ModelInferRequest message(std::size_t request) const {
    const LoadRequest& question = task_.requests[request];
    const LoadTarget& target = task_.targets[question.target];
    inference::ModelInferRequest message;
    message.set_model_name(target.model);
    message.set_id(std::to_string(request));
    // Raw contents are in the order of the inputs, as the protocol requires.
    for (const auto i : sent_inputs(target.signature)) {
      const TensorSpec& spec = target.signature.inputs[i];
      auto* input = message.add_inputs();
      input->set_name(spec.name);
      input->set_datatype(std::string(to_string(spec.datatype)));
      for (const auto axis : batched_shape(spec, question.samples, question.size)) input->add_shape(axis);
      message.add_raw_input_contents(task_.tensor(request, i));
    }
    return message;
  }

  void wait() {
    const auto soon = LoadClock::now() + kGrpcBreath;
    const auto due = next_ < task_.mine.size() ? std::min(task_.due(task_.mine[next_]), soon) : soon;
    // At least zero: AsyncNext then polls once, so a busy sender still collects answers.
    const auto pause = std::max(due - LoadClock::now(), LoadClock::duration::zero());
    // gRPC has its own clock type; a pause counted from now is the same on both clocks.
    const auto until = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(pause.count(), GPR_TIMESPAN));
    void* tag = nullptr;
    bool ok = false;
    if (queue_.AsyncNext(&tag, &ok, until) == grpc::CompletionQueue::GOT_EVENT) answered(tag);
  }

  void answered(void* tag) {
    const auto found = calls_.find(tag);
    if (found == calls_.end()) return;
    const InferCall& call = *found->second;
    LoadAnswer& answer = task_.answers[call.request];
    answer.latency = task_.since_due(call.request);
    // RESOURCE_EXHAUSTED is the gRPC form of HTTP's 429, a deliberate rejection.
    answer.outcome = call.status.ok()                                                   ? LoadOutcome::answered
                     : call.status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED ? LoadOutcome::refused
                                                                                        : LoadOutcome::failed;
    if (answer.outcome == LoadOutcome::failed && task_.first_failure.empty()) {
      task_.first_failure = call.status.error_message();
    }
    calls_.erase(found);
  }

  // Cancels the calls under way and drains the queue, which gRPC requires before the queue is destroyed.
  void stop() {
    for (const auto& [tag, call] : calls_) call->context.TryCancel();
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    // The calls stay in calls_ until here, because gRPC writes into them up to their completion.
    while (queue_.Next(&tag, &ok)) {
    }
  }

  LoadTask& task_;
  std::unique_ptr<Stub> stub_;
  grpc::CompletionQueue queue_;
  std::map<void*, std::unique_ptr<InferCall>> calls_;
  std::size_t next_ = 0;
};

}  // namespace

Result<Nothing> run_grpc_load(LoadTask& task) { return GrpcLoad(task).run(); }

Result<std::vector<TensorSpec>> ask_inputs_by_grpc(const LoadConfig& config, const std::string& model) {
  TANGRAM_TRY(const auto stub, connect_load(config));
  grpc::ClientContext context;
  // A server that accepts the connection and never answers must not block the command.
  context.set_deadline(std::chrono::system_clock::now() + kConnectPatience);
  for (const auto& header : config.headers) add_load_header(context, header);
  inference::ModelMetadataRequest question;
  question.set_name(model);
  inference::ModelMetadataResponse answer;
  const grpc::Status status = stub->ModelMetadata(&context, question, &answer);
  if (!status.ok()) {
    return Error{ErrorCode::not_found,
                 fmt::format("{}: the server does not have this model: {}", model, status.error_message())};
  }
  std::vector<TensorSpec> inputs;
  for (const auto& told : answer.inputs()) {
    const auto datatype = parse_datatype(told.datatype());
    if (!datatype || told.shape_size() == 0) {
      return Error{ErrorCode::invalid,
                   fmt::format("{}: the server describes an invalid input: {}", model, told.name())};
    }
    inputs.push_back({.name = told.name(), .datatype = *datatype, .shape = {}});
    // The first axis is the batch, which a TensorSpec does not include.
    inputs.back().shape.assign(told.shape().begin() + 1, told.shape().end());
  }
  return inputs;
}

}  // namespace tangram::client

#else

namespace tangram::client {

Result<Nothing> run_grpc_load(LoadTask&) {
  return Error{ErrorCode::unavailable, "this Tangram was built without gRPC"};
}

Result<std::vector<TensorSpec>> ask_inputs_by_grpc(const LoadConfig&, const std::string&) {
  return Error{ErrorCode::unavailable, "this Tangram was built without gRPC"};
}

}  // namespace tangram::client

#endif
