// Slurm: gres.conf, the lines of slurm.conf that name the slices, and a prolog and an epilog that cut them.
//
// The type of a resource must be a part of slurmd's name for the slice, `nvidia_a100_3g.20gb`. Drivers name boards
// differently, so only the profile is written unless the board's name is given.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "formats/exports/exports.h"
#include "formats/plan_file.h"

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

// The cuts of one node as a plan without replicas. Devices are called after their index, which the scripts give to
// `tangram apply`.
std::string cuts_text(const ClusterNode& node) {
  Plan cuts;
  for (const auto& seat : node.seats) {
    PlannedDevice device = *seat.device;
    device.name = fmt::format("gpu-{}", seat.index);
    for (auto& slice : device.slices) slice.replicas.clear();
    cuts.devices.push_back(std::move(device));
  }
  return write_plan(cuts);
}

constexpr const char* kProlog = R"sh(#!/bin/sh
# Prolog of slurmd, run as root before each job: cuts the GPUs of this node as planned, as is needed after a reboot.
# Slices that are as planned are not touched. If it fails, Slurm drains the node.
cuts=${TANGRAM_CUTS:-/etc/tangram/cuts}/$SLURMD_NODENAME.json
[ -e "$cuts" ] || exit 0
exec ${TANGRAM:-tangram} apply "$cuts" $(sed -n 's/.*"name": "gpu-\([0-9]*\)".*/--gpu gpu-\1=\1/p' "$cuts") >/dev/null
)sh";

constexpr const char* kEpilog = R"sh(#!/bin/sh
# Epilog of slurmd, run as root after each job: makes cuts that changed while jobs ran. Slices in use are refused, and the
# epilog of the job that uses them tries again; so a failure here is none.
cuts=${TANGRAM_CUTS:-/etc/tangram/cuts}/$SLURMD_NODENAME.json
[ -e "$cuts" ] || exit 0
${TANGRAM:-tangram} apply "$cuts" $(sed -n 's/.*"name": "gpu-\([0-9]*\)".*/--gpu gpu-\1=\1/p' "$cuts") >/dev/null 2>&1
exit 0
)sh";

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
    const bool reserved =
        std::ranges::any_of(node.seats, [](const auto& seat) { return !reserved_of(*seat.device).slices.empty(); });
    if (reserved) {
      result.notes.push_back(fmt::format(
          "{}: AutoDetect finds the slices that others use as well; name the files of Slurm's own in gres.conf instead",
          node.name));
    }
  }
  std::vector<std::string> names{"gres/gpu"};
  names.insert(names.end(), tres.begin(), tres.end());
  const std::string head =
      "# Drain the nodes before the counts change, or running jobs abort.\n"
      "# To have nodes cut before jobs start, copy the folder cuts to /etc/tangram/cuts, and the scripts, and add\n"
      "# PrologFlags=Alloc, Prolog and Epilog.\n"
      "GresTypes=gpu\n";
  result.files.push_back({"gres.conf", gres});
  result.files.push_back(
      {"slurm.conf", fmt::format("{}AccountingStorageTRES={}\n{}", head, text::join(names, ","), lines)});
  for (const auto& node : nodes) result.files.push_back({"cuts/" + node.name + ".json", cuts_text(node)});
  result.files.push_back({"prolog.sh", kProlog});
  result.files.push_back({"epilog.sh", kEpilog});
  return result;
}

}  // namespace tangram::formats::exports
