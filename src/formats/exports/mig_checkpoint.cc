// A checkpoint of nvidia-mig-parted: what its `restore` puts back, with the place of every slice.
//
// Profiles are numbered as the driver's library (NVML) enumerates them, which is not the id that nvidia-smi prints. The
// devices of a node are in the order of their indices, because mig-parted compares them one by one with those it finds.

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "formats/exports/exports.h"

namespace tangram::formats::exports {
namespace {

// NVML_GPU_INSTANCE_PROFILE_*, by compute slices; -1 where NVML has none. They are not in order: 7 slices are 4, 8 are
// 5 and 6 are 6, as in nvml.h.
constexpr int kPlain[] = {-1, 0, 1, 2, 3, -1, 6, 4, 5};
constexpr int kWithMedia[] = {-1, 7, 8};  // 1_SLICE_REV1, 2_SLICE_REV1
constexpr int kDoubleMemory = 9;          // 1_SLICE_REV2
constexpr int kGraphics[] = {-1, 10, 11, 17, 12};
constexpr int kNoMedia[] = {-1, 13, 14};
constexpr int kAllMedia[] = {-1, 15, 16};
// NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE_REV1
constexpr int kComputeDoubleMemory = 7;

template <std::size_t N>
int at(const int (&table)[N], int compute_slices) {
  const bool known = compute_slices >= 0 && static_cast<std::size_t>(compute_slices) < N;
  return known ? table[compute_slices] : -1;
}

// The number of the profile in NVML, or -1 if it is not known. check() refuses the latter before anything is written.
int profile_number(const MigProfile& profile) {
  const int slices = profile.compute_slices;
  switch (profile.family) {
    case ProfileFamily::plain: return at(kPlain, slices);
    case ProfileFamily::double_memory: return slices == 1 ? kDoubleMemory : -1;
    case ProfileFamily::media: return at(kWithMedia, slices);
    case ProfileFamily::special: break;
  }
  if (profile.name.ends_with("+gfx")) return at(kGraphics, slices);
  if (profile.name.ends_with("-me")) return at(kNoMedia, slices);
  return profile.name.ends_with("+me.all") ? at(kAllMedia, slices) : -1;
}

// From Hopper on, a double-memory slice has more multiprocessors than the plain profile of the same size, and only this
// compute profile uses them all. Where both have the same number, as on Ampere, the plain one is right.
int compute_number(const Geometry& geometry, const MigProfile& profile) {
  if (profile.family != ProfileFamily::double_memory) return at(kPlain, profile.compute_slices);
  for (const auto& other : geometry.profiles) {
    const bool sibling = other.family == ProfileFamily::plain && other.compute_slices == profile.compute_slices;
    if (sibling && other.sm_count.evidence != Evidence::unknown && other.sm_count == profile.sm_count) return 0;
  }
  return kComputeDoubleMemory;
}

Node slice_node(const Geometry& geometry, const Slice& slice) {
  const MigProfile& profile = geometry.profiles[slice.profile];
  const Node compute =
      map_node({{"ProfileID", number_node(compute_number(geometry, profile))}, {"EngProfileID", number_node(0)}});
  return map_node({{"ProfileID", number_node(profile_number(profile))},
                   {"Placement", map_node({{"Start", number_node(slice.start)}, {"Size", number_node(profile.units)}})},
                   {"ComputeInstances", list_node({compute})}});
}

// In the order in which NVML lists instances, by the number of the profile. Equal profiles keep the order of their
// starts.
std::vector<Slice> sorted_slices(const PlannedDevice& device) {
  std::vector<Slice> slices = layout_of(device).slices;
  std::ranges::stable_sort(slices, {},
                           [&](const Slice& slice) { return profile_number(device.geometry.profiles[slice.profile]); });
  return slices;
}

Node device_node(const PlannedDevice& device, const std::string& uuid) {
  std::vector<Node> slices;
  for (const auto& slice : sorted_slices(device)) slices.push_back(slice_node(device.geometry, slice));
  // mig-parted writes an absent list as null.
  return map_node({{"UUID", text_node(uuid)},
                   {"MigMode", number_node(1)},
                   {"GpuInstances", slices.empty() ? Node{} : list_node(std::move(slices))}});
}

// A device may be named by its UUID in the plan; otherwise the options give it. Empty if neither does.
std::string uuid_of(const ExportInput& input, const PlannedDevice& device) {
  if (device.name.starts_with("GPU-")) return device.name;
  const auto found = input.options.uuids.find(device.name);
  return found == input.options.uuids.end() ? "" : found->second;
}

Result<Nothing> check(const ExportInput& input, const std::vector<ClusterNode>& nodes) {
  std::vector<std::string> without;
  for (const auto& node : nodes) {
    for (const auto& seat : node.seats) {
      if (uuid_of(input, *seat.device).empty()) without.push_back(seat.device->name);
      for (const auto& slice : seat.device->slices) {
        const MigProfile& profile = seat.device->geometry.profiles[slice.slice.profile];
        if (profile_number(profile) >= 0) continue;
        return Error{ErrorCode::invalid, fmt::format("{}: the profile id of {} in the driver's library is not known",
                                                     seat.device->name, profile.name)};
      }
    }
  }
  if (without.empty()) return Nothing{};
  return Error{
      ErrorCode::invalid,
      fmt::format(
          "a checkpoint names GPUs by UUID, which is missing for {}; give --uuid NAME=GPU-... as nvidia-smi -L prints it",
          text::join(without, ", "))};
}

std::string checkpoint_text(const ExportInput& input, const ClusterNode& node) {
  std::vector<Node> devices;
  for (const auto& seat : node.seats) devices.push_back(device_node(*seat.device, uuid_of(input, *seat.device)));
  const Node state = map_node({{"Devices", list_node(std::move(devices))}});
  return to_json(map_node({{"Version", text_node("v1")}, {"MigState", state}})) + "\n";
}

}  // namespace

Result<Export> mig_checkpoint(const ExportInput& input) {
  Export result;
  TANGRAM_TRY(const auto nodes, nodes_of(input, result.notes));
  TANGRAM_RETURN_IF_ERROR(check(input, nodes));
  for (const auto& node : nodes) {
    result.files.push_back({node.name + ".json", checkpoint_text(input, node)});
    // Indices ascend and are unique, so the last one tells whether any GPU of the node is missing.
    if (node.seats.back().index + 1 == static_cast<int>(node.seats.size())) continue;
    result.notes.push_back(fmt::format(
        "{}: mig-parted compares the GPUs of a node in order, but the plan does not include all of them", node.name));
  }
  return result;
}

}  // namespace tangram::formats::exports
