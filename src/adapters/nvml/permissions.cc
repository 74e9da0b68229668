// Finds out whether this user may change MIG, without trying: an attempt would change the GPU.
#include "adapters/nvml/permissions.h"

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>

namespace tangram::adapters {
namespace {

constexpr int kCapSysAdmin = 21;  // Its bit in the masks of /proc/self/status.

bool has_sys_admin(const std::string& root) {
  std::ifstream file(root + "/proc/self/status");
  // The effective set counts: a capability that is only permitted is not in use.
  for (std::string key, value; file >> key >> value; file.ignore(1 << 16, '\n')) {
    if (key == "CapEff:") return (std::strtoull(value.c_str(), nullptr, 16) >> kCapSysAdmin & 1U) != 0;
  }
  return false;
}

// The device node of the right to configure MIG. The driver lists rights and minor numbers in lines like `config 1`.
std::string config_node(const std::string& root) {
  std::ifstream file(root + "/proc/driver/nvidia-caps/mig-minors");
  for (std::string name, minor; file >> name >> minor;) {
    if (name == "config") return "/dev/nvidia-caps/nvidia-cap" + minor;
  }
  return "";
}

bool may(const std::string& path, int mode) { return access(path.c_str(), mode) == 0; }

}  // namespace

GpuPermissions probe_gpu_permissions(const std::string& root) {
  const std::string node = config_node(root);
  return {.root = geteuid() == 0,
          .sys_admin = has_sys_admin(root),
          .devices = may(root + "/dev/nvidiactl", F_OK),
          .capabilities = may(root + "/dev/nvidia-caps", F_OK),
          .mig_config = !node.empty() && may(root + node, R_OK)};
}

}  // namespace tangram::adapters
