// Gives the slices of a CPU host their share: an affinity mask for whole cores, a cgroup quota for parts of one.
//
// Example: with two units per core, a slice of three units that starts at 0 runs on two cores and is worth 1.5.
#include "adapters/cpu_host/core_share.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/text.h"

namespace tangram::adapters {
namespace {

// The quota's period. A shorter one costs more switches; a longer one makes a slice wait longer for its next turn.
constexpr int kPeriodMicroseconds = 20'000;

Error failure(const std::string& path) {
  const ErrorCode code = errno == EACCES || errno == EPERM ? ErrorCode::denied : ErrorCode::unavailable;
  return {code, fmt::format("{}: {}", path, std::strerror(errno))};
}

Result<Nothing> write_text(const std::string& path, const std::string& text) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) return failure(path);
  const ssize_t written = write(descriptor, text.data(), text.size());
  const Result<Nothing> result =
      written == static_cast<ssize_t>(text.size()) ? Result<Nothing>(Nothing{}) : Result<Nothing>(failure(path));
  close(descriptor);
  return result;
}

Result<Nothing> limit(const std::string& directory, CgroupVersion version, double cores) {
  // The kernel rejects a quota below 1 ms.
  const int quota = std::max(1000, static_cast<int>(std::lround(cores * kPeriodMicroseconds)));
  if (version == CgroupVersion::v2) {
    return write_text(directory + "/cpu.max", fmt::format("{} {}", quota, kPeriodMicroseconds));
  }
  const auto period = write_text(directory + "/cpu.cfs_period_us", std::to_string(kPeriodMicroseconds));
  return period ? write_text(directory + "/cpu.cfs_quota_us", std::to_string(quota)) : period;
}

}  // namespace

std::vector<int> usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return {0};
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

CoreShare core_share(const Geometry& geometry, const Slice& slice, const std::vector<int>& usable) {
  const int per_core = std::max(1, geometry.units_per_core);
  const int units = geometry.profiles[slice.profile].units;
  const int first = slice.start / per_core;
  const int last = (slice.start + units - 1) / per_core;
  CoreShare share;
  for (int core = first; core <= last; ++core) {
    // Modulo, so that a plan for more cores than this host has still runs, if more slowly.
    const int number = usable[static_cast<std::size_t>(core) % usable.size()];
    if (std::ranges::find(share.cores, number) == share.cores.end()) share.cores.push_back(number);
  }
  std::ranges::sort(share.cores);
  // Wrapped cores count once, so a slice is never worth more than the cores it has.
  share.worth = std::min(static_cast<double>(units) / per_core, static_cast<double>(share.cores.size()));
  return share;
}

Result<Nothing> run_on_cores(const std::vector<int>& cores) {
  if (cores.empty()) return Nothing{};
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) {
    if (core >= 0 && core < CPU_SETSIZE) CPU_SET(core, &set);
  }
  if (sched_setaffinity(0, sizeof set, &set) != 0) {
    return Error{ErrorCode::unavailable, fmt::format("cannot run on the slice's cores: {}", std::strerror(errno))};
  }
  return Nothing{};
}

// Removes the groups `<name>-<pid>...` of processes that no longer exist. A killed process cannot remove its own.
void remove_stale_groups(const std::string& directory, const std::string& name) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(directory, ignored)) {
    const std::string group = entry.path().filename().string();
    if (!group.starts_with(name + "-")) continue;
    const auto parts = text::split(std::string_view(group).substr(name.size() + 1), '-');
    const auto process = text::parse_integer(parts[0]);
    const bool gone = process && *process > 0 && *process <= INT32_MAX && kill(static_cast<pid_t>(*process), 0) != 0 &&
                      errno == ESRCH;
    if (gone) rmdir(entry.path().c_str());  // Fails where somebody still runs.
  }
}

Result<std::unique_ptr<CoreQuota>> CoreQuota::make(const CpuHostReport& host, const std::string& name, double cores) {
  if (!host.quota) return Error{ErrorCode::unavailable, host.quota_reason};
  const std::string directory = host.cgroup_directory + "/" + name;
  // A group that exists was left by a killed process with the same pid.
  if (mkdir(directory.c_str(), 0755) != 0 && errno != EEXIST) return failure(directory);
  auto group = std::make_unique<CoreQuota>(directory);
  // Under v2 the controller's files exist only if the parent group has enabled the controller for its children.
  TANGRAM_RETURN_IF_ERROR(limit(directory, host.cgroup, cores));
  return group;
}

// The kernel lets go of a process that was reaped a moment later, and keeps the group until then. A second is far more
// than it takes; a group that is left is removed by the next start.
CoreQuota::~CoreQuota() {
  for (int attempt = 0; attempt < 100 && rmdir(directory_.c_str()) != 0 && errno == EBUSY; ++attempt) usleep(10'000);
}

Result<Nothing> CoreQuota::add(pid_t process) const {
  return write_text(directory_ + "/cgroup.procs", std::to_string(process));
}

// The kernel takes 0 for the process that writes.
Result<Nothing> CoreQuota::join(const std::string& directory) { return write_text(directory + "/cgroup.procs", "0"); }

}  // namespace tangram::adapters
