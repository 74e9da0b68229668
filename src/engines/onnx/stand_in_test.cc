// The engine against a strict stand-in of the library (tests/fake_onnxruntime): versions, providers and refusals that
// this machine cannot show. The stand-in reads its variables when it is loaded, so each test has a process of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "engines/onnx/onnx_session.h"
#include "engines/tensor_memory.h"

namespace tangram::engines::ort {
namespace {

namespace fs = std::filesystem;
using testing::ExitedWithCode;

constexpr const char* kDevice = "MIG-4a9c1f5e-0000-0000-0000-000000000001";
const Signature kSignature{{{"x", Datatype::fp32, {kVariableAxis}}}, {{"y", Datatype::uint8, {2}}}};

class OnnxStandIn : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    folder_ = fs::temp_directory_path() /
              ("tangram-onnx-stand-in-" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::create_directories(folder_);
    std::ofstream(model()) << "input x float -1 -1\noutput y uint8 -1 2\n";
    fs::remove(folder_ / "log");
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string model() const { return folder_ / "model.onnx"; }

  // What the child does: opens the model as a slice with `config` would, runs a batch of `size`, prints the first
  // error, and exits with 0 if there was none.
  [[noreturn]] void child(const BatchEngineConfig& config, std::int64_t size) const {
    setenv("TANGRAM_FAKE_ORT_LOG", (folder_ / "log").c_str(), 1);
    const auto done = open_and_run(config, size);
    if (!done) std::fprintf(stderr, "error: %s\n", done.error().message.c_str());
    std::_Exit(done ? 0 : done.error().code == ErrorCode::exhausted ? 2 : 1);
  }
  Result<Nothing> open_and_run(const BatchEngineConfig& config, std::int64_t size) const {
    TANGRAM_TRY(const auto library, open_library(TANGRAM_FAKE_ONNXRUNTIME));
    TANGRAM_TRY(const auto runtime, Runtime::make(library, config));
    TANGRAM_TRY(const auto session, OnnxSession::open(*runtime, model()));
    TANGRAM_RETURN_IF_ERROR(session->check(kSignature));
    OwnedRunOptions control(library.api);
    TANGRAM_RETURN_IF_ERROR(check(library.api, library.api.call<Place::create_run_options>(control.out()), ""));
    const BatchJob job{.samples = 1, .size = size};
    std::vector<std::byte> room(*memory_needed(kSignature, job), std::byte{1});
    BatchMemory memory;
    cut_memory(kSignature, job, room.data(), memory);
    TANGRAM_RETURN_IF_ERROR(session->run(kSignature, job, memory, control.get()));
    // 4 bytes of 1 for each element.
    if (memory.outputs[0][1] != static_cast<std::byte>(4 * size)) return invalid_input("the output is wrong");
    return Nothing{};
  }
  std::string log() const {
    std::ifstream file(folder_ / "log");
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  static BatchEngineConfig gpu_slice() { return {.device = "a100-80gb", .mig_profile = "1g.10gb", .memory_mib = 9728}; }

  fs::path folder_;
};

TEST_F(OnnxStandIn, RunsOnTheCoresOfTheHost) {
  EXPECT_EXIT(child({.memory_mib = 4096}, 5), ExitedWithCode(0), "");
  EXPECT_THAT(log(), testing::HasSubstr("session cpu"));
  EXPECT_THAT(log(), testing::StartsWith("arena limit "));
}

TEST_F(OnnxStandIn, RefusesALibraryThatIsTooOldAndTakesTheOldestThatItKnows) {
  EXPECT_EXIT((setenv("TANGRAM_FAKE_ORT_VERSION", "1.10.2", 1), child({}, 5)), ExitedWithCode(1),
              "is ONNX Runtime 1.10.2; expected 1.11 or later");
  EXPECT_EXIT((setenv("TANGRAM_FAKE_ORT_VERSION", "2.0.0", 1), child({}, 5)), ExitedWithCode(1),
              "is ONNX Runtime 2.0.0");
  EXPECT_EXIT((setenv("TANGRAM_FAKE_ORT_VERSION", "1.11.0", 1), child({}, 5)), ExitedWithCode(0), "");
}

// 9,728 MiB of a 1g.10gb without the 512 MiB of CUDA are 9,216 MiB, or 9,663,676,416 bytes.
TEST_F(OnnxStandIn, UsesCudaWithTheMemoryOfTheSlice) {
  EXPECT_EXIT((setenv("TANGRAM_FAKE_ORT_PROVIDERS", "cuda", 1), setenv("CUDA_VISIBLE_DEVICES", kDevice, 1),
               child(gpu_slice(), 5)),
              ExitedWithCode(0), "");
  EXPECT_THAT(log(), testing::HasSubstr(std::string("cuda ") + kDevice + " limit 9663676416\n"));
  EXPECT_THAT(log(), testing::HasSubstr("session cuda\n"));
}

TEST_F(OnnxStandIn, KeepsTheEnginesOfTensorrtApartByMigProfile) {
  auto config = gpu_slice();
  config.provider = "tensorrt";
  EXPECT_EXIT((setenv("TANGRAM_FAKE_ORT_PROVIDERS", "cuda,tensorrt", 1), setenv("CUDA_VISIBLE_DEVICES", kDevice, 1),
               setenv("XDG_CACHE_HOME", folder_.c_str(), 1), child(config, 5)),
              ExitedWithCode(0), "");
  EXPECT_THAT(log(), testing::HasSubstr("tensorrt/a100-80gb/1g.10gb\n"));
  EXPECT_THAT(log(), testing::HasSubstr("session tensorrt cuda\n"));
}

// A folder that everybody may write to is no place for programs, and doctor, which knows no slice, leaves no folder.
TEST_F(OnnxStandIn, KeepsNoEnginesOfTensorrtWithoutAHomeOrASlice) {
  auto config = gpu_slice();
  config.provider = "tensorrt";
  EXPECT_EXIT((setenv("TANGRAM_FAKE_ORT_PROVIDERS", "cuda,tensorrt", 1), setenv("CUDA_VISIBLE_DEVICES", kDevice, 1),
               unsetenv("XDG_CACHE_HOME"), unsetenv("HOME"), child(config, 5)),
              ExitedWithCode(0), "");
  EXPECT_THAT(log(), testing::HasSubstr("tensorrt cache none\n"));
  config.mig_profile.clear();
  EXPECT_EXIT((setenv("TANGRAM_FAKE_ORT_PROVIDERS", "cuda,tensorrt", 1), setenv("CUDA_VISIBLE_DEVICES", kDevice, 1),
               setenv("XDG_CACHE_HOME", folder_.c_str(), 1), child(config, 5)),
              ExitedWithCode(0), "");
  EXPECT_THAT(log(), testing::Not(testing::HasSubstr("tensorrt cache /")));
  EXPECT_FALSE(fs::exists(folder_ / "tangram"));
}

TEST_F(OnnxStandIn, SaysWhichProviderIsNotThere) {
  EXPECT_EXIT(
      (setenv("CUDA_VISIBLE_DEVICES", kDevice, 1), child(gpu_slice(), 5)), ExitedWithCode(1),
      "provider cuda of ONNX Runtime cannot be used: Failed to load library libonnxruntime_providers_shared.so");
  auto config = gpu_slice();
  config.provider = "tensorrt";
  EXPECT_EXIT(
      (setenv("TANGRAM_FAKE_ORT_PROVIDERS", "cuda", 1), setenv("CUDA_VISIBLE_DEVICES", kDevice, 1), child(config, 5)),
      ExitedWithCode(1), "provider tensorrt of ONNX Runtime cannot be used");
}

// The stand-in ends a process that would run on another device than its slice: it shows that the tests above can fail.
TEST_F(OnnxStandIn, IsStrictAboutTheDeviceOfTheProcess) {
  EXPECT_EXIT(
      (setenv("TANGRAM_FAKE_ORT_PROVIDERS", "cuda", 1), setenv("CUDA_VISIBLE_DEVICES", "0", 1), child(gpu_slice(), 5)),
      testing::KilledBySignal(SIGABRT), "strict: CUDA_VISIBLE_DEVICES was \"0\"");
}

// 560 MiB of input where 513 are left.
TEST_F(OnnxStandIn, TellsThatTheMemoryOfTheSliceDoesNotSuffice) {
  auto config = gpu_slice();
  config.memory_mib = 1025;  // 513 MiB for tensors.
  EXPECT_EXIT((setenv("TANGRAM_FAKE_ORT_PROVIDERS", "cuda", 1), setenv("CUDA_VISIBLE_DEVICES", kDevice, 1),
               child(config, 140 << 20)),
              ExitedWithCode(2), "out of memory: BFCArena");
}

TEST_F(OnnxStandIn, SaysThatAFileIsNoModel) {
  std::ofstream(model()) << "nothing";
  EXPECT_EXIT(child({}, 5), ExitedWithCode(1), "Protobuf parsing failed");
}

}  // namespace
}  // namespace tangram::engines::ort
