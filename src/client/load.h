// Load for a server of the Open Inference Protocol: an open loop, as many clients make it.
//
// Requests go out at the instants that were planned for them, whatever became of those before: a server that falls
// behind meets the same load as one that does not. Latency counts from the planned instant, so that a client that is
// late itself, or has no connection left, does not flatter the server.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "core/tensor.h"
#include "host/tls.h"

namespace tangram::client {

enum class LoadProtocol : std::uint8_t { http, grpc };

struct LoadTarget {
  std::string model;    // As the server calls it.
  Signature signature;  // Masks are left to the server.
};

struct LoadRequest {
  Duration at{};             // After the beginning, ascending.
  std::uint32_t target = 0;  // Into the targets.
  std::int64_t size = 1;     // Length of the variable axes.
  std::int32_t samples = 1;
  LoadProtocol protocol = LoadProtocol::http;
};

// How a request ended, in the words of either protocol.
enum class LoadOutcome : std::uint8_t {
  answered,
  refused,     // 429, RESOURCE_EXHAUSTED: it could not have been in time.
  failed,      // Any other answer, or none because the connection broke.
  unanswered,  // Nothing within the time that an answer may take, or before the end.
};

struct LoadAnswer {
  LoadOutcome outcome = LoadOutcome::unanswered;
  Duration latency{};     // From the planned instant to the last byte of the answer.
  Duration sent_after{};  // The planned instant: how late this client was.
  bool sent = false;      // False only where the run was interrupted before.
};

struct LoadConfig {
  std::string address = "127.0.0.1";
  std::uint16_t http_port = 8000;
  std::uint16_t grpc_port = 8001;
  std::size_t connections_max = 512;  // HTTP; a request that finds none free waits for one. Requests
                                      // that are all due at once make a closed loop of as many clients.
  Duration answer_timeout = std::chrono::seconds(30);   // After the last request.
  std::uint64_t seed = 1;                               // Of what the tensors hold.
  std::vector<std::string> headers = {};                // "Name: value", with every request.
  std::optional<host::TlsMaterial> tls = {};            // Nothing: plain.
  std::string server_name = {};                         // Whose certificate it must be; empty: the address.
  std::function<void(std::size_t sent)> progress = {};  // Called between events.
  std::function<bool()> interrupted = {};               // True: send no more and come back.
};

struct LoadResult {
  std::vector<LoadAnswer> answers;  // By request.
  std::string first_failure;        // What the first failed request was told.
};

// Asks the server over gRPC what the model takes. The first axis of each input counts samples and is left out. Errors:
// no server, the server does not know the model or its answer is invalid, or gRPC was not built in.
Result<std::vector<TensorSpec>> ask_inputs_by_grpc(const LoadConfig& config, const std::string& model);

// Sends all requests and waits for their answers. Errors: no server, or gRPC is asked for and was not built in.
Result<LoadResult> run_load(std::span<const LoadTarget> targets, std::span<const LoadRequest> requests,
                            const LoadConfig& config);

}  // namespace tangram::client
