// Against the stand-in driver, which keeps its GPUs in memory here.
#include "adapters/nvml/gpu_events.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tangram::adapters {
namespace {

using namespace std::chrono_literals;
using testing::IsEmpty;
using Kind = GpuEvent::Kind;

constexpr unsigned kWholeGpu = 0xFFFFFFFF;

class GpuEventsTest : public testing::Test {
 protected:
  void SetUp() override {
    library_ = dlopen(TANGRAM_FAKE_NVML, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
    function<void(const char*)>("fake_nvml_load")("gpu a100-80gb GPU-a 1 1 0 0 0\ngpu a100-80gb GPU-b 1 1 0 0 0\n");
  }
  void TearDown() override { dlclose(library_); }

  void raise(unsigned gpu, unsigned xid, unsigned slice = kWholeGpu) {
    function<void(unsigned, unsigned, unsigned)>("fake_nvml_xid")(gpu, xid, slice);
  }
  void set_gone(unsigned gpu, bool gone) { function<void(unsigned, int)>("fake_nvml_gone")(gpu, gone ? 1 : 0); }

  template <typename Signature>
  Signature* function(const char* name) {
    return reinterpret_cast<Signature*>(dlsym(library_, name));
  }

 private:
  void* library_ = nullptr;
};

TEST_F(GpuEventsTest, TellEveryErrorOnceAndOfWhichGpuItIs) {
  raise(0, 48);  // Before anybody listened.
  auto events = *GpuEvents::open(TANGRAM_FAKE_NVML, {{"GPU-a", true}, {"GPU-b", true}});
  EXPECT_EQ(events->problem(), "");
  EXPECT_THAT(events->wait(0ms), IsEmpty());
  raise(1, 79);
  raise(0, 43, 5);
  const auto seen = events->wait(10s);
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[0].gpu_uuid, "GPU-b");
  EXPECT_EQ(seen[0].kind, Kind::xid);
  EXPECT_EQ(seen[0].xid, 79);
  EXPECT_EQ(seen[1].gpu_uuid, "GPU-a");
  EXPECT_EQ(seen[1].xid, 43);
  EXPECT_THAT(events->wait(0ms), IsEmpty());
}

// A set with a lost GPU answers "GPU is lost" to every wait; the other GPU must be heard nevertheless.
TEST_F(GpuEventsTest, TellOfALostGpuAndGoOnWithTheOthers) {
  auto events = *GpuEvents::open(TANGRAM_FAKE_NVML, {{"GPU-a", true}, {"GPU-b", true}});
  set_gone(0, true);
  auto seen = events->wait(10s);
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].gpu_uuid, "GPU-a");
  EXPECT_EQ(seen[0].kind, Kind::unreachable);
  EXPECT_THAT(events->wait(0ms), IsEmpty()) << "it is told of once";
  raise(1, 95);
  seen = events->wait(10s);
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].gpu_uuid, "GPU-b");
  set_gone(0, false);
  seen = events->wait(0ms);
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].kind, Kind::reachable);
  raise(0, 79);
  EXPECT_EQ(events->wait(10s).size(), 1U) << "it is listened to again";
}

TEST_F(GpuEventsTest, TellAtOnceOfAGpuThatHasComeBackMeanwhile) {
  auto events = *GpuEvents::open(TANGRAM_FAKE_NVML, {{"GPU-a", false}, {"GPU-b", true}});
  const auto seen = events->wait(0ms);
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].gpu_uuid, "GPU-a");
  EXPECT_EQ(seen[0].kind, Kind::reachable);
}

TEST_F(GpuEventsTest, NeedADriver) {
  const auto events = GpuEvents::open("/nowhere.so", {});
  ASSERT_FALSE(events);
  EXPECT_THAT(events.error().message, testing::HasSubstr("/nowhere.so was not found"));
}

// 79: fallen off the bus. 13: an exception of a program's kernel. 31: a page fault of a program.
TEST(ConcernsProgramOnly, KnowsTheErrorsThatProgramsCause) {
  EXPECT_TRUE(concerns_program_only(13));
  EXPECT_TRUE(concerns_program_only(31));
  EXPECT_FALSE(concerns_program_only(48));
  EXPECT_FALSE(concerns_program_only(79));
  EXPECT_FALSE(concerns_program_only(95));
}

}  // namespace
}  // namespace tangram::adapters
