// Slurm: gres.conf, and the lines of slurm.conf that name the slices.
//
// The type of a resource must be a part of slurmd's name for the slice, `nvidia_a100_3g.20gb`. Drivers name boards
// differently, so only the profile is written unless the board's name is given.

#include <fmt/format.h>

#include <map>
#include <set>

#include "base/text.h"
#include "formats/exports/exports.h"

namespace tangram::formats::exports {
namespace {

std::string type_of(const ExportInput& input, const PlannedDevice& device, const MigProfile& profile) {
  const auto board = input.options.boards.find(device.type);
  return board == input.options.boards.end() ? profile.name : board->second + "_" + profile.name;
}

// Types and how many there are of each on a node, in the order of their names.
using Counts = std::map<std::string, int>;

Counts counts_of(const ExportInput& input, const ClusterNode& node) {
  Counts counts;
  for (const auto& seat : node.seats) {
    for (const auto& planned : seat.device->slices) {
      if (planned.reserved) continue;  // Not Slurm's to give.
      ++counts[type_of(input, *seat.device, seat.device->geometry.profiles[planned.slice.profile])];
    }
  }
  return counts;
}

std::string node_line(const std::string& name, const Counts& counts) {
  std::vector<std::string> items;
  for (const auto& [type, count] : counts) items.push_back(fmt::format("gpu:{}:{}", type, count));
  return fmt::format("NodeName={} Gres={}\n", name, text::join(items, ","));
}

// Slurm matches a type anywhere in its name of a slice, so a type that is contained in another matches both.
void note_ambiguous(const std::string& node, const Counts& counts, std::vector<std::string>& notes) {
  for (const auto& [a, count_a] : counts) {
    for (const auto& [b, count_b] : counts) {
      if (a == b || b.find(a) == std::string::npos) continue;
      notes.push_back(fmt::format("{}: Slurm may mistake {} for {}, because its name contains the other", node, b, a));
    }
  }
}

}  // namespace

Result<Export> slurm(const ExportInput& input) {
  Export result;
  TANGRAM_TRY(const auto nodes, nodes_of(input, result.notes));
  std::string gres = "# The driver's library finds the slices; AutoDetect=nvidia does not see MIG.\n";
  std::string lines;
  // The types of all nodes, each once: AccountingStorageTRES is a setting of the whole cluster.
  std::set<std::string> tres;
  for (const auto& node : nodes) {
    const Counts counts = counts_of(input, node);
    if (counts.empty()) {
      result.notes.push_back(fmt::format("{} has no slices and is left out", node.name));
      continue;
    }
    gres += fmt::format("NodeName={} AutoDetect=nvml\n", node.name);
    lines += node_line(node.name, counts);
    for (const auto& [type, count] : counts) tres.insert("gres/gpu:" + type);
    note_ambiguous(node.name, counts, result.notes);
  }
  std::vector<std::string> names{"gres/gpu"};
  names.insert(names.end(), tres.begin(), tres.end());
  const std::string head = "# Drain the nodes before the counts change, or running jobs abort.\nGresTypes=gpu\n";
  result.files.push_back({"gres.conf", gres});
  result.files.push_back(
      {"slurm.conf", fmt::format("{}AccountingStorageTRES={}\n{}", head, text::join(names, ","), lines)});
  return result;
}

}  // namespace tangram::formats::exports
