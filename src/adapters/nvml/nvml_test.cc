#include "adapters/nvml/nvml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "adapters/nvml/permissions.h"

namespace tangram::adapters {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// What a driver that agrees with the table says.
DriverGpu agreeing(const Geometry& geometry) {
  DriverGpu gpu;
  gpu.mig_capable = true;
  for (const auto& profile : geometry.profiles) {
    gpu.profiles.push_back({profile.vendor_id, profile.name, profile.sm_count.value, profile.memory_gib.value,
                            profile.count_max, profile.starts, profile.units});
  }
  return gpu;
}

TEST(Driver, ThatAgreesWithTheTableGivesNoDifference) {
  for (const auto& geometry : known_geometries()) {
    EXPECT_THAT(compare_profiles(geometry, agreeing(geometry)), IsEmpty()) << geometry.type;
  }
}

TEST(Driver, ThatDiffersIsDescribedInWords) {
  const Geometry& geometry = *find_geometry("a100-80gb");
  DriverGpu gpu = agreeing(geometry);
  gpu.profiles.back().name = "7g.79gb";
  gpu.profiles.front().sm_count = 16;
  gpu.profiles.front().starts = {0, 1, 2, 3, 4, 5};
  gpu.profiles.push_back({99, "9g.99gb", 1, 1, 1, {0}, 1});
  EXPECT_THAT(
      compare_profiles(geometry, gpu),
      ElementsAre("1g.10gb has 16 multiprocessors, the table has 14",
                  "1g.10gb starts at 0,1,2,3,4,5 and covers 1; the table has 0,1,2,3,4,5,6 and 1",
                  "the driver calls 7g.80gb 7g.79gb", "the driver offers 9g.99gb (id 99), which is not in the table"));
}

// Ids 9 and 19 are 3g and 1g. 3g at 2 is not a place that the table allows.
TEST(Driver, SlicesBecomeALayout) {
  const Geometry& geometry = *find_geometry("a100-80gb");
  DriverGpu gpu;
  gpu.slices = {{19, 0, 1}, {9, 2, 4}, {9, 4, 4}, {77, 1, 1}};
  const auto recognised = recognise_layout(geometry, gpu);
  EXPECT_EQ(to_string(geometry, recognised.layout), "1g.10gb@0 + 3g.40gb@4");
  EXPECT_THAT(recognised.unknown, ElementsAre("profile id 9 at 2", "profile id 77 at 1"));
}

TEST(Permissions, AreReadOffTheMachine) {
  namespace fs = std::filesystem;
  std::string root = (fs::temp_directory_path() / "tangram-caps-XXXXXX").string();
  ASSERT_NE(mkdtemp(root.data()), nullptr);
  for (const char* folder : {"/proc/self", "/proc/driver/nvidia-caps", "/dev/nvidia-caps"})
    fs::create_directories(root + folder);
  // Bit 21 of the mask is CAP_SYS_ADMIN: 0x200000.
  std::ofstream(root + "/proc/self/status") << "Name:\ttangram\nCapPrm:\t0\nCapEff:\t0000000000200000\n";
  std::ofstream(root + "/proc/driver/nvidia-caps/mig-minors") << "config 1\nmonitor 2\ngpu0/gi0/access 3\n";
  const auto without_node = probe_gpu_permissions(root);
  EXPECT_TRUE(without_node.sys_admin);
  EXPECT_TRUE(without_node.capabilities);
  EXPECT_FALSE(without_node.mig_config);
  std::ofstream(root + "/dev/nvidia-caps/nvidia-cap1") << "";
  std::ofstream(root + "/proc/self/status") << "Name:\ttangram\nCapPrm:\t0\nCapEff:\t00000000001fffff\n";
  EXPECT_TRUE(probe_gpu_permissions(root).mig_config);
  EXPECT_FALSE(probe_gpu_permissions(root).sys_admin);
  fs::remove_all(root);
}

}  // namespace
}  // namespace tangram::adapters
