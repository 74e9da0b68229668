// Sends a schedule of requests over HTTP and gRPC at once, one thread per protocol.
//
// Invariant: each request belongs to one protocol, so the two threads write disjoint elements of `answers` and need no
// lock. Both share one begin time, so the schedule holds across protocols.
#include "client/load.h"

#include <thread>

#include "client/detail/load_clients.h"
#include "core/sample_tensors.h"

namespace tangram::client {
namespace {

std::vector<std::size_t> requests_of(std::span<const LoadRequest> requests, LoadProtocol protocol) {
  std::vector<std::size_t> mine;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (requests[i].protocol == protocol) mine.push_back(i);
  }
  return mine;
}

// Time to open the first connections before the first request is due; otherwise its latency would include them.
constexpr std::chrono::milliseconds kHeadStart{50};

}  // namespace

std::string LoadTask::tensor(std::size_t request, std::size_t input) const {
  const LoadRequest& question = requests[request];
  const TensorSpec& spec = targets[question.target].signature.inputs[input];
  std::string bytes(static_cast<std::size_t>(bytes_of(spec, question.size).value_or(0) * question.samples), '\0');
  // A stream per request: its tensors do not depend on the order in which the two threads send.
  Rng rng = Rng(config.seed).stream("tensors", request);
  fill_sample(spec, std::as_writable_bytes(std::span(bytes)), rng);
  return bytes;
}

std::vector<std::size_t> sent_inputs(const Signature& signature) {
  std::vector<std::size_t> sent;
  for (std::size_t i = 0; i < signature.inputs.size(); ++i) {
    // The server fills in masks itself.
    if (!signature.inputs[i].mask) sent.push_back(i);
  }
  return sent;
}

Result<LoadResult> run_load(std::span<const LoadTarget> targets, std::span<const LoadRequest> requests,
                            const LoadConfig& config) {
  LoadResult result;
  result.answers.resize(requests.size());
  const auto begin = LoadClock::now() + kHeadStart;
  LoadTask http{targets, requests, requests_of(requests, LoadProtocol::http), config, begin, result.answers};
  LoadTask grpc{targets, requests, requests_of(requests, LoadProtocol::grpc), config, begin, result.answers};
  Result<Nothing> grpc_done = Nothing{};
  std::jthread other([&] {
    if (!grpc.mine.empty()) grpc_done = run_grpc_load(grpc);
  });
  const Result<Nothing> http_done = run_http_load(http);
  other.join();
  if (!http_done) return http_done.error();
  if (!grpc_done) return grpc_done.error();
  result.first_failure = http.first_failure.empty() ? grpc.first_failure : http.first_failure;
  return result;
}

}  // namespace tangram::client
