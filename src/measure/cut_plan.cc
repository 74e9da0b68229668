// A set cover: each layout covers the profiles of which it has a slice. There are at most a few hundred layouts and
// fourteen profiles, so the smallest cover is found exactly, over sets of profiles as bits.

#include "measure/cut_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <set>

namespace tangram::measure {
namespace {

using ProfileBits = std::uint32_t;

ProfileBits bits_of(const Layout& layout, const std::vector<std::size_t>& wanted) {
  ProfileBits bits = 0;
  for (const auto& slice : layout.slices) {
    const auto found = std::ranges::find(wanted, slice.profile);
    if (found != wanted.end()) bits |= ProfileBits{1} << (found - wanted.begin());
  }
  return bits;
}

// Slices that have to be destroyed or created.
std::size_t slices_changed(const Layout& from, const Layout& to) {
  const auto lacking = [](const Layout& a, const Layout& b) {
    return static_cast<std::size_t>(std::ranges::count_if(
        a.slices, [&](const Slice& slice) { return std::ranges::find(b.slices, slice) == b.slices.end(); }));
  };
  return lacking(from, to) + lacking(to, from);
}

// The fewest sets of `available` that cover `goal`; empty if they do not. Cost: 2^profiles times the sets.
std::vector<ProfileBits> smallest_cover(const std::set<ProfileBits>& available, ProfileBits goal) {
  constexpr int kNever = std::numeric_limits<int>::max();
  std::vector<int> stages(goal + std::size_t{1}, kNever);
  std::vector<ProfileBits> last(goal + std::size_t{1}, 0);
  stages[0] = 0;
  // Covering more never makes a set of bits smaller, so one pass in ascending order is enough.
  for (ProfileBits covered = 0; covered < goal; ++covered) {
    if (stages[covered] == kNever) continue;
    for (const ProfileBits set : available) {
      const ProfileBits next = (covered | set) & goal;
      if (next == covered || stages[next] <= stages[covered] + 1) continue;
      stages[next] = stages[covered] + 1;
      last[next] = covered;
    }
  }
  std::vector<ProfileBits> steps;
  if (stages[goal] == kNever) return steps;
  for (ProfileBits covered = goal; covered != 0; covered = last[covered]) steps.push_back(covered & ~last[covered]);
  std::ranges::reverse(steps);
  return steps;
}

}  // namespace

Result<std::vector<CutStage>> plan_cuts(const Geometry& geometry, const std::vector<std::string>& profiles,
                                        const Layout& now) {
  if (profiles.size() > kProfilesMax) {
    return invalid_input(fmt::format("{} MigProfiles are to be measured, and at most {} can be planned for at once",
                                     profiles.size(), kProfilesMax));
  }
  std::vector<std::size_t> wanted;
  for (const auto& name : profiles) {
    TANGRAM_TRY(const auto index, find_profile(geometry, name));
    wanted.push_back(index);
  }
  TANGRAM_TRY(const auto layouts, all_layouts(geometry));
  std::vector<ProfileBits> bits;
  for (const auto& layout : layouts) bits.push_back(bits_of(layout, wanted));
  const ProfileBits all = (ProfileBits{1} << wanted.size()) - 1;
  const ProfileBits there = bits_of(now, wanted);

  std::vector<CutStage> stages;
  const auto add = [&](const Layout& layout, ProfileBits measured) {
    CutStage stage{layout, {}};
    for (std::size_t i = 0; i < profiles.size(); ++i) {
      if ((measured >> i & 1) != 0) stage.profiles.push_back(profiles[i]);
    }
    stages.push_back(std::move(stage));
  };
  if (there != 0) add(now, there);
  const auto cover = smallest_cover({bits.begin(), bits.end()}, all & ~there);
  if (cover.empty() && there != all) return invalid_input("no layout of the device has all of these MigProfiles");
  const Layout* before = &now;
  for (const ProfileBits measured : cover) {
    // The layout nearest to the one before that has all that this stage measures.
    const Layout* nearest = nullptr;
    for (std::size_t i = 0; i < layouts.size(); ++i) {
      if ((bits[i] & measured) != measured) continue;
      if (nearest == nullptr || slices_changed(*before, layouts[i]) < slices_changed(*before, *nearest)) {
        nearest = &layouts[i];
      }
    }
    add(*nearest, measured);
    before = nearest;
  }
  return stages;
}

}  // namespace tangram::measure
