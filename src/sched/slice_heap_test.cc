#include "sched/slice_heap.h"

#include <gtest/gtest.h>

#include <map>

#include "base/rng.h"

namespace tangram::sched {
namespace {

TEST(SliceHeap, OrdersEqualKeysBySlice) {
  std::vector<std::uint32_t> positions(3);
  SliceHeap heap(&positions);
  for (const std::uint32_t slice : {2u, 0u, 1u}) heap.insert(SliceId(slice), 7);
  EXPECT_EQ(heap.front(), SliceId(0));
  heap.erase(SliceId(0));
  EXPECT_EQ(heap.front(), SliceId(1));
}

// Random inserts, updates and erasures, beside a map that is searched from end to end.
TEST(SliceHeap, AgreesWithASearchOverAllSlices) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Rng rng(seed);
    constexpr std::uint32_t kSlices = 60;
    std::vector<std::uint32_t> positions(kSlices);
    SliceHeap heap(&positions);
    std::map<std::uint32_t, std::int64_t> keys;
    for (int step = 0; step < 3000; ++step) {
      const auto slice = static_cast<std::uint32_t>(rng.below(kSlices));
      const std::int64_t key = rng.integer(0, 40);
      if (!keys.contains(slice)) {
        heap.insert(SliceId(slice), key);
        keys[slice] = key;
      } else if (rng.chance(0.6)) {
        heap.update(SliceId(slice), key);
        keys[slice] = key;
      } else {
        heap.erase(SliceId(slice));
        keys.erase(slice);
      }
      ASSERT_EQ(heap.size(), keys.size());
      ASSERT_EQ(heap.empty(), keys.empty());
      // Without putting anything in order, one of those that are in it.
      ASSERT_TRUE(keys.empty() || keys.contains(heap.any().value()));
      // Who looks only now and then finds what all updates since have made of it.
      if (keys.empty() || rng.chance(0.5)) continue;
      std::pair<std::int64_t, std::uint32_t> least{INT64_MAX, 0};
      for (const auto& [s, k] : keys) least = std::min(least, std::pair(k, s));
      ASSERT_EQ(heap.front(), SliceId(least.second));
    }
  }
}

}  // namespace
}  // namespace tangram::sched
