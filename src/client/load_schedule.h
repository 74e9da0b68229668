// Which requests a load run sends, and when.
//
// Arrivals come from the caller as values, so that a load run sends what the simulator would have seen with the same
// seed, and this room does not see the simulator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "client/load.h"

namespace tangram::client {

struct LoadArrival {
  Duration at{};  // After the beginning, ascending.
  std::int64_t size = 1;
  std::int32_t samples = 1;
};

// The arrivals of one target, one a call; nothing once there are no more.
using LoadArrivals = std::function<std::optional<LoadArrival>()>;

// Which protocol requests use: one, or HTTP and gRPC in turn.
enum class LoadMix : std::uint8_t { http, grpc, both };

// "http", "grpc" or "both"; anything else is http, because options are checked where they are read.
LoadMix parse_load_mix(std::string_view text);
// Of the request with this number; in a mix of both, every other request goes by gRPC.
LoadProtocol protocol_of(LoadMix mix, std::size_t number);

// For a closed loop: sizes as they would arrive, all due at once, targets in turn, HTTP alone. A target without further
// arrivals is passed over; there are fewer than `count` requests once none has any.
std::vector<LoadRequest> requests_at_once(std::span<const LoadArrivals> targets, std::size_t count);

struct OpenLoadLimits {
  Duration length{};             // Arrivals at or behind it are not sent.
  std::size_t requests_max = 0;  // Error: more than that arrive.
};

// For an open loop: the arrivals of all targets in order of time; at the same instant the earlier target comes first.
Result<std::vector<LoadRequest>> requests_as_due(std::span<const LoadArrivals> targets, LoadMix mix,
                                                 const OpenLoadLimits& limits);

}  // namespace tangram::client
