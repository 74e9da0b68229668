#include "node/offers.h"

#include <fmt/format.h>

#include <algorithm>

#include "adapters/cpu_host/core_share.h"
#include "adapters/nvml/nvml.h"
#include "base/text.h"
#include "core/geometry.h"
#include "core/layout.h"
#include "recut/live_gpus.h"

namespace tangram::node {
namespace {

std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const auto end = std::min(text.find(','), text.size());
    if (const auto part = text::trim(text.substr(0, end)); !part.empty()) parts.push_back(part);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

// Whether any device type has a MigProfile of this name.
bool is_profile(std::string_view name) {
  return std::ranges::any_of(known_geometries(), [&](const Geometry& geometry) {
    return std::ranges::find(geometry.profiles, name, &MigProfile::name) != geometry.profiles.end();
  });
}

// The slice of this GPU with that UUID, as the table of its type names it.
std::optional<OfferedSlice> slice_with(const Geometry& geometry, const adapters::DriverGpu& gpu, std::string_view uuid) {
  const auto known = adapters::recognise_layout(geometry, gpu);
  for (const auto& slice : known.layout.slices) {
    if (adapters::find_mig_uuid(geometry, gpu, slice) == uuid) {
      return OfferedSlice{std::string(uuid), geometry.profiles[slice.profile].name, slice.start};
    }
  }
  return std::nullopt;
}

}  // namespace

Result<OfferedBoard> parse_slices(std::string_view text) {
  OfferedBoard board;
  for (const auto part : parts_of(text)) {
    std::string_view profile = part;
    std::string id;
    std::int64_t count = 1;
    if (part.starts_with("MIG-")) {
      const auto colon = part.rfind(':');
      if (colon != std::string_view::npos) id = std::string(part.substr(0, colon));
      profile = colon == std::string_view::npos ? "" : part.substr(colon + 1);
    } else if (const auto times = part.find('x'); times != std::string_view::npos) {
      count = text::parse_integer(part.substr(0, times)).value_or(0);
      profile = part.substr(times + 1);
    }
    if (count < 1 || board.slices.size() + static_cast<std::size_t>(count) > kOfferedSlicesMax) {
      return Error{ErrorCode::invalid, fmt::format("--slices {}: expected 1 to {} slices", text, kOfferedSlicesMax)};
    }
    if (!is_profile(profile)) {
      return Error{ErrorCode::invalid,
                   fmt::format("--slices {}: expected slices such as 2x1g.10gb,3g.40gb or MIG-UUID:1g.10gb; no device "
                               "type has a profile \"{}\"",
                               text, profile)};
    }
    for (std::int64_t n = 0; n < count; ++n) {
      board.slices.push_back({id.empty() ? std::to_string(board.slices.size()) : id, std::string(profile), -1});
    }
  }
  if (board.slices.empty()) return Error{ErrorCode::invalid, "--slices names no slice"};
  return board;
}

Result<OfferedBoard> parse_device(std::string_view text) {
  const auto equals = text.find('=');
  OfferedBoard board;
  if (equals != std::string_view::npos) board.name = std::string(text.substr(0, equals));
  board.type = std::string(equals == std::string_view::npos ? text : text.substr(equals + 1));
  board.whole = true;
  if (find_geometry(board.type) == nullptr || (equals != std::string_view::npos && board.name.empty())) {
    return Error{ErrorCode::invalid,
                 fmt::format("--device {}: expected TYPE or NAME=TYPE, such as rack1-0=a100-80gb", text)};
  }
  return board;
}

OfferedBoard host_board() {
  OfferedBoard board;
  board.type = "cpu";
  board.cores = static_cast<int>(adapters::usable_cores().size());
  board.whole = true;
  return board;
}

Result<std::vector<OfferedBoard>> mig_boards(std::string_view visible_devices) {
  std::vector<OfferedBoard> boards;
  std::vector<std::string_view> uuids;
  for (const auto part : parts_of(visible_devices)) {
    if (part.starts_with("MIG-")) uuids.push_back(part);
  }
  if (uuids.empty()) return boards;
  const auto driver = adapters::probe_nvml(recut::nvml_library());
  for (const auto uuid : uuids) {
    bool found = false;
    for (const auto& gpu : driver.gpus) {
      const Geometry* geometry = recut::geometry_of(gpu);
      const auto slice = geometry == nullptr ? std::nullopt : slice_with(*geometry, gpu, uuid);
      if (!slice) continue;
      found = true;
      // One board for each GPU, so that its type is known.
      auto board = std::ranges::find_if(boards, [&](const OfferedBoard& b) { return b.type == geometry->type; });
      if (board == boards.end()) {
        boards.push_back({.name = "", .type = geometry->type, .cores = 0, .whole = false, .slices = {}});
        board = boards.end() - 1;
      }
      board->slices.push_back(*slice);
      break;
    }
    if (!found) {
      return Error{ErrorCode::not_found,
                   fmt::format("CUDA_VISIBLE_DEVICES has {}, which the driver does not list{}{}: say what it is with "
                               "--slices {}:PROFILE",
                               uuid, driver.problem.empty() ? "" : ": ", driver.problem, uuid)};
    }
  }
  return boards;
}

}  // namespace tangram::node
