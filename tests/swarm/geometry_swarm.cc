// geometry_swarm FIRST COUNT: made-up geometries, one a seed, judged by a checker that is slow, obvious and shares no
// code with core. With `catalogue` instead of numbers it judges the boards of the tables.
//
// The checker tries every subset of all placements. That is 2^n work, so made-up geometries have at most 13
// placements; the eight-unit boards have 14 in their base set and 25 with double memory and media.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string>

#include "base/rng.h"
#include "base/text.h"
#include "core/layout.h"

namespace tangram {
namespace {

constexpr std::size_t kPlacementsMax = 13;

std::vector<Slice> placements_of(const Geometry& geometry) {
  std::vector<Slice> all;
  for (std::size_t p = 0; p < geometry.profiles.size(); ++p) {
    for (const int start : geometry.profiles[p].starts) {
      all.push_back({static_cast<std::uint16_t>(p), static_cast<std::uint16_t>(start)});
    }
  }
  return all;
}

// A device that nobody builds: any unit count, any starts, any limits.
Geometry random_geometry(Rng& rng) {
  Geometry geometry;
  geometry.type = "made-up";
  geometry.title = "made-up device";
  geometry.units = static_cast<int>(rng.integer(1, 9));
  geometry.compute_slices = geometry.units;
  const auto engines = [&](int most) { return static_cast<int>(rng.integer(0, most)); };
  geometry.media = {engines(4), engines(4), engines(2), engines(1)};
  const auto profiles = rng.integer(1, 5);
  for (int i = 1; i <= profiles && placements_of(geometry).size() < kPlacementsMax; ++i) {
    MigProfile profile;
    profile.name = fmt::format("{}g.{}gb", i, 10 * i);
    profile.compute_slices = i;
    profile.units = static_cast<int>(rng.integer(1, geometry.units));
    const auto room = kPlacementsMax - placements_of(geometry).size();
    for (int start = 0; start + profile.units <= geometry.units && profile.starts.size() < room; ++start) {
      if (rng.chance(0.7)) profile.starts.push_back(start);
    }
    if (profile.starts.empty()) profile.starts.push_back(0);
    profile.count_max = static_cast<int>(rng.integer(1, 4));
    if (rng.chance(0.4)) profile.media = {engines(2), engines(2), engines(1), engines(1)};
    geometry.profiles.push_back(profile);
  }
  return geometry;
}

// The rules in the words of the vendor: no unit twice, no profile too often, no more engines than there are.
bool obeys_the_rules(const Geometry& geometry, const std::vector<Slice>& slices) {
  std::vector<int> owners(static_cast<std::size_t>(geometry.units));
  std::vector<int> counts(geometry.profiles.size());
  int engines[4] = {};
  for (const auto& slice : slices) {
    const MigProfile& profile = geometry.profiles[slice.profile];
    for (int k = 0; k < profile.units; ++k) ++owners[static_cast<std::size_t>(slice.start + k)];
    ++counts[slice.profile];
    engines[0] += profile.media.decoders;
    engines[1] += profile.media.encoders;
    engines[2] += profile.media.jpeg;
    engines[3] += profile.media.optical_flow;
  }
  for (const int owner : owners) {
    if (owner > 1) return false;
  }
  for (std::size_t p = 0; p < counts.size(); ++p) {
    if (counts[p] > geometry.profiles[p].count_max) return false;
  }
  return engines[0] <= geometry.media.decoders && engines[1] <= geometry.media.encoders &&
         engines[2] <= geometry.media.jpeg && engines[3] <= geometry.media.optical_flow;
}

// Sets of placements as bit masks over placements_of(geometry), and what brute force knows about them.
class Judge {
 public:
  Judge(const Geometry& geometry, Rng rng)
      : geometry_(geometry), rng_(rng), placements_(placements_of(geometry)), valid_(1U << placements_.size()) {
    for (std::uint32_t mask = 0; mask < valid_.size(); ++mask) {
      valid_[mask] = obeys_the_rules(geometry, slices_of(mask));
      if (valid_[mask]) multisets_.insert(multiset_of(geometry_, layout_of(mask)));
    }
  }

  // The complaints; none when core agrees with brute force in everything.
  std::vector<std::string> verdict() {
    judge_all();
    judge_maximal();
    judge_multisets();
    judge_pareto();
    judge_counts();
    judge_validity_of_random_subsets();
    judge_each_valid_layout();
    judge_realise();
    return std::move(complaints_);
  }

 private:
  std::vector<Slice> slices_of(std::uint32_t mask) const {
    std::vector<Slice> slices;
    for (std::size_t i = 0; i < placements_.size(); ++i) {
      if ((mask >> i & 1U) != 0) slices.push_back(placements_[i]);
    }
    std::ranges::stable_sort(slices, {}, &Slice::start);
    return slices;
  }
  Layout layout_of(std::uint32_t mask) const { return {slices_of(mask)}; }

