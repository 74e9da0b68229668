// The same over gRPC: one channel, one thread, as many calls under way as were due.

#include "serve/detail/load_clients.h"

#ifdef TANGRAM_WITH_GRPC

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <map>
#include <memory>

#include "inference.grpc.pb.h"

namespace tangram::serve {
namespace {

constexpr std::chrono::milliseconds kGrpcBreath{100};
constexpr std::chrono::seconds kConnectPatience{5};
constexpr int kGrpcAnswerMax = 256 << 20;

struct InferCall {
  std::size_t request = 0;
  grpc::ClientContext context;
  grpc::Status status;
  inference::ModelInferResponse answer;
  std::unique_ptr<grpc::ClientAsyncResponseReader<inference::ModelInferResponse>> reader;
};

class GrpcLoad {
 public:
  explicit GrpcLoad(LoadTask& task) : task_(task) {}

  Result<Nothing> run() {
    const std::string address = fmt::format("{}:{}", task_.config.address, task_.config.grpc_port);
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(kGrpcAnswerMax);
    if (!task_.config.server_name.empty()) arguments.SetSslTargetNameOverride(task_.config.server_name);
    const auto channel = grpc::CreateCustomChannel(address, credentials(), arguments);
    if (!channel->WaitForConnected(std::chrono::system_clock::now() + kConnectPatience)) {
      return Error{ErrorCode::unavailable, address + ": no gRPC server answers"};
    }
    stub_ = inference::GRPCInferenceService::NewStub(channel);
    while (!finished()) {
      send_due();
      wait();
    }
    stop();
    return Nothing{};
  }

 private:
  // Without authorities of its own, gRPC trusts those that it knows.
  std::shared_ptr<grpc::ChannelCredentials> credentials() const {
    if (!task_.config.tls) return grpc::InsecureChannelCredentials();
    const TlsMaterial& material = *task_.config.tls;
    return grpc::SslCredentials({material.authorities, material.key, material.certificate});
  }

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
    for (const auto& header : task_.config.headers) add_header(call->context, header);
    task_.answers[request].sent_after = task_.since_due(request);
    task_.answers[request].sent = true;
    call->reader = stub_->PrepareAsyncModelInfer(&call->context, message(request), &queue_);
    call->reader->StartCall();
    call->reader->Finish(&call->answer, &call->status, call.get());
    calls_.emplace(call.get(), std::move(call));
  }

  // Names of metadata are in lower case.
  static void add_header(grpc::ClientContext& context, const std::string& header) {
    const auto colon = header.find(':');
    if (colon == std::string::npos) return;
    std::string name = header.substr(0, colon);
    for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    const auto value = header.find_first_not_of(' ', colon + 1);
    context.AddMetadata(name, value == std::string::npos ? "" : header.substr(value));
  }

  inference::ModelInferRequest message(std::size_t request) const {
    const LoadRequest& question = task_.requests[request];
    const LoadTarget& target = task_.targets[question.target];
    inference::ModelInferRequest message;
    message.set_model_name(target.model);
    message.set_id(std::to_string(request));
    for (const auto i : sent_inputs(target.signature)) {
      const TensorSpec& spec = target.signature.inputs[i];
      auto* input = message.add_inputs();
      input->set_name(spec.name);
      input->set_datatype(std::string(to_string(spec.datatype)));
      for (const auto axis : sent_shape(spec, question)) input->add_shape(axis);
      message.add_raw_input_contents(task_.tensor(request, i));
    }
    return message;
  }

  void wait() {
    const auto soon = LoadClock::now() + kGrpcBreath;
    const auto due = next_ < task_.mine.size() ? std::min(task_.due(task_.mine[next_]), soon) : soon;
    const auto pause = std::max(due - LoadClock::now(), LoadClock::duration::zero());
    // gRPC takes a wall clock or its own; a pause from now is the same on each.
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
    answer.outcome = call.status.ok()                                                   ? LoadOutcome::answered
                     : call.status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED ? LoadOutcome::refused
                                                                                        : LoadOutcome::failed;
    if (answer.outcome == LoadOutcome::failed && task_.first_failure.empty()) {
      task_.first_failure = call.status.error_message();
    }
    calls_.erase(found);
  }

  // What is still under way is given up; the queue must be empty before it goes.
  void stop() {
    for (const auto& [tag, call] : calls_) call->context.TryCancel();
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  LoadTask& task_;
  std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
  grpc::CompletionQueue queue_;
  std::map<void*, std::unique_ptr<InferCall>> calls_;
  std::size_t next_ = 0;
};

}  // namespace

Result<Nothing> run_grpc_load(LoadTask& task) { return GrpcLoad(task).run(); }

}  // namespace tangram::serve

#else

namespace tangram::serve {

Result<Nothing> run_grpc_load(LoadTask&) {
  return Error{ErrorCode::unavailable, "this Tangram was built without gRPC"};
}

}  // namespace tangram::serve

#endif
