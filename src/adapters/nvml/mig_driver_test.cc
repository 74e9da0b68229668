// Writes, against the stand-in library of the tests: a machine that refuses what a driver refuses.
#include "adapters/nvml/mig_driver.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "adapters/nvml/abi.h"
#include "adapters/nvml/owners.h"

namespace tangram::adapters {
namespace {

using nvml_abi::Status;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kGpu = "GPU-a";
constexpr int k1g = 19;  // The vendor's ids on boards with eight units.
constexpr int k1gDouble = 15;
constexpr int k2g = 14;
constexpr int k3g = 9;
constexpr int k4g = 5;
// NVML's numbers, not taken from abi.h: were they wrong there, the driver of these tests must not agree.
constexpr int kDriverSaysNoPermission = 4;
constexpr int kDriverSaysInUse = 19;
constexpr int kDriverSaysInsufficientResources = 23;

// The machine behind the library, and what a test may do to it from outside.
class MigWrites : public testing::Test {
 protected:
  void SetUp() override {
    library_ = dlopen(TANGRAM_FAKE_NVML, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
    begin("gpu a100-80gb GPU-a 1 1 0 0 0\n");
  }
  void TearDown() override {
    fail_write(0, 0);
    driver_.reset();
    dlclose(library_);
  }

  void begin(const std::string& machine) {
    symbol<void(const char*)>("fake_nvml_load")(machine.c_str());
    auto opened = MigDriver::open(TANGRAM_FAKE_NVML);
    ASSERT_TRUE(opened) << opened.error().message;
    driver_ = std::move(*opened);
  }
  void fail_write(int number, Status status) { symbol<void(int, Status)>("fake_nvml_fail_write")(number, status); }
  std::string machine() { return symbol<const char*()>("fake_nvml_save")(); }
  DriverGpu gpu() { return driver_->read().gpus.at(0); }
  std::vector<std::string> slices() {
    std::vector<std::string> list;
    for (const auto& slice : gpu().slices) {
      list.push_back(std::to_string(slice.vendor_id) + "@" + std::to_string(slice.start) + (slice.whole ? "" : "?"));
    }
    return list;
  }

  template <typename Signature>
  Signature* symbol(const char* name) {
    return reinterpret_cast<Signature*>(dlsym(library_, name));
  }

  std::unique_ptr<MigDriver> driver_;

 private:
  void* library_ = nullptr;
};

TEST_F(MigWrites, MakeASliceWhereItIsOrderedAndAsOnePart) {
  ASSERT_TRUE(driver_->create(kGpu, {k1g, 5, {}}));
  ASSERT_TRUE(driver_->create(kGpu, {k4g, 0, {}}));
  EXPECT_THAT(slices(), ElementsAre("5@0", "19@5"));
  EXPECT_THAT(gpu().slices[0].parts.at(0).uuid, testing::StartsWith("MIG-"));
}

// An H100's double-memory slice has 26 multiprocessors with the revised part (number 7) and 16 with the plain one.
TEST_F(MigWrites, GiveASliceThePartWithAllItsMultiprocessors) {
  begin("gpu h100-80gb GPU-a 1 1 0 0 0\n");
  ASSERT_TRUE(driver_->create(kGpu, {k1gDouble, 6, {}}));
  EXPECT_EQ(gpu().slices.at(0).parts.at(0).number, 7);
  EXPECT_TRUE(gpu().slices[0].whole);
}

// On an A100 both have 14: whoever made the slice with either made it whole.
TEST_F(MigWrites, TakeEitherPartForWholeWhereBothHaveTheSame) {
  for (const int number : {0, 7}) {
    begin("gpu a100-80gb GPU-a 1 1 0 0 0\n");
    ASSERT_TRUE(driver_->create(kGpu, {k1gDouble, 6, {{{number, 0}}}}));
    EXPECT_TRUE(gpu().slices.at(0).whole) << number;
  }
}

TEST_F(MigWrites, MakePartsAsOrderedAndTellThatTheSliceIsNotWhole) {
  ASSERT_TRUE(driver_->create(kGpu, {k3g, 4, {{{1, 0}, {0, 2}}}}));
  const auto slice = gpu().slices.at(0);
  EXPECT_FALSE(slice.whole);
  ASSERT_EQ(slice.parts.size(), 2U);
  EXPECT_EQ(slice.parts[1].start, 2);
  ASSERT_TRUE(driver_->remake_parts(kGpu, {k3g, 4, {}}));
  EXPECT_TRUE(gpu().slices.at(0).whole);
  ASSERT_TRUE(driver_->destroy(kGpu, {k3g, 4, {}}));
  EXPECT_THAT(slices(), IsEmpty());
}

TEST_F(MigWrites, SayWhatTheDriverRefused) {
  ASSERT_TRUE(driver_->create(kGpu, {k2g, 0, {}}));
  const auto message = [](const Result<Nothing>& result) { return result ? "" : result.error().message; };
  EXPECT_THAT(message(driver_->create(kGpu, {k1g, 1, {}})), HasSubstr("there is no room for it"));
  EXPECT_THAT(message(driver_->create(kGpu, {k2g, 1, {}})), HasSubstr("does not allow a start at 1"));
  EXPECT_THAT(message(driver_->destroy(kGpu, {k1g, 0, {}})), HasSubstr("it does not exist"));
  EXPECT_THAT(message(driver_->create("GPU-b", {k1g, 3, {}})), HasSubstr("it does not exist"));
  fail_write(1, kDriverSaysNoPermission);
  const auto denied = driver_->create(kGpu, {k1g, 3, {}});
  EXPECT_EQ(denied.error().code, ErrorCode::denied);
  EXPECT_THAT(denied.error().message, HasSubstr("needs root"));
  EXPECT_THAT(slices(), ElementsAre("14@0"));
}

// Write 1 makes the slice, write 2 its part.
TEST_F(MigWrites, LeaveNoSliceBehindThatCannotBeUsed) {
  fail_write(2, kDriverSaysInsufficientResources);
  EXPECT_FALSE(driver_->create(kGpu, {k3g, 0, {}}));
  EXPECT_THAT(slices(), IsEmpty());
}

// Write 1 takes the part away, write 2 the slice.
TEST_F(MigWrites, PutPartsBackWhenTheSliceCannotGo) {
  ASSERT_TRUE(driver_->create(kGpu, {k3g, 0, {}}));
  fail_write(2, kDriverSaysInUse);
  EXPECT_FALSE(driver_->destroy(kGpu, {k3g, 0, {}}));
  EXPECT_THAT(slices(), ElementsAre("9@0"));
}

TEST_F(MigWrites, DoNotDestroyWhatAProcessUses) {
  ASSERT_TRUE(driver_->create(kGpu, {k3g, 4, {}}));
  begin(machine() + "process 0 1 " + std::to_string(getpid()) + "\n");
  const auto answer = driver_->destroy(kGpu, {k3g, 4, {}});
  ASSERT_FALSE(answer);
  EXPECT_THAT(answer.error().message, HasSubstr("in use"));
  EXPECT_THAT(slices(), ElementsAre("9@4"));
  ASSERT_EQ(gpu().processes.size(), 1U);
  EXPECT_EQ(gpu().processes[0].pid, getpid());
  EXPECT_EQ(gpu().processes[0].slice_start, 4);
}

TEST_F(MigWrites, SwitchTheModeOrSayThatAResetIsDue) {
  begin("gpu h100-80gb GPU-a 0 0 0 0 0\n");
  EXPECT_FALSE(driver_->create(kGpu, {k1g, 0, {}}));
  ASSERT_TRUE(driver_->set_mig_mode(kGpu, true));
  EXPECT_TRUE(driver_->create(kGpu, {k1g, 0, {}}));
  EXPECT_THAT(driver_->set_mig_mode(kGpu, false).error().message, HasSubstr("in use"));
  begin("gpu a100-80gb GPU-a 0 0 1 0 0\n");
  EXPECT_THAT(driver_->set_mig_mode(kGpu, true).error().message, HasSubstr("must be reset"));
  EXPECT_FALSE(gpu().mig_enabled);
  EXPECT_TRUE(gpu().mig_pending);
}

// Taken away and made again, a slice is the same by profile and start, and its MIG device has another UUID.
TEST_F(MigWrites, FindTheUuidOfASliceByItsPlace) {
  const Geometry& geometry = *find_geometry("a100-80gb");
  const auto profile = static_cast<std::uint16_t>(*find_profile(geometry, "3g.40gb"));
  ASSERT_TRUE(driver_->create(kGpu, {k3g, 4, {}}));
  const std::string first = find_mig_uuid(geometry, gpu(), {profile, 4});
  EXPECT_THAT(first, testing::StartsWith("MIG-"));
  EXPECT_EQ(find_mig_uuid(geometry, gpu(), {profile, 0}), "");
  ASSERT_TRUE(driver_->destroy(kGpu, {k3g, 4, {}}));
  ASSERT_TRUE(driver_->create(kGpu, {k3g, 4, {}}));
  const std::string second = find_mig_uuid(geometry, gpu(), {profile, 4});
  EXPECT_THAT(second, testing::StartsWith("MIG-"));
  EXPECT_NE(first, second);
}

// The stand-in itself: were it lax, the tests above would prove little.
TEST_F(MigWrites, AreJudgedByAStrictLibrary) {
  using namespace nvml_abi;
  DeviceHandle device = nullptr;
  ASSERT_EQ(symbol<Status(const char*, DeviceHandle*)>("nvmlDeviceGetHandleByUUID")(kGpu, &device), kSuccess);
  auto* create = symbol<Status(DeviceHandle, unsigned, const Placement*, GpuInstanceHandle*)>(
      "nvmlDeviceCreateGpuInstanceWithPlacement");
  GpuInstanceHandle slice = nullptr;
  const Placement wrong_start{2, 4};
  const Placement wrong_size{4, 3};
  const Placement right{4, 4};
  EXPECT_EQ(create(device, k3g, &wrong_start, &slice), kInvalidArgument);
  EXPECT_EQ(create(device, k3g, &wrong_size, &slice), kInvalidArgument);
  EXPECT_EQ(create(device, 77, &right, &slice), kInvalidArgument);
  EXPECT_EQ(create(nullptr, k3g, &right, &slice), kInvalidArgument);
  ASSERT_EQ(create(device, k3g, &right, &slice), kSuccess);
  ComputeInstanceHandle part = nullptr;
  const Placement whole{0, 3};
  ASSERT_EQ(symbol<Status(GpuInstanceHandle, unsigned, const Placement*, ComputeInstanceHandle*)>(
                "nvmlGpuInstanceCreateComputeInstanceWithPlacement")(slice, 2, &whole, &part),
            kSuccess);
  EXPECT_EQ(symbol<Status(GpuInstanceHandle)>("nvmlGpuInstanceDestroy")(slice), kInUse);
  ProfileInfoNamed info{};
  info.version = kProfileInfoNamedVersion + 1;
  EXPECT_EQ(symbol<Status(DeviceHandle, unsigned, ProfileInfoNamed*)>("nvmlDeviceGetGpuInstanceProfileInfoV")(device, 0,
                                                                                                              &info),
            kVersionMismatch);
  driver_.reset();
  EXPECT_EQ(symbol<Status(unsigned, DeviceHandle*)>("nvmlDeviceGetHandleByIndex_v2")(0, &device), kUninitialised);
}

TEST(MigOwners, AreFoundByTheirTraces) {
  namespace fs = std::filesystem;
  std::string root = (fs::temp_directory_path() / "tangram-owners-XXXXXX").string();
  ASSERT_NE(mkdtemp(root.data()), nullptr);
  EXPECT_THAT(other_mig_owners(root), IsEmpty());
  for (const char* folder : {"/etc/systemd/system/multi-user.target.wants", "/proc/12", "/proc/13", "/proc/14",
                             "/var/lib/nvidia-mig-manager"}) {
    fs::create_directories(root + folder);
  }
  fs::create_symlink("/gone", root + "/etc/systemd/system/multi-user.target.wants/nvidia-mig-manager.service");
  std::ofstream(root + "/proc/12/comm") << "nvidia-mig-mana\n";
  std::ofstream(root + "/proc/12/cgroup") << "0::/kubepods.slice/pod1\n";
  std::ofstream(root + "/proc/13/comm") << "nvidia-mig-part\n";
  std::ofstream(root + "/proc/14/comm") << "nvidia-persiste\n";
  std::ofstream(root + "/var/lib/nvidia-mig-manager/reboot_attempted") << "";
  EXPECT_THAT(other_mig_owners(root), ElementsAre(HasSubstr("enabled"), HasSubstr("waits for a reboot"),
                                                  HasSubstr("Kubernetes GPU operator runs (process 12)"),
                                                  HasSubstr("nvidia-mig-parted is cutting GPUs now (process 13)")));
  fs::remove_all(root);
}

// From Hopper on the driver lists 3g as 0:4, 7g as 0:8 and a 1g of twice the memory as 0:2, and takes nothing else.
TEST_F(MigWrites, PutPartsWhereTheDriverListsThem) {
  begin("gpu h100-80gb GPU-a 1 1 0 0 0\n");
  ASSERT_TRUE(driver_->create(kGpu, {k3g, 0, {}}));
  ASSERT_TRUE(driver_->create(kGpu, {k3g, 4, {{{0, 0}, {1, 2}}}}));
  EXPECT_THAT(slices(), ElementsAre("9@0", "9@4?"));
  EXPECT_EQ(gpu().slices[1].parts.at(1).start, 2);
  begin("gpu h100-80gb GPU-a 1 1 0 0 0\n");
  ASSERT_TRUE(driver_->create(kGpu, {0, 0, {}}));  // 7g.
  EXPECT_THAT(slices(), ElementsAre("0@0"));
  ASSERT_TRUE(driver_->destroy(kGpu, {0, 0, {}}));
  ASSERT_TRUE(driver_->create(kGpu, {k1gDouble, 6, {{{7, 0}}}}));
  EXPECT_THAT(slices(), ElementsAre("15@6"));
}

// A 2c of a slice of four compute units starts at 0 or 2 on a Hopper.
TEST_F(MigWrites, SayThatAPartCannotStartThere) {
  begin("gpu h100-80gb GPU-a 1 1 0 0 0\n");
  EXPECT_FALSE(driver_->create(kGpu, {k3g, 4, {{{0, 0}, {1, 1}}}}));
  EXPECT_THAT(slices(), IsEmpty());
}

// A record that is read with the wrong length has process 0 or half of another number in it.
TEST_F(MigWrites, ReadProcessesOfDriversWithLongerRecordsAndOfOldOnes) {
  const std::string machine = "gpu a100-80gb GPU-a 0 0 0 0 0\nprocess 0 0 " + std::to_string(getpid()) +
                              "\nprocess 0 0 " + std::to_string(getppid()) + "\n";
  for (const char* kind : {"", "long", "v2"}) {
    setenv("FAKE_NVML_PROCESSES", kind, 1);
    begin(machine);
    std::vector<int> pids;
    for (const auto& process : gpu().processes) pids.push_back(process.pid);
    EXPECT_THAT(pids, ElementsAre(getpid(), getppid())) << kind;
  }
  unsetenv("FAKE_NVML_PROCESSES");
}

TEST_F(MigWrites, TakeARefusedSwitchBackWhereTheGpuIsInUse) {
  begin("gpu a100-80gb GPU-a 0 0 0 0 0\nprocess 0 0 " + std::to_string(getpid()) + "\n");
  const auto switched = driver_->set_mig_mode(kGpu, true);
  ASSERT_FALSE(switched);
  EXPECT_THAT(switched.error().message, HasSubstr("it is in use"));
  EXPECT_FALSE(gpu().mig_pending);
}

TEST_F(MigWrites, SayThatARefusedSwitchWaitsForTheReset) {
  begin("gpu a100-80gb GPU-a 0 0 1 0 0\n");
  const auto switched = driver_->set_mig_mode(kGpu, true);
  ASSERT_FALSE(switched);
  EXPECT_THAT(switched.error().message, HasSubstr("MIG mode is on after the next reset of the GPU; nvidia-smi -mig 0"));
  EXPECT_TRUE(gpu().mig_pending);
}

// The stand-in answers nothing after a change of mode until a new session has begun.
TEST_F(MigWrites, BeginANewSessionAfterTheModeHasChanged) {
  begin("gpu a100-80gb GPU-a 0 0 0 0 0\n");
  ASSERT_TRUE(driver_->set_mig_mode(kGpu, true));
  ASSERT_TRUE(driver_->create(kGpu, {k1g, 5, {}}));
  EXPECT_THAT(slices(), ElementsAre("19@5"));
}

TEST_F(MigWrites, KnowThatSlicesCannotBeSeenWithoutPermission) {
  setenv("FAKE_NVML_INSTANCES", "4", 1);
  begin("gpu a100-80gb GPU-a 1 1 0 0 0\n");
  EXPECT_FALSE(gpu().slices_known);
  EXPECT_THAT(gpu().problem, HasSubstr("mig/config"));
  unsetenv("FAKE_NVML_INSTANCES");
  EXPECT_TRUE(gpu().slices_known);
}

TEST(MigDriverLibrary, SaysWhyItCannotBeLoaded) {
  EXPECT_THAT(probe_nvml("/nowhere/libnvidia-ml.so.1").problem, HasSubstr("no NVIDIA driver is installed"));
  const auto path = std::filesystem::temp_directory_path() / ("tangram-no-library-" + std::to_string(getpid()));
  std::ofstream(path) << "not a library";
  EXPECT_THAT(probe_nvml(path).problem, HasSubstr("cannot be loaded: " + path.string()));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace tangram::adapters
