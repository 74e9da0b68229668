// Plans in the words of other tools: mig-parted, Kubernetes, Slurm, Triton.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/plan.h"
#include "core/workload.h"

namespace tangram::formats {

// What other tools need and a plan does not contain. Each format reads the fields that are named for it.
struct ExportOptions {
  // Devices are called PREFIX-NUMBER. All devices of one prefix are in the node PREFIX, and the number is the index of
  // the GPU there. With a count, they fill the nodes PREFIX-0, PREFIX-1, ... in turn.
  int gpus_per_node = 0;
  std::string label = "tangram";              // mig-parted and Kubernetes: what the names of layouts begin with.
  std::map<std::string, std::string> uuids;   // mig-checkpoint: the UUID of each GPU, by the name of its device.
  std::map<std::string, std::string> boards;  // Slurm: what slurmd prints before the MIG profile, by device type.
  std::string image = "tritonserver";         // Kubernetes: the container that serves the models of a slice.
  std::string name_space;                     // Kubernetes: of the Deployments; the current one where it is empty.
  // Kubernetes: the PersistentVolumeClaim with the models, mounted at /models; empty: none.
  std::string models_claim = "tangram-models";
  std::vector<std::string> arguments;         // Kubernetes: of the container; empty: those of a Triton server.
  bool gateway = false;                       // Kubernetes: the gateway and the controller instead of servers.
  std::string backend;                        // Triton: the backend of all models; found by Triton where it is empty.
};

struct ExportInput {
  const Plan* plan = nullptr;
  const Workload* workload = nullptr;  // May be null; then models are called as their services are.
  ExportOptions options;
};

struct ExportedFile {
  std::string path;  // Below the folder of the export, with slashes: "rack1-0/4g.40gb-0/rank/config.pbtxt".
  std::string text;

  bool operator==(const ExportedFile&) const = default;
};

struct Export {
  std::vector<ExportedFile> files;  // At least one.
  std::vector<std::string> notes;   // What was left out, or cannot be said in the format, a sentence each.
};

struct ExportFormat {
  std::string_view name;     // What `tangram export` calls it: "mig-parted".
  std::string_view summary;  // One sentence for the help.
  bool several = false;      // It may make more than one file, so that a folder is needed.
  bool comments = true;      // A line that begins with # says nothing in it.
  Result<Export> (*write)(const ExportInput&) = nullptr;
};

// In the order of exports.def.
std::span<const ExportFormat> export_formats();
// The format with this name, or null.
const ExportFormat* find_export_format(std::string_view name);

}  // namespace tangram::formats
