#include "client/load_schedule.h"

#include <fmt/format.h>

#include <algorithm>

namespace tangram::client {
namespace {

LoadRequest request_of(const LoadArrival& arrival, std::size_t target) {
  return {
      .at = arrival.at, .target = static_cast<std::uint32_t>(target), .size = arrival.size, .samples = arrival.samples};
}

}  // namespace

LoadMix parse_load_mix(std::string_view text) {
  if (text == "both") return LoadMix::both;
  return text == "grpc" ? LoadMix::grpc : LoadMix::http;
}

LoadProtocol protocol_of(LoadMix mix, std::size_t number) {
  if (mix == LoadMix::both) return number % 2 == 0 ? LoadProtocol::http : LoadProtocol::grpc;
  return mix == LoadMix::grpc ? LoadProtocol::grpc : LoadProtocol::http;
}

std::vector<LoadRequest> requests_at_once(std::span<const LoadArrivals> targets, std::size_t count) {
  std::vector<LoadRequest> requests;
  // Targets in a row that had no arrival; once it is all of them, there is no more.
  std::size_t ended = 0;
  for (std::size_t i = 0; requests.size() < count && ended < targets.size(); i = (i + 1) % targets.size()) {
    const auto arrival = targets[i]();
    ended = arrival ? 0 : ended + 1;
    if (!arrival) continue;
    requests.push_back(request_of(*arrival, i));
    requests.back().at = {};
  }
  return requests;
}

Result<std::vector<LoadRequest>> requests_as_due(std::span<const LoadArrivals> targets, LoadMix mix,
                                                 const OpenLoadLimits& limits) {
  std::vector<LoadRequest> requests;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    for (auto arrival = targets[i](); arrival && arrival->at < limits.length; arrival = targets[i]()) {
      if (requests.size() == limits.requests_max) {
        return Error{ErrorCode::exhausted, fmt::format("more than {} requests; shorten the run", limits.requests_max)};
      }
      requests.push_back(request_of(*arrival, i));
    }
  }
  // Stable, so that equal instants keep the order of the targets and the same seed sends the same requests.
  std::ranges::stable_sort(requests, {}, &LoadRequest::at);
  for (std::size_t i = 0; i < requests.size(); ++i) requests[i].protocol = protocol_of(mix, i);
  return requests;
}

}  // namespace tangram::client
