// A slice of the host: the cores it runs on, and how much of them.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "adapters/cpu_host/cpu_host.h"
#include "base/result.h"
#include "core/layout.h"

namespace tangram::adapters {

struct CoreShare {
  std::vector<int> cores;  // As the kernel numbers them.
  double worth = 1;        // In cores: less than cores.size() where the slice ends inside of one.

  // How many threads can use it.
  int threads() const { return static_cast<int>(cores.size()); }
  bool needs_quota() const { return worth < static_cast<double>(cores.size()); }
  bool operator==(const CoreShare&) const = default;
};

// The cores that this process may run on, ascending.
std::vector<int> usable_cores();

// The share of a slice: units lie side by side on `usable`, in their order. A slice that reaches beyond the cores that
// are there is moved onto those that are, so that a plan of a larger machine runs, slowly.
CoreShare core_share(const Geometry& geometry, const Slice& slice, const std::vector<int>& usable);

// This process and all threads that it starts from now on run on `cores` alone; empty: nothing changes. Errors: the
// kernel says no.
Result<Nothing> run_on_cores(const std::vector<int>& cores);

// Removes the groups that processes left which were killed: `NAME-PID-...` in `directory`, empty, with no process PID.
void remove_stale_groups(const std::string& directory, const std::string& name);

// A control group that limits the processor time of a slice. It goes when this does, once its processes have gone.
class CoreQuota {
 public:
  // Errors: groups cannot be made here. `name` is of this process alone.
  static Result<std::unique_ptr<CoreQuota>> make(const CpuHostReport& host, const std::string& name, double cores);
  explicit CoreQuota(std::string directory) : directory_(std::move(directory)) {}
  ~CoreQuota();
  CoreQuota(const CoreQuota&) = delete;
  CoreQuota& operator=(const CoreQuota&) = delete;

  Result<Nothing> add(pid_t process) const;
  // This process and all that it starts from now on are in the group of that directory.
  static Result<Nothing> join(const std::string& directory);
  const std::string& directory() const { return directory_; }

 private:
  std::string directory_;
};

}  // namespace tangram::adapters
