// The peer and the load of the gRPC benchmark.
//
//   grpc_peer echo PORT                    answers every ModelInfer with one number, on one thread, and does nothing
//   else grpc_peer load TARGET SECONDS MODEL    asks with 64 requests under way on one channel, prints "requests/s
//   p50_us p99_us"
//
// The echo is what gRPC itself costs: an async server with one completion queue, the fastest form that its C++ library
// has. Both send and take tensors of 512 bytes raw.

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "inference.grpc.pb.h"

namespace {

using Clock = std::chrono::steady_clock;
using Service = inference::GRPCInferenceService::AsyncService;
constexpr int kOutstanding = 64;

// One call of the echo; posts its successor and deletes itself.
struct Echo {
  Echo(Service& s, grpc::ServerCompletionQueue* q) : service(s), queue(q), writer(&context) {
    service.RequestModelInfer(&context, &request, &writer, queue, queue, this);
  }
  void proceed(bool ok) {
    if (done || !ok) {
      delete this;
      return;
    }
    new Echo(service, queue);
    response.set_model_name(request.model_name());
    response.set_id(request.id());
    auto* output = response.add_outputs();
    output->set_name("OUTPUT");
    output->set_datatype("FP32");
    output->add_shape(1);
    output->add_shape(1);
    response.add_raw_output_contents("abcd", 4);
    done = true;
    writer.Finish(response, grpc::Status::OK, this);
  }

  Service& service;
  grpc::ServerCompletionQueue* queue;
  grpc::ServerContext context;
  inference::ModelInferRequest request;
  inference::ModelInferResponse response;
  grpc::ServerAsyncResponseWriter<inference::ModelInferResponse> writer;
  bool done = false;
};

int echo(const char* port) {
  Service service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(std::string("127.0.0.1:") + port, grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  const auto queue = builder.AddCompletionQueue();
  const auto server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  for (int i = 0; i < kOutstanding; ++i) new Echo(service, queue.get());
  void* tag = nullptr;
  bool ok = false;
  while (queue->Next(&tag, &ok)) static_cast<Echo*>(tag)->proceed(ok);
  return 0;
}

inference::ModelInferRequest question(const char* model) {
  inference::ModelInferRequest request;
  request.set_model_name(model);
  request.set_id("1");
  auto* input = request.add_inputs();
  input->set_name("INPUT");
  input->set_datatype("FP32");
  input->add_shape(1);
  input->add_shape(128);
  const std::vector<float> numbers(128, 1.0f);
  request.add_raw_input_contents(numbers.data(), numbers.size() * sizeof(float));
  return request;
}

struct Asked {
  grpc::ClientContext context;
  inference::ModelInferResponse response;
  grpc::Status status;
  std::unique_ptr<grpc::ClientAsyncResponseReader<inference::ModelInferResponse>> reader;
  Clock::time_point began;
};

int load(const char* target, double seconds, const char* model) {
  const auto stub =
      inference::GRPCInferenceService::NewStub(grpc::CreateChannel(target, grpc::InsecureChannelCredentials()));
  grpc::CompletionQueue queue;
  const inference::ModelInferRequest request = question(model);
  const auto ask = [&] {
    auto* asked = new Asked;
    asked->began = Clock::now();
    asked->reader = stub->AsyncModelInfer(&asked->context, request, &queue);
    asked->reader->Finish(&asked->response, &asked->status, asked);
  };
  for (int i = 0; i < kOutstanding; ++i) ask();
  const auto begin = Clock::now();
  const auto end = begin + std::chrono::duration<double>(seconds);
  std::vector<double> latencies_us;
  int open = kOutstanding;
  void* tag = nullptr;
  bool ok = false;
  while (open > 0 && queue.Next(&tag, &ok)) {
    const std::unique_ptr<Asked> asked(static_cast<Asked*>(tag));
    const auto now = Clock::now();
    if (!asked->status.ok() || asked->response.raw_output_contents_size() != 1) {
      std::fprintf(stderr, "wrong answer: %s\n", asked->status.error_message().c_str());
      return 1;
    }
    latencies_us.push_back(std::chrono::duration<double, std::micro>(now - asked->began).count());
    if (now < end) {
      ask();
    } else {
      --open;
    }
  }
  const double took = std::chrono::duration<double>(Clock::now() - begin).count();
  std::sort(latencies_us.begin(), latencies_us.end());
  const auto at = [&](double q) {
    return latencies_us[static_cast<std::size_t>(q * static_cast<double>(latencies_us.size() - 1))];
  };
  std::printf("%.0f %.0f %.0f\n", static_cast<double>(latencies_us.size()) / took, at(0.5), at(0.99));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "echo") == 0) return echo(argv[2]);
  if (argc == 5 && std::strcmp(argv[1], "load") == 0) return load(argv[2], std::atof(argv[3]), argv[4]);
  std::fprintf(stderr, "usage: grpc_peer echo PORT | load TARGET SECONDS MODEL\n");
  return 2;
}