  std::uint32_t mask_of(const Layout& layout) const {
    std::uint32_t mask = 0;
    for (const auto& slice : layout.slices) {
      mask |= 1U << (std::ranges::find(placements_, slice) - placements_.begin());
    }
    return mask;
  }

  void expect(bool right, const std::string& complaint) {
    constexpr std::size_t kEnough = 10;
    if (!right && complaints_.size() < kEnough) complaints_.push_back(complaint);
  }

  bool extendable(std::uint32_t mask) const {
    for (std::size_t i = 0; i < placements_.size(); ++i) {
      if ((mask >> i & 1U) == 0 && valid_[mask | 1U << i]) return true;
    }
    return false;
  }

  void expect_masks(const std::vector<Layout>& layouts, const std::set<std::uint32_t>& expected, const char* what) {
    std::set<std::uint32_t> got;
    for (const auto& layout : layouts) got.insert(mask_of(layout));
    expect(got.size() == layouts.size(), fmt::format("{}: a layout is listed twice", what));
    expect(got == expected, fmt::format("{}: {} layouts, brute force {}", what, got.size(), expected.size()));
  }

  void judge_all() {
    std::set<std::uint32_t> expected;
    for (std::uint32_t mask = 0; mask < valid_.size(); ++mask) {
      if (valid_[mask]) expected.insert(mask);
    }
    layouts_ = *all_layouts(geometry_);
    expect_masks(layouts_, expected, "all_layouts");
  }

  void judge_maximal() {
    std::set<std::uint32_t> expected;
    for (std::uint32_t mask = 0; mask < valid_.size(); ++mask) {
      if (valid_[mask] && !extendable(mask)) expected.insert(mask);
    }
    expect_masks(*maximal_layouts(geometry_), expected, "maximal_layouts");
    maximal_count_ = expected.size();
  }

  void judge_multisets() {
    const auto got = *distinct_multisets(geometry_);
    expect(std::ranges::is_sorted(got), "distinct_multisets is not ascending");
    expect(std::set<Multiset>(got.begin(), got.end()) == multisets_ && got.size() == multisets_.size(),
           fmt::format("distinct_multisets: {}, brute force {}", got.size(), multisets_.size()));
  }

  void judge_pareto() {
    std::set<Multiset> expected;
    for (const auto& inner : multisets_) {
      const bool contained = std::ranges::any_of(multisets_, [&](const Multiset& outer) {
        bool larger = outer != inner;
        for (std::size_t p = 0; p < inner.size(); ++p) larger = larger && outer[p] >= inner[p];
        return larger;
      });
      if (!contained) expected.insert(inner);
    }
    const auto got = *pareto_multisets(geometry_);
    expect(std::set<Multiset>(got.begin(), got.end()) == expected && got.size() == expected.size(),
           fmt::format("pareto_multisets: {}, brute force {}", got.size(), expected.size()));
    pareto_count_ = expected.size();
  }

  void judge_counts() {
    const LayoutCounts expected{layouts_.size(), maximal_count_, multisets_.size(), pareto_count_};
    expect(*count_layouts(geometry_) == expected, "count_layouts disagrees with the lists");
  }

  void judge_validity_of_random_subsets() {
    for (int i = 0; i < 500; ++i) {
      const auto mask = static_cast<std::uint32_t>(rng_.below(valid_.size()));
      const std::string reason = why_invalid(geometry_, layout_of(mask));
      expect(reason.empty() == valid_[mask],
             fmt::format("why_invalid({}) says \"{}\"", to_string(geometry_, layout_of(mask)), reason));
    }
  }

  void judge_each_valid_layout() {
    for (const auto& layout : layouts_) {
      const std::uint32_t mask = mask_of(layout);
      expect(why_invalid(geometry_, layout).empty(), "why_invalid refuses " + to_string(geometry_, layout));
      for (std::size_t i = 0; i < placements_.size(); ++i) {
        const bool expected = (mask >> i & 1U) == 0 && valid_[mask | 1U << i];
        expect(fits(geometry_, layout, placements_[i]) == expected,
               fmt::format("fits({}, {}@{}) is not {}", to_string(geometry_, layout),
                           geometry_.profiles[placements_[i].profile].name, placements_[i].start, expected));
      }
      judge_text(layout);
      judge_advice(layout, mask);
    }
  }

  void judge_text(const Layout& layout) {
    const std::string text = to_string(geometry_, layout);
    const auto parsed = parse_layout(geometry_, text);
    expect(parsed.problems.empty() && parsed.layout == layout, "does not read back: " + text);
  }

