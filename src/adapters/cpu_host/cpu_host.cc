// Finds out how many cores and how much memory this process may use, and whether it can give slices a CPU quota.
//
// The numbers of the machine are not enough: in a container, an affinity mask and control groups (v1 or v2) limit both.
// All paths are below `root`, so that tests can use a copy of /proc and /sys.
#include "adapters/cpu_host/cpu_host.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <vector>

#include "base/text.h"

namespace tangram::adapters {
namespace {

// One line of /proc/self/mountinfo that mounts a control group hierarchy.
struct Mount {
  bool v2 = false;
  std::string root;   // Which part of the hierarchy is mounted.
  std::string point;  // Where.
  std::vector<std::string> controllers;
};

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string first_line(const std::string& path) {
  const std::string content = read_text(path);
  return std::string(text::trim(content.substr(0, content.find('\n'))));
}

std::vector<std::string> words(std::string_view line, char separator) {
  std::vector<std::string> result;
  for (const auto part : text::split(line, separator)) {
    if (!text::trim(part).empty()) result.emplace_back(text::trim(part));
  }
  return result;
}

std::vector<std::string> lines_of(const std::string& path) { return words(read_text(path), '\n'); }

bool holds(const std::vector<std::string>& list, std::string_view word) {
  return std::ranges::find(list, word) != list.end();
}

// Fields 4 and 5 are the root and the mount point; after a lone dash come the type, the source and the options.
std::vector<Mount> cgroup_mounts(const std::string& root) {
  std::vector<Mount> mounts;
  for (const auto& line : lines_of(root + "/proc/self/mountinfo")) {
    const auto fields = words(line, ' ');
    const auto dash = std::ranges::find(fields, "-");
    if (fields.size() < 6 || fields.end() - dash < 4) continue;
    if (dash[1] != "cgroup" && dash[1] != "cgroup2") continue;
    mounts.push_back({dash[1] == "cgroup2", fields[3], fields[4], words(dash[3], ',')});
  }
  return mounts;
}

// The group of this process in the hierarchy of `controller`, or in the unified one for "". Lines are
// `id:controllers:path`.
std::string own_group(const std::string& root, std::string_view controller) {
  for (const auto& line : lines_of(root + "/proc/self/cgroup")) {
    const auto parts = text::split(line, ':');
    if (parts.size() < 3) continue;
    const bool match = controller.empty() ? parts[1].empty() : holds(words(parts[1], ','), controller);
    if (match) return std::string(line.substr(parts[0].size() + parts[1].size() + 2));
  }
  return "/";
}

// A container often sees its own group as the root of the mount, while /proc shows the path from outside.
std::string directory_of(const std::string& root, const Mount& mount, std::string_view controller) {
  std::string group = own_group(root, controller);
  if (mount.root != "/" && group.starts_with(mount.root)) group = group.substr(mount.root.size());
  if (group == "/" || group.empty()) return mount.point;
  const std::string inside = mount.point + (group.starts_with('/') ? "" : "/") + group;
  // Where the path does not exist inside the container, the mount point is taken for the own group.
  return access((root + inside).c_str(), F_OK) == 0 ? inside : mount.point;
}

bool writable(const std::string& path) { return access(path.c_str(), W_OK) == 0; }

// nullopt for no limit: v2 writes "max" and v1 writes -1.
std::optional<double> ratio(const std::string& quota, const std::string& period) {
  const auto a = text::parse_number(quota);
  const auto b = text::parse_number(period);
  if (!a || !b || *a <= 0 || *b <= 0) return std::nullopt;
  return *a / *b;
}

void inspect_v2(const std::string& root, const Mount& mount, CpuHostReport& report) {
  const std::string directory = directory_of(root, mount, "");
  if (!holds(words(first_line(root + directory + "/cgroup.controllers"), ' '), "cpu")) return;
  report.cgroup = CgroupVersion::v2;
  report.cgroup_directory = directory;
  const auto limit = words(first_line(root + directory + "/cpu.max"), ' ');
  if (limit.size() == 2) report.quota_cores = ratio(limit[0], limit[1]);
  // Under v2 a child group gets the cpu controller only through subtree_control.
  report.quota = writable(root + directory) && writable(root + directory + "/cgroup.subtree_control");
}

void inspect_v1(const std::string& root, const Mount& mount, CpuHostReport& report) {
  const std::string directory = directory_of(root, mount, "cpu");
  report.cgroup = CgroupVersion::v1;
  report.cgroup_directory = directory;
  report.quota_cores =
      ratio(first_line(root + directory + "/cpu.cfs_quota_us"), first_line(root + directory + "/cpu.cfs_period_us"));
  report.quota = writable(root + directory);
}

// v2 first; on hybrid systems it often lacks the cpu controller, and v1 has it.
void inspect_cgroups(const std::string& root, CpuHostReport& report) {
  const auto mounts = cgroup_mounts(root);
  for (const auto& mount : mounts) {
    if (mount.v2 && report.cgroup == CgroupVersion::none) inspect_v2(root, mount, report);
  }
  for (const auto& mount : mounts) {
    if (!mount.v2 && holds(mount.controllers, "cpu") && report.cgroup == CgroupVersion::none) {
      inspect_v1(root, mount, report);
    }
  }
  if (report.cgroup == CgroupVersion::none) {
    report.quota_reason = mounts.empty() ? "no control groups are mounted" : "no control group has the cpu controller";
  } else if (report.quota) {
    report.quota_reason = fmt::format("this user can create groups in {}", report.cgroup_directory);
  } else {
    report.quota_reason = fmt::format("this user cannot write to {}", report.cgroup_directory);
  }
}

double machine_memory_gib(const std::string& root) {
  for (const auto& line : lines_of(root + "/proc/meminfo")) {
    const auto fields = words(line, ' ');
    if (fields.size() >= 2 && fields[0] == "MemTotal:") {
      return text::parse_number(fields[1]).value_or(0) / (1024.0 * 1024.0);
    }
  }
  return 0;
}

// The smallest limit of the machine and the own groups. "max", and the huge number that v1 uses for it, are no limits.
double memory_gib(const std::string& root) {
  double result = machine_memory_gib(root);
  for (const auto& mount : cgroup_mounts(root)) {
    if (!mount.v2 && !holds(mount.controllers, "memory")) continue;
    const std::string directory = root + directory_of(root, mount, mount.v2 ? "" : "memory");
    const auto limit =
        text::parse_number(first_line(directory + (mount.v2 ? "/memory.max" : "/memory.limit_in_bytes")));
    if (limit && *limit > 0) result = std::min(result, *limit / (1024.0 * 1024.0 * 1024.0));
  }
  return result;
}

int usable_core_count() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  return CPU_COUNT(&set);
}

}  // namespace

CpuHostReport probe_cpu_host(const std::string& root) {
  CpuHostReport report;
  report.cores_online = std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
  report.cores_usable = std::max(1, usable_core_count());
  report.memory_gib = memory_gib(root);
  inspect_cgroups(root, report);
  return report;
}

CpuHost to_cpu_host(const CpuHostReport& report) {
  // Rounded down: a slice on a core of which the quota allows only a part would be slower than planned.
  const int limit = static_cast<int>(report.quota_cores.value_or(report.cores_usable));
  const int cores = std::clamp(std::min(report.cores_usable, std::max(1, limit)), 1, kCpuCoresMax);
  return {.cores = cores, .memory_gib = report.memory_gib, .quota = report.quota};
}

}  // namespace tangram::adapters
