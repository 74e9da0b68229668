// Merges the arrivals of several targets into one list of requests, a pure function of the arrivals and the mix.
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
  // Alternate rather than draw: both protocols get equal shares in every part of the run.
  if (mix == LoadMix::both) return number % 2 == 0 ? LoadProtocol::http : LoadProtocol::grpc;
  return mix == LoadMix::grpc ? LoadProtocol::grpc : LoadProtocol::http;
}

// Takes one arrival from each target in turn, so that `count` is shared evenly, and makes all of them due at once.
std::vector<LoadRequest> requests_at_once(std::span<const LoadArrivals> targets, std::size_t count) {
  std::vector<LoadRequest> requests;
  // Consecutive targets without an arrival; when it reaches their number, all arrivals are used up.
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
      // An error rather than a shorter run: a silently truncated load would be measured as a lighter one.
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
