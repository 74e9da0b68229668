#include "plan/detail/slice_pairs.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace tangram::plan::detail {
namespace {

// Up to seven slices of random profiles and starts, overlaps and all: the pairing does not look at room. `services`
// different replicas, of which each slice has up to `replicas_max`.
PlannedDevice random_device(Rng& rng, std::uint64_t services, std::uint64_t replicas_min, std::uint64_t replicas_max) {
  PlannedDevice device;
  const auto slices = rng.below(8);
  for (std::uint64_t i = 0; i < slices; ++i) {
    PlannedSlice planned;
    planned.slice = {static_cast<std::uint16_t>(rng.below(3)), static_cast<std::uint16_t>(i)};
    const auto replicas = replicas_min + rng.below(replicas_max - replicas_min + 1);
    for (std::uint64_t r = 0; r < replicas; ++r) {
      Replica replica;
      replica.service = std::string(1, static_cast<char>('a' + rng.below(services)));
      replica.buckets = {{1, static_cast<std::int64_t>(1 + rng.below(2))}};
      planned.replicas.push_back(std::move(replica));
    }
    device.slices.push_back(std::move(planned));
  }
  return device;
}

// The cost of the pairs that pair_slices() finds, with every other slice cut.
std::int64_t cost_of_pairs(const PlannedDevice& before, const PlannedDevice& after, bool placed) {
  std::int64_t cost = 0;
  for (const auto& planned : before.slices) cost += whole_cost(planned);
  for (const auto& planned : after.slices) cost += whole_cost(planned);
  for (const auto& pair : pair_slices(before, after, placed)) {
    const PlannedSlice& a = before.slices[pair.before];
    const PlannedSlice& b = after.slices[pair.after];
    cost += change_cost(a.replicas, b.replicas) - whole_cost(a) - whole_cost(b);
  }
  return cost;
}

// In the same place there is at most one slice on either side, so both find the same pairs.
TEST(SlicePairs, BothPairingsAgreeWhereSlicesMayNotMove) {
  Rng rng(20261117);
  for (int round = 0; round < 2'000; ++round) {
    const PlannedDevice before = random_device(rng, 3, 0, 2);
    const PlannedDevice after = random_device(rng, 3, 0, 2);
    Contents contents;
    const DeviceKey from = contents.key_of(before);
    ASSERT_EQ(contents.cost(from, contents.key_of(after), true), cost_of_pairs(before, after, true)) << round;
  }
}

// One replica for each slice, of a service that only that slice and its equals have: every change stops one and loads
// one, so costs are equal if the numbers of equal and of changed pairs are.
TEST(SlicePairs, BothPairingsFindAsManyPairsWhereSlicesMayMove) {
  Rng rng(20261118);
  for (int round = 0; round < 2'000; ++round) {
    PlannedDevice before = random_device(rng, 6, 1, 1);
    PlannedDevice after = random_device(rng, 6, 1, 1);
    for (auto* device : {&before, &after}) {
      for (auto& planned : device->slices) planned.replicas[0].buckets = {{1, 1}};
    }
    Contents contents;
    const DeviceKey from = contents.key_of(before);
    ASSERT_EQ(contents.cost(from, contents.key_of(after), false), cost_of_pairs(before, after, false)) << round;
  }
}

// 2g@0 and 2g@2 both run a. After: 2g@2 runs a and 2g@4 runs b. The 2g@2 stays as it is, and the other is changed.
TEST(SlicePairs, EqualReplicasInTheSamePlaceComeFirst) {
  Replica a;
  a.service = "a";
  Replica b;
  b.service = "b";
  PlannedDevice before;
  before.slices = {{{1, 0}, {a}}, {{1, 2}, {a}}};
  PlannedDevice after;
  after.slices = {{{1, 2}, {a}}, {{1, 4}, {b}}};
  const auto pairs = pair_slices(before, after, false);
  ASSERT_EQ(pairs.size(), 2U);
  EXPECT_EQ(pairs[0].before, 1U);
  EXPECT_EQ(pairs[0].after, 0U);
  EXPECT_TRUE(pairs[0].same);
  EXPECT_EQ(pairs[1].before, 0U);
  EXPECT_FALSE(pairs[1].same);
}

}  // namespace
}  // namespace tangram::plan::detail
