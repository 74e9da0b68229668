// Which slice of a device becomes which slice of another, and what that costs.
//
// The pairing is written twice. Contents::cost() works on numbers, because assigning thousands of devices to roles asks
// for the cost of every pair of them; pair_slices() works on the slices themselves, and decides for the pairs that were
// assigned. They must agree, or devices would be assigned by costs that no change has:
//   - Where slices may not move (`placed`), both find the same pairs, so cost() is the exact cost of those pairs.
//   - Where they may, both find the same number of pairs with equal replicas and the same number in all, by profile.
//     Among pairs whose replicas change, pair_slices() prefers equal starts and cost() the order of the slices, so
//     cost() may differ by what those changes cost, and by nothing else. Slices that others use do not move for
//     pair_slices(), while cost() takes them for empty ones.
// slice_pairs_test.cc compares them on random devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/plan.h"

namespace tangram::plan::detail {

// The same replicas in any order.
bool same_replicas(const std::vector<Replica>& a, const std::vector<Replica>& b);
// A list of replicas in one text: equal texts, the same replicas.
std::string key_of(const std::vector<Replica>& replicas);

// What it costs to run `after` on a slice that ran `before`; without unit, to be compared.
std::int64_t change_cost(const std::vector<Replica>& before, const std::vector<Replica>& after);
// What it costs to cut the slice and load its replicas, or to stop them and destroy it.
std::int64_t whole_cost(const PlannedSlice& planned);

// Two slices of one profile, before and after, by their indices into the slices of two devices.
struct SlicePair {
  std::size_t before = 0;
  std::size_t after = 0;
  bool same = false;  // The replicas are the same, too.
};

// Pairs off slices of one profile: with the same replicas first, in the same place first. `placed`: only in the same
// place. Slices that others use have partners in their own place only.
std::vector<SlicePair> pair_slices(const PlannedDevice& before, const PlannedDevice& after, bool placed);

// A slice with a number instead of a list of replicas, so that thousands of devices can be compared with each other.
struct SliceKey {
  std::uint16_t profile = 0;
  std::uint16_t start = 0;
  std::size_t content = 0;
};
using DeviceKey = std::vector<SliceKey>;

// Gives equal lists of replicas one number, and remembers what it costs to turn one list into another.
class Contents {
 public:
  DeviceKey key_of(const PlannedDevice& device);

  // What it takes to turn one device into the other; both keys are from this object. Slices that are not paired off are
  // cut. See above for `placed` and for what this has in common with pair_slices().
  std::int64_t cost(const DeviceKey& before, const DeviceKey& after, bool placed);

 private:
  static constexpr std::size_t kBits = 64;  // Only hosts have more slices; the others count as cut.

  // Ensures that equal lists, in any order, have one number.
  std::size_t number_of(const std::vector<Replica>& replicas);
  // Requires numbers of this object. change_cost() of their lists, computed once.
  std::int64_t change(std::size_t before, std::size_t after);
  // whole_cost() of the slice.
  std::int64_t whole(const SliceKey& slice) const;

  std::map<std::string, std::size_t> numbers_;  // By key_of() of the list.
  std::vector<std::vector<Replica>> lists_;     // By number.
  std::map<std::pair<std::size_t, std::size_t>, std::int64_t> changes_;
};

}  // namespace tangram::plan::detail
