// Names that other tools accept, and the machine and index of each device of a plan.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/plan.h"
#include "formats/document.h"
#include "formats/export.h"

namespace tangram::formats::exports {

// A GPU of the plan and its index on its node.
struct Seat {
  const PlannedDevice* device = nullptr;
  int index = 0;
};

// One machine with GPUs.
struct ClusterNode {
  std::string name;
  std::vector<Seat> seats;  // Ascending indices.
};

// The machines of the plan's GPUs, in the order in which the plan names them. Hosts that are devices themselves are
// left out with a note. Errors: no GPU at all, two devices on one seat, or a name that no machine can have.
Result<std::vector<ClusterNode>> nodes_of(const ExportInput& input, std::vector<std::string>& notes);

// `text` as a DNS-1123 label of at most `length_max` letters. What must be changed for that gets a suffix made of the
// whole text, so that different texts stay different. `length_max` >= 16.
std::string dns_label(std::string_view text, std::size_t length_max = 63);
// "1g.10gb+me" as a part of a label: "1g-10gb-and-me".
std::string profile_label(std::string_view profile);
// True for a name that a machine may have: labels joined by dots, at most 253 letters.
bool is_host_name(std::string_view text);

// The first of NAME, NAME-2, NAME-3, ... that is not in `taken`, which then holds it.
std::string unique_name(const std::string& name, std::set<std::string>& taken);

// The name of the layouts on `node`: the key in mig-parted's file and the value of the node's label.
std::string layout_label(const ExportInput& input, const ClusterNode& node);

// The service of this name in the workload; null if there is no workload or no such service.
const Service* find_service(const ExportInput& input, std::string_view name);

// Maps and lists to be written.
Node map_node(std::vector<std::pair<std::string, Node>> entries);
Node list_node(std::vector<Node> items);
Node number_node(std::int64_t value);
Node decimal_node(double value);

}  // namespace tangram::formats::exports
