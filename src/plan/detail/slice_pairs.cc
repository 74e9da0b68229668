// Costs of changing slices, and the pairing of slices of two devices. See the header for why pairing is written twice.

#include "plan/detail/slice_pairs.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/difference.h"

namespace tangram::plan::detail {
namespace {

// Relative costs of a change. Cutting stops what runs there, loading takes seconds, retuning takes almost no time;
// only their order and rough ratio matter.
constexpr std::int64_t kCutCost = 4;
constexpr std::int64_t kLoadCost = 2;
constexpr std::int64_t kRetuneCost = 1;

std::string key_of(const Replica& replica) {
  std::string key = fmt::format("{}\n{}", replica.service, replica.processes);
  for (const auto& bucket : replica.buckets) key += fmt::format(" {}:{}", bucket.size_max, bucket.batch_size);
  return key + "\n";
}

// Sorted, because the order of replicas on a slice has no meaning.
std::vector<Replica> sorted(std::vector<Replica> replicas) {
  std::ranges::stable_sort(replicas, {}, key_of);
  return replicas;
}

}  // namespace

bool same_replicas(const std::vector<Replica>& a, const std::vector<Replica>& b) { return sorted(a) == sorted(b); }

std::string key_of(const std::vector<Replica>& replicas) {
  std::string key;
  for (const auto& replica : sorted(replicas)) key += key_of(replica);
  return key;
}

// A kept replica costs nothing, so equal lists have the cost 0.
std::int64_t change_cost(const std::vector<Replica>& before, const std::vector<Replica>& after) {
  const ReplicaChanges changes = compare_replicas(before, after);
  return kLoadCost * static_cast<std::int64_t>(changes.stopped.size() + changes.loaded.size()) +
         kRetuneCost * static_cast<std::int64_t>(changes.retuned.size());
}

std::int64_t whole_cost(const PlannedSlice& planned) {
  return kCutCost + kLoadCost * static_cast<std::int64_t>(planned.replicas.size());
}

std::vector<SlicePair> pair_slices(const PlannedDevice& before, const PlannedDevice& after, bool placed) {
  std::vector<SlicePair> pairs;
  std::vector<char> used_before(before.slices.size(), 0);
  std::vector<char> used_after(after.slices.size(), 0);
  // One pass pairs greedily, in the order of slices, under one pair of conditions. Devices have few slices, so the
  // quadratic loop is cheap.
  const auto pass = [&](bool same_content_wanted, bool same_start) {
    for (std::size_t i = 0; i < before.slices.size(); ++i) {
      for (std::size_t j = 0; j < after.slices.size() && !used_before[i]; ++j) {
        const PlannedSlice& a = before.slices[i];
        const PlannedSlice& b = after.slices[j];
        if (used_after[j] || a.slice.profile != b.slice.profile) continue;
        // What others use stays where it is, whether the others may move or not.
        const bool bound = same_start || a.reserved || b.reserved;
        if (bound && a.slice.start != b.slice.start) continue;
        const bool same = same_replicas(a.replicas, b.replicas);
        if (same_content_wanted && !same) continue;
        pairs.push_back({i, j, same});
        used_before[i] = used_after[j] = 1;
      }
    }
  };
  // What others use has its place, and no slice of ours may take it as its partner.
  for (std::size_t j = 0; j < after.slices.size(); ++j) {
    const auto i = static_cast<std::size_t>(
        std::ranges::find(before.slices, after.slices[j].slice, &PlannedSlice::slice) - before.slices.begin());
    if (!after.slices[j].reserved || i == before.slices.size()) continue;
    pairs.push_back({i, j, same_replicas(before.slices[i].replicas, after.slices[j].replicas)});
    used_before[i] = used_after[j] = 1;
  }
  // Pairs that cost nothing come first, and among them those with the planned start: later passes must not take their
  // partners away.
  pass(true, true);
  if (!placed) pass(true, false);
  pass(false, true);
  if (!placed) pass(false, false);
  return pairs;
}

DeviceKey Contents::key_of(const PlannedDevice& device) {
  DeviceKey key;
  for (const auto& planned : device.slices) {
    key.push_back({planned.slice.profile, planned.slice.start, number_of(planned.replicas)});
  }
  return key;
}

std::int64_t Contents::cost(const DeviceKey& before, const DeviceKey& after, bool placed) {
  std::int64_t cost = 0;
  // Bit sets instead of vectors: this runs for every pair of device and role, and allocating would dominate.
  std::uint64_t used_after = 0;
  std::uint64_t used_before = 0;
  const auto pair = [&](bool same_content, bool same_start) {
    for (std::size_t i = 0; i < std::min(before.size(), kBits); ++i) {
      for (std::size_t j = 0; j < std::min(after.size(), kBits) && !(used_before >> i & 1u); ++j) {
        const SliceKey& a = before[i];
        const SliceKey& b = after[j];
        if ((used_after >> j & 1u) || a.profile != b.profile) continue;
        if ((same_start && a.start != b.start) || (same_content && a.content != b.content)) continue;
        cost += change(a.content, b.content);
        used_before |= std::uint64_t{1} << i;
        used_after |= std::uint64_t{1} << j;
      }
    }
  };
  // As in pair_slices(), equal replicas first. The header says where the two may differ.
  pair(true, placed);
  pair(false, placed);
  // Slices without a partner are destroyed or created. Beyond kBits no pair is sought, which overestimates the cost.
  for (std::size_t i = 0; i < before.size(); ++i) cost += i < kBits && (used_before >> i & 1u) ? 0 : whole(before[i]);
  for (std::size_t j = 0; j < after.size(); ++j) cost += j < kBits && (used_after >> j & 1u) ? 0 : whole(after[j]);
  return cost;
}

std::size_t Contents::number_of(const std::vector<Replica>& replicas) {
  const auto [found, fresh] = numbers_.emplace(detail::key_of(replicas), lists_.size());
  if (fresh) lists_.push_back(replicas);
  return found->second;
}

std::int64_t Contents::change(std::size_t before, std::size_t after) {
  // Equal numbers mean equal lists: no comparison and no entry in the map.
  if (before == after) return 0;
  const auto [found, fresh] = changes_.emplace(std::pair(before, after), 0);
  if (fresh) found->second = change_cost(lists_[before], lists_[after]);
  return found->second;
}

std::int64_t Contents::whole(const SliceKey& slice) const {
  return kCutCost + kLoadCost * static_cast<std::int64_t>(lists_[slice.content].size());
}

}  // namespace tangram::plan::detail
