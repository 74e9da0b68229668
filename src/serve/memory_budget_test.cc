#include "serve/memory_budget.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

namespace tangram::serve {
namespace {

TEST(MemoryBudget, AChargeCountsForAllItsAccountsOrForNone) {
  MemoryAccount connection(100);
  MemoryAccount tenant(50);
  MemoryAccount whole(1000);
  Charge charge(MemoryPlaces{&connection, &tenant, &whole});
  EXPECT_TRUE(charge.grow(50));
  EXPECT_FALSE(charge.grow(1));  // The tenant's 50 are used.
  EXPECT_EQ(charge.bytes(), 50u);
  EXPECT_EQ(connection.used(), 50u);
  EXPECT_EQ(whole.used(), 50u);
  EXPECT_EQ(tenant.refused(), 1u);
  charge.shrink(20);
  EXPECT_EQ(tenant.used(), 30u);
  EXPECT_EQ(whole.used_max(), 50u);
}

TEST(MemoryBudget, AChargeIsGivenBackExactlyOnceWhoeverHoldsIt) {
  MemoryAccount whole(1000);
  {
    Charge first(MemoryPlaces{nullptr, nullptr, &whole});
    ASSERT_TRUE(first.grow(400));
    Charge second = std::move(first);
    EXPECT_EQ(first.bytes(), 0u);  // NOLINT(bugprone-use-after-move): what is left is what is tested.
    Charge third(MemoryPlaces{nullptr, nullptr, &whole});
    ASSERT_TRUE(third.grow(100));
    third = std::move(second);
    EXPECT_EQ(whole.used(), 400u);
  }
  EXPECT_EQ(whole.used(), 0u);
}

TEST(MemoryBudget, AChargeMovesFromTheStrangersToTheTenantOnlyIfThatHasRoom) {
  MemoryAccount strangers(100);
  MemoryAccount tenant(30);
  MemoryAccount other(200);
  MemoryAccount whole(1000);
  Charge charge(MemoryPlaces{nullptr, &strangers, &whole});
  ASSERT_TRUE(charge.grow(60));
  EXPECT_FALSE(charge.move_to_group(&tenant));
  EXPECT_EQ(strangers.used(), 60u);
  EXPECT_TRUE(charge.move_to_group(&other));
  EXPECT_EQ(strangers.used(), 0u);
  EXPECT_EQ(other.used(), 60u);
  EXPECT_EQ(whole.used(), 60u);
}

TEST(MemoryBudget, AChargeThatLeavesItsConnectionCountsForTheOthersAlone) {
  MemoryAccount connection(100);
  MemoryAccount whole(1000);
  Charge charge(MemoryPlaces{&connection, nullptr, &whole});
  ASSERT_TRUE(charge.grow(60));
  charge.leave_connection();
  EXPECT_EQ(connection.used(), 0u);
  EXPECT_TRUE(charge.grow(100));
  EXPECT_EQ(whole.used(), 160u);
}

TEST(MemoryBudget, ANumberNearTheTopOfTheRangeIsRefusedAndDoesNotWrapAround) {
  MemoryAccount whole;
  Charge charge(MemoryPlaces{nullptr, nullptr, &whole});
  ASSERT_TRUE(charge.grow(10));
  EXPECT_FALSE(charge.grow(std::numeric_limits<std::uint64_t>::max()));
  EXPECT_FALSE(charge.grow(std::numeric_limits<std::uint64_t>::max() - 5));
  EXPECT_EQ(whole.used(), 10u);
}

// Four threads charge 1 to 7 bytes 100,000 times against a limit that three of them reach together.
TEST(MemoryBudget, ThreadsNeverGetMoreThanTheLimitTogether) {
  MemoryAccount whole(1000);
  std::atomic<std::int64_t> held{0};
  std::atomic<bool> exceeded{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<Charge> mine;
      for (int i = 0; i < 100'000; ++i) {
        Charge charge(MemoryPlaces{nullptr, nullptr, &whole});
        const auto bytes = static_cast<std::int64_t>(1 + (i + t) % 7);
        if (charge.grow(static_cast<std::uint64_t>(bytes))) {
          // Counted after the charge and taken back before it, so `held` never exceeds what is charged.
          if (held.fetch_add(bytes) + bytes > 1000) exceeded = true;
          mine.push_back(std::move(charge));
        }
        if (mine.size() == 90 || i % 11 == 0) {
          for (const auto& old : mine) held.fetch_sub(static_cast<std::int64_t>(old.bytes()));
          mine.clear();
        }
      }
      for (const auto& old : mine) held.fetch_sub(static_cast<std::int64_t>(old.bytes()));
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_FALSE(exceeded);
  EXPECT_EQ(whole.used(), 0u);
}

// 1,000 pieces of 100 bytes: the copies of the doublings never make the charge exceed old and new text together.
TEST(MemoryBudget, ATextThatGrowsIsChargedWhatItHolds) {
  MemoryAccount whole;
  Charge charge(MemoryPlaces{nullptr, nullptr, &whole});
  ASSERT_TRUE(charge.grow(7));  // Something else that the same request holds.
  std::string text;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(grow_charged(text, text.size() + 100, 0, charge));
    text.append(100, 'x');
    ASSERT_EQ(charge.bytes(), 7 + text.size());
  }
  EXPECT_LE(whole.used_max(), 7u + 2 * text.size());
}

TEST(MemoryBudget, ATextThatFindsNoRoomStaysWhatItWas) {
  MemoryAccount whole(5000);
  Charge charge(MemoryPlaces{nullptr, nullptr, &whole});
  std::string text;
  ASSERT_TRUE(grow_charged(text, 4000, 0, charge));
  text.append(4000, 'x');
  EXPECT_FALSE(grow_charged(text, 6000, 0, charge));
  EXPECT_EQ(text.size(), 4000u);
  EXPECT_EQ(charge.bytes(), 4000u);
}

// Of a text of 8 MiB, the memory is moved a few times until 1 MiB has come, and never again.
TEST(MemoryBudget, ATextOfAKnownSizeIsReservedWhenAnEighthOfItHasCome) {
  Charge charge;
  std::string text;
  ASSERT_TRUE(grow_charged(text, 1000, 8 << 20, charge));
  EXPECT_LT(text.capacity(), 10'000u);
  text.resize(1000);
  ASSERT_TRUE(grow_charged(text, 1 << 20, 8 << 20, charge));
  EXPECT_GE(text.capacity(), std::size_t{8} << 20);
}

TEST(MemoryBudget, ThePartsTogetherAreTheWhole) {
  MemoryBudget budget(std::uint64_t{128} << 20);
  EXPECT_EQ(budget.data().limit() + budget.admin().limit(), std::uint64_t{128} << 20);
  EXPECT_EQ(budget.admin().limit(), std::uint64_t{16} << 20);
  EXPECT_EQ(MemoryBudget(std::uint64_t{1} << 30).admin().limit(), std::uint64_t{32} << 20);
  EXPECT_EQ(MemoryBudget(1).bytes(), MemoryBudget::kLeast);
}

// A file system with the files that the kernel shows.
class ContainerMemory : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "container_memory";
    std::filesystem::remove_all(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void put(const std::string& path, const std::string& content) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << content;
  }
  std::string root_;
};

TEST_F(ContainerMemory, IsTheSmallestLimitAboveTheProcessInVersion2) {
  put("/proc/self/cgroup", "0::/system.slice/tangram.service\n");
  put("/sys/fs/cgroup/system.slice/memory.max", "536870912\n");
  put("/sys/fs/cgroup/system.slice/tangram.service/memory.max", "max\n");
  EXPECT_EQ(container_memory_max(root_), std::uint64_t{512} << 20);
  EXPECT_EQ(default_memory_max(root_), std::uint64_t{128} << 20);
}

// In a container with a cgroup namespace, the path is that of the root.
TEST_F(ContainerMemory, IsThatOfTheMountInsideAContainer) {
  put("/proc/self/cgroup", "0::/\n");
  put("/sys/fs/cgroup/memory.max", "268435456\n");
  EXPECT_EQ(container_memory_max(root_), std::uint64_t{256} << 20);
}

TEST_F(ContainerMemory, IsReadInVersion1WhereThePathIsTheHosts) {
  put("/proc/self/cgroup", "12:cpu,cpuacct:/docker/abc\n5:memory:/docker/abc\n0::/\n");
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
  EXPECT_EQ(container_memory_max(root_), std::uint64_t{1} << 30);
}

TEST_F(ContainerMemory, IsNothingWithoutALimitOrWithoutTheFiles) {
  EXPECT_FALSE(container_memory_max(root_));
  put("/proc/self/cgroup", "5:memory:/\n0::/\n");
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  put("/sys/fs/cgroup/memory.max", "max\n");
  EXPECT_FALSE(container_memory_max(root_));
  EXPECT_LE(default_memory_max(root_), MemoryBudget::kDefaultMax);
  EXPECT_GE(default_memory_max(root_), MemoryBudget::kLeast);
}

}  // namespace
}  // namespace tangram::serve
