// Finds other software on this host that changes MIG layouts. Two owners would undo each other's cuts.
#include "adapters/nvml/owners.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace tangram::adapters {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMigManagerService = "nvidia-mig-manager.service";

// systemd enables a unit by a link in a folder `X.wants` or `X.requires`. The link counts even if its target is absent.
bool is_enabled(const std::string& root) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root + "/etc/systemd/system", error)) {
    const std::string ending = entry.path().extension();
    if (ending != ".wants" && ending != ".requires") continue;
    if (fs::symlink_status(entry.path() / kMigManagerService, error).type() > fs::file_type::not_found) return true;
  }
  return false;
}

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string whole_file(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Describes the process in `folder` of /proc if it changes MIG layouts, or "". The kernel keeps 15 letters of a name.
std::string owner_process(const fs::path& folder) {
  const std::string name = first_line(folder / "comm");
  const std::string pid = folder.filename();
  if (name == "nvidia-mig-part") return fmt::format("nvidia-mig-parted is cutting GPUs now (process {})", pid);
  if (name != "nvidia-mig-mana") return "";
  // A process in a pod belongs to the GPU operator, which acts on a node label instead of a command.
  const bool in_pod = whole_file(folder / "cgroup").find("kubepods") != std::string::npos;
  return fmt::format("{} runs (process {}) and cuts GPUs when {}",
                     in_pod ? "the MIG manager of the Kubernetes GPU operator" : "nvidia-mig-manager", pid,
                     in_pod ? "the label nvidia.com/mig.config of this node changes" : "it is asked to");
}

}  // namespace

std::vector<std::string> other_mig_owners(const std::string& root) {
  std::vector<std::string> owners;
  if (is_enabled(root)) {
    owners.push_back("nvidia-mig-manager.service is enabled and cuts the GPUs again at each boot");
  }
  std::error_code error;
  if (fs::exists(root + "/var/lib/nvidia-mig-manager/reboot_attempted", error)) {
    owners.push_back("nvidia-mig-manager is in the middle of a change and waits for a reboot");
  }
  std::vector<fs::path> processes;
  for (const auto& entry : fs::directory_iterator(root + "/proc", error)) {
    if (entry.path().filename().string().find_first_not_of("0123456789") == std::string::npos) {
      processes.push_back(entry.path());
    }
  }
  // Directory order is arbitrary; a sorted report is the same on every run.
  std::ranges::sort(processes);
  for (const auto& folder : processes) {
    if (auto owner = owner_process(folder); !owner.empty()) owners.push_back(std::move(owner));
  }
  return owners;
}

}  // namespace tangram::adapters
