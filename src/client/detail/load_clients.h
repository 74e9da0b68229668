// The two halves of run_load. Each sends the requests of its protocol and fills in their answers.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "base/rng.h"
#include "client/load.h"

namespace tangram::client {

using LoadClock = std::chrono::steady_clock;

// What both need. Answers are written to places that no one else writes to.
struct LoadTask {
  std::span<const LoadTarget> targets;
  std::span<const LoadRequest> requests;
  std::vector<std::size_t> mine;  // Indices of the requests of this protocol, ascending.
  const LoadConfig& config;
  LoadClock::time_point begin;
  std::span<LoadAnswer> answers;
  std::string first_failure = {};

  LoadClock::time_point due(std::size_t request) const { return begin + requests[request].at; }
  Duration since_due(std::size_t request) const { return LoadClock::now() - due(request); }
  // The tensor of one input of a request, the same for a seed.
  std::string tensor(std::size_t request, std::size_t input) const;
  bool interrupted() const { return config.interrupted && config.interrupted(); }
};

// Which inputs a client sends: all but masks, which the server makes.
std::vector<std::size_t> sent_inputs(const Signature& signature);

Result<Nothing> run_http_load(LoadTask& task);
Result<Nothing> run_grpc_load(LoadTask& task);

}  // namespace tangram::client
