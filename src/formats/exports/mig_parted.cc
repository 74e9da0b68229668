// The configuration file of nvidia-mig-parted.
//
// It has `version: v1`, and under `mig-configs` a list of entries for each label. An entry says which GPUs of a node it
// applies to and how many slices of each profile they have; it cannot say where. GPUs that no entry names keep their
// state.

#include <fmt/format.h>

#include <algorithm>

#include "formats/exports/exports.h"

namespace tangram::formats::exports {
namespace {

constexpr unsigned kVendorNvidia = 0x10DE;

// GPUs of one type with the same multiset of profiles. They share an entry, since the file cannot tell their places
// apart.
struct Group {
  const PlannedDevice* device = nullptr;
  std::vector<int> indices;
};

std::vector<Group> groups_of(const ClusterNode& node) {
  std::vector<Group> groups;
  for (const auto& seat : node.seats) {
    const auto same = std::ranges::find_if(groups, [&](const Group& group) {
      const PlannedDevice& other = *group.device;
      return other.type == seat.device->type && multiset_of(other.geometry, layout_of(other)) ==
                                                    multiset_of(seat.device->geometry, layout_of(*seat.device));
    });
    if (same == groups.end())
      groups.push_back({seat.device, {seat.index}});
    else
      same->indices.push_back(seat.index);
  }
  return groups;
}

// The PCI ids of all boards of the type and of those that are cut alike, so that a layout is not applied to a board of
// another type at the same index. An H100 PCIe is cut as an H100 SXM, for example.
Node device_filter(const Geometry& geometry) {
  std::vector<Node> ids;
  for (const auto& list : {geometry.pci_ids, geometry.pci_ids_alike}) {
    for (const auto id : list) ids.push_back(text_node(fmt::format("0x{:04X}{:04X}", id, kVendorNvidia)));
  }
  return list_node(std::move(ids));
}

Node counts(const PlannedDevice& device) {
  std::vector<std::pair<std::string, Node>> entries;
  const Multiset multiset = multiset_of(device.geometry, layout_of(device));
  for (std::size_t i = multiset.size(); i-- > 0;) {
    if (multiset[i] > 0) entries.emplace_back(device.geometry.profiles[i].name, number_node(multiset[i]));
  }
  return map_node(std::move(entries));
}

Node entry(const Group& group) {
  std::vector<Node> indices;
  for (const int index : group.indices) indices.push_back(number_node(index));
  std::vector<std::pair<std::string, Node>> fields;
  if (!group.device->geometry.pci_ids.empty()) {
    fields.emplace_back("device-filter", device_filter(group.device->geometry));
  }
  fields.emplace_back("devices", list_node(std::move(indices)));
  fields.emplace_back("mig-enabled", plain_node("true"));
  fields.emplace_back("mig-devices", counts(*group.device));
  return map_node(std::move(fields));
}

}  // namespace

std::string mig_parted_text(const ExportInput& input, const std::vector<ClusterNode>& nodes, bool all_disabled) {
  std::vector<std::pair<std::string, Node>> labels;
  if (all_disabled) {
    const Node off = map_node({{"devices", text_node("all")}, {"mig-enabled", plain_node("false")}});
    labels.emplace_back("all-disabled", list_node({off}));
  }
  for (const auto& node : nodes) {
    std::vector<Node> entries;
    for (const auto& group : groups_of(node)) entries.push_back(entry(group));
    labels.emplace_back(layout_label(input, node), list_node(std::move(entries)));
  }
  return to_yaml(map_node({{"version", text_node("v1")}, {"mig-configs", map_node(std::move(labels))}}));
}

Result<Export> mig_parted(const ExportInput& input) {
  Export result;
  TANGRAM_TRY(const auto nodes, nodes_of(input, result.notes));
  result.files.push_back({"mig-parted.yaml", mig_parted_text(input, nodes)});
  result.notes.emplace_back(
      "mig-parted chooses the positions of the slices itself; the format mig-checkpoint keeps those of the plan");
  return result;
}

}  // namespace tangram::formats::exports
