// What this process may do with the GPUs of the machine.
#pragma once

#include <string>

namespace tangram::adapters {

struct GpuPermissions {
  bool root = false;
  bool sys_admin = false;     // CAP_SYS_ADMIN, without which MIG mode cannot be switched.
  bool devices = false;       // /dev/nvidiactl is there.
  bool capabilities = false;  // /dev/nvidia-caps is there.
  bool mig_config = false;    // The node that allows slices to be made and removed can be read.
};

// `root` is put before every path, so that a recorded machine can be examined.
GpuPermissions probe_gpu_permissions(const std::string& root = "");

}  // namespace tangram::adapters
