#include "adapters/cpu_host/cpu_host.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace tangram::adapters {
namespace {

namespace fs = std::filesystem;

// A machine made of files, below a folder of its own.
class RecordedMachine : public testing::Test {
 protected:
  RecordedMachine() {
    std::string name = (fs::temp_directory_path() / "tangram-machine-XXXXXX").string();
    root_ = mkdtemp(name.data());
  }
  ~RecordedMachine() override { fs::remove_all(root_); }

  void file(const std::string& path, const std::string& content) {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << content;
  }

  std::string root_;
};

// 8 GiB of memory, 2.5 cores of time by 250 ms in 100 ms, and a limit of 2 GiB on the group.
TEST_F(RecordedMachine, WithUnifiedGroupsCanSetQuotas) {
  file("/proc/meminfo", "MemTotal:        8388608 kB\nMemFree: 1 kB\n");
  file("/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  file("/proc/self/cgroup", "0::/user.slice/me\n");
  file("/sys/fs/cgroup/user.slice/me/cgroup.controllers", "cpuset cpu memory\n");
  file("/sys/fs/cgroup/user.slice/me/cgroup.subtree_control", "");
  file("/sys/fs/cgroup/user.slice/me/cpu.max", "250000 100000\n");
  file("/sys/fs/cgroup/user.slice/me/memory.max", "2147483648\n");
  const auto report = probe_cpu_host(root_);
  EXPECT_EQ(report.cgroup, CgroupVersion::v2);
  EXPECT_EQ(report.cgroup_directory, "/sys/fs/cgroup/user.slice/me");
  EXPECT_TRUE(report.quota);
  EXPECT_DOUBLE_EQ(report.quota_cores.value_or(0), 2.5);
  EXPECT_DOUBLE_EQ(report.memory_gib, 2);
}

// The unified hierarchy of a hybrid machine has no cpu controller, so the old one is used; -1 is no limit.
TEST_F(RecordedMachine, WithHybridGroupsUsesTheOldHierarchy) {
  file("/proc/meminfo", "MemTotal: 1048576 kB\n");
  file("/proc/self/mountinfo",
       "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
       "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n");
  file("/proc/self/cgroup", "2:cpu,cpuacct:/jobs\n0::/\n");
  file("/sys/fs/cgroup/unified/cgroup.controllers", "hugetlb\n");
  file("/sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_quota_us", "-1\n");
  file("/sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_period_us", "100000\n");
  const auto report = probe_cpu_host(root_);
  EXPECT_EQ(report.cgroup, CgroupVersion::v1);
  EXPECT_EQ(report.cgroup_directory, "/sys/fs/cgroup/cpu,cpuacct/jobs");
  EXPECT_TRUE(report.quota);
  EXPECT_FALSE(report.quota_cores);
  EXPECT_DOUBLE_EQ(report.memory_gib, 1);
}

// Inside a container /proc may tell the path from outside, which is not there below the mount.
TEST_F(RecordedMachine, InAContainerTakesTheMountItself) {
  file("/proc/self/mountinfo", "32 31 0:29 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n");
  file("/proc/self/cgroup", "2:cpu:/docker/abc\n");
  file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n");
  file("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  const auto report = probe_cpu_host(root_);
  EXPECT_EQ(report.cgroup_directory, "/sys/fs/cgroup/cpu");
  EXPECT_DOUBLE_EQ(report.quota_cores.value_or(0), 0.5);
  EXPECT_EQ(to_cpu_host(report).cores, 1);  // Half a core is still a core to plan with.
}

TEST_F(RecordedMachine, WithoutGroupsCannotSetQuotas) {
  file("/proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda1 rw\nbroken line\n - cgroup\n");
  const auto report = probe_cpu_host(root_);
  EXPECT_EQ(report.cgroup, CgroupVersion::none);
  EXPECT_FALSE(report.quota);
  EXPECT_EQ(report.quota_reason, "no control groups are mounted");
  EXPECT_FALSE(to_cpu_host(report).quota);
}

TEST(ThisMachine, HasACoreAndMemory) {
  const auto report = probe_cpu_host();
  EXPECT_GE(report.cores_usable, 1);
  EXPECT_LE(report.cores_usable, report.cores_online);
  EXPECT_GT(report.memory_gib, 0);
}

}  // namespace
}  // namespace tangram::adapters
