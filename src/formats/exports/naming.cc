// Names for other tools, and the assignment of the plan's devices to machines.
//
// Every name depends on the plan and the options only, so exporting the same plan twice gives the same files. A name
// that a tool would refuse is changed and gets a hash of the original, so that "a_b" and "a.b" do not become the same
// label.

#include "formats/exports/naming.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/text.h"

namespace tangram::formats::exports {
namespace {

// A higher index probably means that --gpus-per-node was forgotten. It is a note, no error: such machines may exist.
constexpr int kGpusPerNodeUsual = 16;

bool is_label_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

// FNV-1a, 32 bits: eight digits as a suffix, and the same on every machine. It only has to separate names, not to
// resist an attacker.
std::uint32_t hash_of(std::string_view text) {
  std::uint32_t hash = 2166136261u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

struct NumberedName {
  std::string_view prefix;
  int number = 0;
};

// "rack1-12" is number 12 of rack1. A name without a number is number 0 of itself.
NumberedName split_number(std::string_view name) {
  constexpr std::int64_t kNumberMax = 1'000'000;
  const std::size_t dash = name.rfind('-');
  // A dash in front would leave an empty prefix, and a node without a name.
  if (dash == std::string_view::npos || dash == 0) return {name, 0};
  const std::string_view digits = name.substr(dash + 1);
  const bool all_digits = !digits.empty() && std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
  const auto number = all_digits ? text::parse_integer(digits) : std::nullopt;
  // A number above kNumberMax is taken for a part of the name, not for an index.
  if (!number || *number > kNumberMax) return {name, 0};
  return {name.substr(0, dash), static_cast<int>(*number)};
}

struct Address {
  std::string node;
  int index = 0;
};

// With 8 GPUs per node, rack1-12 is GPU 4 of the node rack1-1. Without a count, it is GPU 12 of the node rack1.
Address address_of(const PlannedDevice& device, int gpus_per_node) {
  const NumberedName name = split_number(device.name);
  if (gpus_per_node <= 0) return {std::string(name.prefix), name.number};
  return {fmt::format("{}-{}", name.prefix, name.number / gpus_per_node), name.number % gpus_per_node};
}

// Requires seats in ascending order of their indices, so two devices on one seat are neighbours.
std::optional<Error> why_wrong(const ClusterNode& node) {
  if (!is_host_name(node.name)) {
    return Error{ErrorCode::invalid,
                 fmt::format("device {}: \"{}\" is not a host name; expected letters a-z, digits and dashes",
                             node.seats.front().device->name, node.name)};
  }
  for (std::size_t i = 1; i < node.seats.size(); ++i) {
    if (node.seats[i - 1].index != node.seats[i].index) continue;
    return Error{ErrorCode::invalid,
                 fmt::format("devices {} and {} would both be GPU {} of node {}", node.seats[i - 1].device->name,
                             node.seats[i].device->name, node.seats[i].index, node.name)};
  }
  return std::nullopt;
}

}  // namespace

Result<std::vector<ClusterNode>> nodes_of(const ExportInput& input, std::vector<std::string>& notes) {
  std::vector<ClusterNode> nodes;
  // The map finds a node by name; the vector keeps the order of the plan.
  std::map<std::string, std::size_t> places;
  for (const auto& device : input.plan->devices) {
    if (device.geometry.units_per_core > 0) {
      notes.push_back(fmt::format("{} is left out: the cores of a host are not cut by MIG", device.name));
      continue;
    }
    const Address address = address_of(device, input.options.gpus_per_node);
    const auto [place, fresh] = places.emplace(address.node, nodes.size());
    if (fresh) nodes.push_back({address.node, {}});
    nodes[place->second].seats.push_back({&device, address.index});
  }
  if (nodes.empty()) return Error{ErrorCode::invalid, "the plan has no GPU, so there is nothing to export"};
  for (auto& node : nodes) {
    std::ranges::stable_sort(node.seats, {}, &Seat::index);
    if (const auto error = why_wrong(node)) return *error;
    if (node.seats.back().index >= kGpusPerNodeUsual) {
      notes.push_back(fmt::format("{} would have a GPU {}: give the number of GPUs per node (--gpus-per-node)",
                                  node.name, node.seats.back().index));
    }
  }
  return nodes;
}

// Lower-case letters, digits and single dashes between them. Everything else becomes a dash.
std::string dns_label(std::string_view text, std::size_t length_max) {
  std::string label;
  for (const char c : text::lower(text)) {
    if (is_label_letter(c))
      label += c;
    else if (!label.empty() && label.back() != '-')
      label += '-';
  }
  while (!label.empty() && label.back() == '-') label.pop_back();
  // Unchanged names stay readable. Only a changed or shortened one needs the hash.
  if (label == text && label.size() <= length_max) return label;
  const std::string suffix = fmt::format("{:08x}", hash_of(text));
  // Room for the dash and the suffix. Cutting may leave a dash at the end, which the next line removes.
  label.resize(std::min(label.size(), length_max - suffix.size() - 1));
  while (!label.empty() && label.back() == '-') label.pop_back();
  return label.empty() ? "x-" + suffix : label + "-" + suffix;
}

// A plus is spelled out, because the suffixes "+me" and "-me" mean different profiles and must not become one label.
std::string profile_label(std::string_view profile) {
  std::string label;
  for (const char c : profile) {
    if (c == '+')
      label += "-and-";
    else
      label += c == '.' ? '-' : c;
  }
  return label;
}

// RFC 1123: labels of at most 63 letters, digits and dashes, no dash at an end, at most 253 letters in all.
bool is_host_name(std::string_view text) {
  if (text.size() > 253) return false;
  return std::ranges::all_of(text::split(text, '.'), [](std::string_view label) {
    const auto allowed = [](char c) { return is_label_letter(c) || c == '-'; };
    return !label.empty() && label.size() <= 63 && is_label_letter(label.front()) && is_label_letter(label.back()) &&
           std::ranges::all_of(label, allowed);
  });
}

std::string unique_name(const std::string& name, std::set<std::string>& taken) {
  std::string result = name;
  for (int i = 2; !taken.insert(result).second; ++i) result = fmt::format("{}-{}", name, i);
  return result;
}

std::string layout_label(const ExportInput& input, const ClusterNode& node) {
  return dns_label(fmt::format("{}-{}", input.options.label, node.name));
}

const Service* find_service(const ExportInput& input, std::string_view name) {
  if (input.workload == nullptr) return nullptr;
  for (const auto& service : input.workload->services) {
    if (service.name == name) return &service;
  }
  return nullptr;
}

Node map_node(std::vector<std::pair<std::string, Node>> entries) {
  Node node;
  node.kind = Node::Kind::map;
  for (auto& [key, value] : entries) node.entries.push_back({std::move(key), {}, std::move(value)});
  return node;
}

Node list_node(std::vector<Node> items) {
  Node node;
  node.kind = Node::Kind::sequence;
  node.items = std::move(items);
  return node;
}

Node number_node(std::int64_t value) { return plain_node(fmt::format("{}", value)); }

Node decimal_node(double value) { return plain_node(text::shortest(value)); }

}  // namespace tangram::formats::exports
