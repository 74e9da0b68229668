// Our declarations of NVML and our tables of boards, held against the stand-in library of the tests. That one has
// declarations and boards of its own, written from NVIDIA's documentation, so a slip on either side shows here.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <sstream>

#include "adapters/nvml/abi.h"
#include "adapters/nvml/library.h"
#include "adapters/nvml/mig_driver.h"
#include "adapters/nvml/nvml.h"

namespace tangram::adapters {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;

class Declarations : public testing::Test {
 protected:
  void SetUp() override {
    library_ = dlopen(TANGRAM_FAKE_NVML, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
  }
  void TearDown() override {
    unsetenv("FAKE_NVML_R470");
    dlclose(library_);
  }

  // What the program reads of one GPU of this board, and of `more` about it.
  DriverGpu read(const std::string& board, bool mig = true, const std::string& more = "") {
    const std::string modes = mig ? " 1 1" : " 0 0";
    function<void(const char*)>("fake_nvml_load")(("gpu " + board + " GPU-a" + modes + " 0 0 0\n" + more).c_str());
    return probe_nvml(TANGRAM_FAKE_NVML).gpus.at(0);
  }
  std::vector<std::string> boards() {
    std::istringstream text(function<const char*()>("fake_nvml_boards")());
    std::vector<std::string> list;
    for (std::string line; text >> line;) list.push_back(line);
    return list;
  }

  template <typename Signature>
  Signature* function(const char* name) {
    return reinterpret_cast<Signature*>(dlsym(library_, name));
  }

 private:
  void* library_ = nullptr;
};

// The figures are those of the MIG user guide for an A100 40GB.
TEST_F(Declarations, ReadAGpuAsItsDriverDescribesIt) {
  const auto gpu = read("a100-40gb");
  EXPECT_EQ(gpu.name, "NVIDIA A100-SXM4-40GB");
  EXPECT_EQ(gpu.uuid, "GPU-a");
  EXPECT_EQ(gpu.pci_device_id, 0x20B0);
  EXPECT_EQ(gpu.pci_bus_id, "00000000:01:00.0");
  EXPECT_EQ(gpu.memory_gib, 40);
  ASSERT_EQ(gpu.profiles.size(), 7U);
  const auto& three = gpu.profiles.at(2);
  EXPECT_EQ(three.name, "3g.20gb");
  EXPECT_EQ(three.number, 2);
  EXPECT_EQ(three.vendor_id, 9);
  EXPECT_EQ(three.sm_count, 42);
  EXPECT_EQ(three.memory_gib, 19.5);
  EXPECT_EQ(three.count_max, 2);
  EXPECT_THAT(three.starts, ElementsAre(0, 4));
  EXPECT_EQ(three.units, 4);
}

// Before R510 the structure has neither version nor name.
TEST_F(Declarations, ReadProfilesOfAnOldDriver) {
  const auto named = read("h100-80gb").profiles;
  setenv("FAKE_NVML_R470", "1", 1);
  const auto plain = read("h100-80gb").profiles;
  ASSERT_EQ(plain.size(), named.size());
  EXPECT_THAT(plain, Each(Field(&DriverProfile::name, "")));
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_EQ(plain[i].vendor_id, named[i].vendor_id);
    EXPECT_EQ(plain[i].sm_count, named[i].sm_count);
    EXPECT_EQ(plain[i].memory_gib, named[i].memory_gib);
    EXPECT_EQ(plain[i].count_max, named[i].count_max);
  }
}

// Slice 5 is a 3g at 4, in parts of two and of one compute slice, with a process on it.
TEST_F(Declarations, ReadSlicesPartsAndProcesses) {
  const auto gpu = read("a100-80gb", true,
                        "slice 0 5 9 4\npart 0 5 1 1 0 MIG-two\npart 0 5 2 0 2 MIG-one\nprocess 0 5 " +
                            std::to_string(getpid()) + "\nprocess 0 5 " + std::to_string(getppid()) + "\n");
  ASSERT_EQ(gpu.slices.size(), 1U);
  const auto& slice = gpu.slices[0];
  EXPECT_EQ(slice.id, 5);
  EXPECT_EQ(slice.vendor_id, 9);
  EXPECT_EQ(slice.start, 4);
  EXPECT_EQ(slice.units, 4);
  EXPECT_FALSE(slice.whole);
  ASSERT_EQ(slice.parts.size(), 2U);
  EXPECT_EQ(slice.parts[0].number, 1);
  EXPECT_EQ(slice.parts[0].start, 0);
  EXPECT_EQ(slice.parts[0].uuid, "MIG-two");
  EXPECT_EQ(slice.parts[1].number, 0);
  EXPECT_EQ(slice.parts[1].start, 2);
  EXPECT_EQ(slice.parts[1].uuid, "MIG-one");
  ASSERT_EQ(gpu.processes.size(), 2U);
  EXPECT_EQ(gpu.processes[0].pid, getpid());
  EXPECT_EQ(gpu.processes[1].pid, getppid());
  EXPECT_THAT(gpu.processes, Each(Field(&DriverProcess::slice_start, 4)));
}

TEST_F(Declarations, ReadNoSliceOfAProcessWithoutMig) {
  const auto gpu = read("a100-80gb", false, "process 0 0 " + std::to_string(getpid()) + "\n");
  ASSERT_EQ(gpu.processes.size(), 1U);
  EXPECT_EQ(gpu.processes[0].slice_start, std::nullopt);
}

// A number that no driver knows is an invalid argument, one that this board does not have is not supported. So the
// numbers that we ask for must end where the library's do.
TEST_F(Declarations, AskForEveryNumberThatTheLibraryKnows) {
  using namespace nvml_abi;
  read("a100-80gb", true, "slice 0 5 9 4\n");
  ASSERT_EQ(function<Status()>("nvmlInit_v2")(), kSuccess);
  DeviceHandle device = nullptr;
  ASSERT_EQ(function<Status(unsigned, DeviceHandle*)>("nvmlDeviceGetHandleByIndex_v2")(0, &device), kSuccess);
  auto* profile_info = function<Status(DeviceHandle, unsigned, ProfileInfo*)>("nvmlDeviceGetGpuInstanceProfileInfo");
  unsigned number = 0;
  for (ProfileInfo info{}; profile_info(device, number, &info) != kInvalidArgument && number < 99;) ++number;
  EXPECT_EQ(number, kProfileNumbers);

  GpuInstanceHandle slice = nullptr;
  unsigned count = 1;
  ASSERT_EQ(function<Status(DeviceHandle, unsigned, GpuInstanceHandle*, unsigned*)>("nvmlDeviceGetGpuInstances")(
                device, 9, &slice, &count),
            kSuccess);
  auto* part_info = function<Status(GpuInstanceHandle, unsigned, unsigned, ComputeProfileInfo*)>(
      "nvmlGpuInstanceGetComputeInstanceProfileInfo");
  number = 0;
  for (ComputeProfileInfo info{}; part_info(slice, number, kSharedEngines, &info) != kInvalidArgument && number < 99;) {
    ++number;
  }
  EXPECT_EQ(number, kComputeProfileNumbers);
  // All of the profile's fields, in their order: three compute slices of 42 multiprocessors, once; three copy engines
  // and two decoders.
  ComputeProfileInfo whole{};
  ASSERT_EQ(part_info(slice, 2, kSharedEngines, &whole), kSuccess);
  EXPECT_EQ(whole.id, 2U);
  EXPECT_EQ(whole.slice_count, 3U);
  EXPECT_EQ(whole.instance_count, 1U);
  EXPECT_EQ(whole.multiprocessor_count, 42U);
  EXPECT_EQ(whole.shared_copy_engine_count, 3U);
  EXPECT_EQ(whole.shared_decoder_count, 2U);
  function<Status()>("nvmlShutdown")();
}

TEST_F(Declarations, MeanByAStatusWhatTheLibraryMeans) {
  using namespace nvml_abi;
  const NvmlLibrary library(TANGRAM_FAKE_NVML);
  const std::pair<Status, const char*> words[] = {
      {kSuccess, "Success"},
      {kUninitialised, "Uninitialized"},
      {kInvalidArgument, "Invalid Argument"},
      {kNotSupported, "Not Supported"},
      {kNoPermission, "Insufficient Permissions"},
      {kNotFound, "Not Found"},
      {kInsufficientSize, "Insufficient Size"},
      {kDriverNotLoaded, "Driver Not Loaded"},
      {kTimeout, "Timeout"},
      {kGpuIsLost, "GPU is lost"},
      {kResetRequired, "GPU requires reset"},
      {kInUse, "In use by another client"},
      {kInsufficientResources, "Insufficient Resources"},
      {kVersionMismatch, "API call argument version mismatch"},
  };
  for (const auto& [status, text] : words) EXPECT_EQ(library.describe(status), text);
}

// Every board of the library is one of our tables, found by its PCI id, and both describe the same profiles.
TEST_F(Declarations, AgreeWithTheTablesOnEveryBoard) {
  ASSERT_FALSE(boards().empty());
  for (const auto& board : boards()) {
    SCOPED_TRACE(board);
    const auto gpu = read(board);
    const Geometry* geometry = find_geometry_by_pci(gpu.pci_device_id);
    ASSERT_NE(geometry, nullptr);
    EXPECT_EQ(geometry->type, board);
    EXPECT_THAT(compare_profiles(*geometry, gpu), IsEmpty());
    ASSERT_EQ(gpu.profiles.size(), geometry->profiles.size());
    for (const auto& theirs : gpu.profiles) {
      const auto ours = std::ranges::find(geometry->profiles, theirs.vendor_id, &MigProfile::vendor_id);
      ASSERT_NE(ours, geometry->profiles.end());
      // We may count on less memory than there is, for drivers differ; never on more than a rounding.
      EXPECT_LE(ours->memory_gib.value, theirs.memory_gib + 0.01) << theirs.name;
      EXPECT_GE(ours->memory_gib.value, theirs.memory_gib - 0.3) << theirs.name;
    }
  }
}

// What a table allows, the driver makes: every profile once at each of its starts, as one part.
TEST_F(Declarations, CutEveryProfileAtEveryStartOfTheTables) {
  for (const auto& board : boards()) {
    const Geometry& geometry = *find_geometry(board);
    for (const auto& profile : geometry.profiles) {
      for (const int start : profile.starts) {
        read(board);
        const auto driver = MigDriver::open(TANGRAM_FAKE_NVML);
        ASSERT_TRUE(driver);
        const auto made = (*driver)->create("GPU-a", {profile.vendor_id, start, {}});
        ASSERT_TRUE(made) << board << " " << profile.name << "@" << start << ": " << made.error().message;
        const auto slice = (*driver)->read().gpus.at(0).slices.at(0);
        EXPECT_EQ(slice.start, start);
        EXPECT_TRUE(slice.whole) << board << " " << profile.name;
      }
    }
  }
}

}  // namespace
}  // namespace tangram::adapters