  // How many places are left for each profile once `mask` is placed, from the largest profile down.
  std::vector<int> places_left(std::uint32_t mask) const {
    std::map<std::pair<std::pair<int, int>, std::size_t>, int> places;
    for (std::size_t i = 0; i < placements_.size(); ++i) {
      const std::size_t p = placements_[i].profile;
      const auto& profile = geometry_.profiles[p];
      const bool free = (mask >> i & 1U) == 0 && valid_[mask | 1U << i];
      places[{{-profile.compute_slices, -profile.units}, p}] += free ? 1 : 0;
    }
    std::vector<int> result;
    for (const auto& [key, count] : places) result.push_back(count);
    return result;
  }

  void judge_advice(const Layout& layout, std::uint32_t mask) {
    for (std::size_t p = 0; p < geometry_.profiles.size(); ++p) {
      std::optional<Slice> expected;
      std::vector<int> expected_left;
      for (std::size_t i = 0; i < placements_.size(); ++i) {
        if (placements_[i].profile != p || (mask >> i & 1U) != 0 || !valid_[mask | 1U << i]) continue;
        auto left = places_left(mask | 1U << i);
        if (expected && left <= expected_left) continue;
        expected = placements_[i];
        expected_left = std::move(left);
      }
      expect(advise_placement(geometry_, layout, p) == expected,
             fmt::format("advise_placement({}, {})", to_string(geometry_, layout), geometry_.profiles[p].name));
    }
  }

  void judge_realise() {
    for (int i = 0; i < 200; ++i) {
      Multiset wanted;
      for (const auto& profile : geometry_.profiles) {
        wanted.push_back(static_cast<std::uint16_t>(rng_.chance(0.5) ? 0 : rng_.integer(0, profile.count_max + 1)));
      }
      expect_realised(wanted);
    }
    for (const auto& wanted : multisets_) expect_realised(wanted);
  }

  void expect_realised(const Multiset& wanted) {
    const auto layout = realise(geometry_, wanted);
    const std::string text = to_string(geometry_, wanted);
    expect(layout.has_value() == multisets_.contains(wanted), "realise is wrong about " + text);
    if (!layout) return;
    expect(multiset_of(geometry_, *layout) == wanted, "realise holds something else than " + text);
    expect(why_invalid(geometry_, *layout).empty(), "realise breaks a rule for " + text);
  }

  const Geometry& geometry_;
  Rng rng_;
  std::vector<Slice> placements_;
  std::vector<bool> valid_;  // By mask.
  std::set<Multiset> multisets_;
  std::vector<Layout> layouts_;
  std::size_t maximal_count_ = 0;
  std::size_t pareto_count_ = 0;
  std::vector<std::string> complaints_;
};

bool judge(const Geometry& geometry, std::uint64_t seed, const std::string& how_to_repeat) {
  const auto complaints = Judge(geometry, Rng(seed).stream("judge")).verdict();
  for (const auto& complaint : complaints) fmt::print("{}: {}\n", geometry.title, complaint);
  if (!complaints.empty()) fmt::print("repeat with: {}\n", how_to_repeat);
  return complaints.empty();
}

int run_swarm(std::uint64_t first, std::uint64_t count) {
  std::uint64_t failed = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    Rng rng = Rng(seed).stream("geometry");
    failed += judge(random_geometry(rng), seed, fmt::format("geometry_swarm {} 1", seed)) ? 0 : 1;
  }
  fmt::print("{} geometries, {} failed\n", count, failed);
  return failed == 0 ? 0 : 1;
}

// The base sets take a tenth of a second together; the full set of one eight-unit board (2^25 subsets) takes ten
// seconds.
int run_catalogue(ProfileSet set) {
  int judged = 0;
  bool good = true;
  for (const auto& geometry : known_geometries()) {
    if (set > ProfileSet::base && geometry.type != "a100-40gb" && geometry.type != "a30") continue;
    good &= judge(restrict_to(geometry, set), 1, fmt::format("geometry_swarm catalogue {}", to_string(set)));
    ++judged;
  }
  fmt::print("{} boards judged\n", judged);
  return good ? 0 : 1;
}

}  // namespace
}  // namespace tangram

int main(int argc, char** argv) {
  using tangram::text::parse_integer;
  if (argc == 3 && std::string_view(argv[1]) == "catalogue") {
    if (const auto set = tangram::parse_profile_set(argv[2])) return tangram::run_catalogue(*set);
  } else if (argc == 3) {
    const auto first = parse_integer(argv[1]);
    const auto count = parse_integer(argv[2]);
    if (first >= 0 && count > 0) {
      return tangram::run_swarm(static_cast<std::uint64_t>(*first), static_cast<std::uint64_t>(*count));
    }
  }
  fmt::print(stderr, "usage: geometry_swarm FIRST_SEED COUNT | geometry_swarm catalogue base|double|me\n");
  return 2;
}
