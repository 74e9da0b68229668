// What this machine's own cores offer as a device.
#pragma once

#include <optional>
#include <string>

#include "core/geometry.h"

namespace tangram::adapters {

enum class CgroupVersion { none, v1, v2 };

// Everything is found by reading; nothing is created or changed.
struct CpuHostReport {
  int cores_online = 1;
  int cores_usable = 1;               // That this process may run on.
  std::optional<double> quota_cores;  // A limit on processor time that already holds for this process.
  double memory_gib = 0;              // Of the machine, or the limit that holds for this process where it is lower.

  CgroupVersion cgroup = CgroupVersion::none;  // Of the CPU controller.
  std::string cgroup_directory;                // Where groups for slices would be made; empty without a controller.
  bool quota = false;                          // CPU quotas can be set there.
  std::string quota_reason;                    // Why not, or how.
};

// `root` is put before every path, so that a recorded machine can be examined.
CpuHostReport probe_cpu_host(const std::string& root = "");

// The host to plan with: cores this process may use, no more than its quota allows.
CpuHost to_cpu_host(const CpuHostReport& report);

}  // namespace tangram::adapters
