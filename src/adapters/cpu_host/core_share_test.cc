#include "adapters/cpu_host/core_share.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

namespace tangram::adapters {
namespace {

// The slice of `units` units that starts at `start`, of four cores with quarter-core units.
CoreShare share_of(int units, int start, const std::vector<int>& usable = {0, 1, 2, 3}) {
  const Geometry geometry = cpu_geometry({.cores = 4, .memory_gib = 16, .quota = true});
  for (std::size_t p = 0; p < geometry.profiles.size(); ++p) {
    if (geometry.profiles[p].units != units) continue;
    return core_share(geometry, {static_cast<std::uint16_t>(p), static_cast<std::uint16_t>(start)}, usable);
  }
  ADD_FAILURE() << "no slice of " << units << " units";
  return {};
}

// Units 4 to 11 are cores 1 and 2, whole; 2 to 5 are the second half of core 0 and the first of core 1.
TEST(CoreShare, LaysUnitsSideBySideOnTheCores) {
  EXPECT_EQ(share_of(8, 4), (CoreShare{{1, 2}, 2}));
  EXPECT_FALSE(share_of(8, 4).needs_quota());
  EXPECT_EQ(share_of(4, 2), (CoreShare{{0, 1}, 1}));
  EXPECT_TRUE(share_of(4, 2).needs_quota());
  EXPECT_EQ(share_of(1, 15), (CoreShare{{3}, 0.25}));
  EXPECT_EQ(share_of(1, 15).threads(), 1);
}

// The process may run on 5 and 9 only: core 2 of the plan is the first of them again.
TEST(CoreShare, UsesOnlyCoresThatTheProcessMayUse) {
  EXPECT_EQ(share_of(8, 0, {5, 9}), (CoreShare{{5, 9}, 2}));
  EXPECT_EQ(share_of(4, 8, {5, 9}), (CoreShare{{5}, 1}));
  EXPECT_EQ(share_of(16, 0, {5, 9}), (CoreShare{{5, 9}, 2}));
}

TEST(CoreShare, PinsAThreadAndThoseThatItStarts) {
  const int last = usable_cores().back();
  std::vector<int> seen;
  std::thread([&] {
    ASSERT_TRUE(run_on_cores({last}));
    std::thread([&] { seen = usable_cores(); }).join();
  }).join();
  EXPECT_EQ(seen, std::vector<int>{last});
  EXPECT_FALSE(run_on_cores({-1}));
  EXPECT_TRUE(run_on_cores({}));
}

// In a folder that stands for a control group: half a core is 10 ms of every 20.
TEST(CoreQuota, SaysWhatTheKernelWants) {
  const std::string folder = testing::TempDir() + "/core_quota";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  CpuHostReport host;
  host.quota = false;
  host.quota_reason = "not here";
  EXPECT_EQ(CoreQuota::make(host, "slice", 0.5).error().message, "not here");
  host.quota = true;
  host.cgroup = CgroupVersion::v2;
  host.cgroup_directory = folder;
  // The files of a group come from the kernel; here there is none, which is an error and leaves nothing behind.
  const auto refused = CoreQuota::make(host, "slice", 0.5);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("cpu.max"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder + "/slice"));
  std::filesystem::remove_all(folder);
}

// Of three folders the one whose process is gone goes: numbers of processes end far below the second.
TEST(CoreQuota, RemovesWhatKilledProcessesLeft) {
  const std::string folder = testing::TempDir() + "/stale_groups_" + std::to_string(getpid());
  const std::string mine = folder + "/tangram-" + std::to_string(getpid()) + "-0";
  for (const auto& group : {mine, folder + "/tangram-2147483646-0", folder + "/other-2147483646-0"}) {
    std::filesystem::create_directories(group);
  }
  remove_stale_groups(folder, "tangram");
  EXPECT_TRUE(std::filesystem::exists(mine));
  EXPECT_FALSE(std::filesystem::exists(folder + "/tangram-2147483646-0"));
  EXPECT_TRUE(std::filesystem::exists(folder + "/other-2147483646-0"));
  remove_stale_groups(folder + "/nowhere", "tangram");
  std::filesystem::remove_all(folder);
}

// Where the kernel lets us: the group is there with its limit while the object is, and gone after.
TEST(CoreQuota, MakesAGroupWhereItMay) {
  const CpuHostReport host = probe_cpu_host();
  auto made = CoreQuota::make(host, "tangram-test-" + std::to_string(getpid()), 0.5);
  if (!made) GTEST_SKIP() << made.error().message;
  const std::string folder = (*made)->directory();
  const bool v2 = host.cgroup == CgroupVersion::v2;
  std::ifstream file(folder + (v2 ? "/cpu.max" : "/cpu.cfs_quota_us"));
  std::string quota;
  file >> quota;
  EXPECT_EQ(quota, "10000");
  made->reset();
  EXPECT_FALSE(std::filesystem::exists(folder));
}

}  // namespace
}  // namespace tangram::adapters
