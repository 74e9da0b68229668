// Layouts of one device: what fits, how they are written, how many there are, and where to put the next slice.
//
// Enumeration walks the units from left to right; an A100 has 8 units and, with the base profiles, 19 maximal layouts,
// so nothing clever is needed. The host is different: its slices start anywhere, and the number of layouts doubles and
// more with each unit, so it is counted by formula and enumeration stops at kLayoutsMax.
//
// with_slice() keeps slices sorted by start; why_invalid() is the only function that assumes nothing about its layout.
//
// Example: on an A100-40GB, 3g.20gb@0 + 3g.20gb@4 uses all 8 units but only 6 of the 7 compute slices; it is maximal.

#include "core/layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/text.h"

namespace tangram {
namespace {

// Media engines are counted by kind; a slice takes its engines from the device as a whole.
MediaEngines& operator+=(MediaEngines& a, const MediaEngines& b) {
  a.decoders += b.decoders;
  a.encoders += b.encoders;
  a.jpeg += b.jpeg;
  a.optical_flow += b.optical_flow;
  return a;
}

bool within(const MediaEngines& a, const MediaEngines& limit) {
  return a.decoders <= limit.decoders && a.encoders <= limit.encoders && a.jpeg <= limit.jpeg &&
         a.optical_flow <= limit.optical_flow;
}

const MigProfile& profile_of(const Geometry& geometry, const Slice& slice) { return geometry.profiles[slice.profile]; }

// Requires sorted starts, as every Geometry has them.
bool may_start(const MigProfile& profile, int start) { return std::ranges::binary_search(profile.starts, start); }

// Half-open intervals of units: touching is not overlapping.
bool overlap(const Geometry& geometry, const Slice& a, const Slice& b) {
  return a.start < b.start + profile_of(geometry, b).units && b.start < a.start + profile_of(geometry, a).units;
}

// True if one more slice of `profile` stays within its own limit and the device's media engines.
bool within_limits(const Geometry& geometry, const Layout& layout, std::size_t profile) {
  int count = 1;
  MediaEngines media = geometry.profiles[profile].media;
  for (const auto& slice : layout.slices) {
    count += slice.profile == profile ? 1 : 0;
    media += profile_of(geometry, slice).media;
  }
  return count <= geometry.profiles[profile].count_max && within(media, geometry.media);
}

std::string describe(const Geometry& geometry, const Slice& slice) {
  return fmt::format("{}@{}", profile_of(geometry, slice).name, slice.start);
}

// Requires that `slice` does not fit. The reason, in the order in which fits() tests, so the media engines are what is
// left at the end.
std::string why_not(const Geometry& geometry, const Layout& layout, const Slice& slice) {
  const MigProfile& profile = profile_of(geometry, slice);
  if (!may_start(profile, slice.start)) {
    return fmt::format("{} cannot start at {}; allowed: {}", profile.name, slice.start,
                       fmt::join(profile.starts, ", "));
  }
  for (const auto& other : layout.slices) {
    if (overlap(geometry, slice, other)) {
      return fmt::format("{} overlaps {}", describe(geometry, slice), describe(geometry, other));
    }
  }
  const auto same = std::ranges::count(layout.slices, slice.profile, &Slice::profile);
  if (same >= profile.count_max) {
    return fmt::format("{} may be used {} on one {}; this is one too many", profile.name,
                       profile.count_max == 1 ? "once" : fmt::format("{} times", profile.count_max), geometry.type);
  }
  return fmt::format("{} needs media engines that other slices of this {} use", profile.name, geometry.type);
}

}  // namespace

// The text form that parse_layout() reads back.
std::string to_string(const Geometry& geometry, const Layout& layout) {
  if (layout.slices.empty()) return "empty";
  std::string text;
  for (const auto& slice : layout.slices) {
    if (!text.empty()) text += " + ";
    text += describe(geometry, slice);
  }
  return text;
}

bool fits(const Geometry& geometry, const Layout& layout, const Slice& slice) {
  if (!may_start(profile_of(geometry, slice), slice.start)) return false;
  for (const auto& other : layout.slices) {
    if (overlap(geometry, slice, other)) return false;
  }
  return within_limits(geometry, layout, slice.profile);
}

Layout with_slice(const Geometry& geometry, Layout layout, const Slice& slice) {
  TANGRAM_CHECK(fits(geometry, layout, slice), "only a slice that fits is added to a layout");
  // Slices do not overlap, so no two have the same start and the place is unique.
  const auto place = std::ranges::upper_bound(layout.slices, slice.start, {}, &Slice::start);
  layout.slices.insert(place, slice);
  return layout;
}

ParsedLayout parse_layout(const Geometry& geometry, std::string_view text) {
  ParsedLayout parsed;
  if (text::trim(text) == "empty") return parsed;
  // A plus also begins a suffix (1g.5gb+me@0), so a part ends at the first plus after its `@`.
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t at = text.find('@', begin);
    const std::size_t plus = at == std::string_view::npos ? at : text.find('+', at);
    const std::string_view whole = text.substr(begin, plus == std::string_view::npos ? plus : plus - begin);
    const std::string_view part = text::trim(whole);
    const std::size_t offset = part.empty() ? begin : static_cast<std::size_t>(part.data() - text.data());
    // Problems point at the part in the text, so that an editor or a message can mark it.
    const auto complain = [&](std::string message) { parsed.problems.push_back({offset, std::move(message)}); };

    // The start follows the last `@`.
    const std::size_t sign = part.rfind('@');
    const auto start =
        sign == std::string_view::npos ? std::nullopt : text::parse_integer(text::trim(part.substr(sign + 1)));
    if (part.empty()) {
      complain("expected a slice such as " + (geometry.profiles.empty() ? "1g@0" : geometry.profiles[0].name + "@0"));
    } else if (!start || *start < 0 || *start > UINT16_MAX) {
      complain(fmt::format("expected PROFILE@START, read \"{}\"", part));
    } else if (const auto profile = find_profile(geometry, text::trim(part.substr(0, sign))); !profile) {
      complain(profile.error().message);
    } else {
      const Slice slice{static_cast<std::uint16_t>(*profile), static_cast<std::uint16_t>(*start)};
      // Each slice is tested against those that were right so far: one bad slice does not make all later ones bad.
      if (fits(geometry, parsed.layout, slice)) {
        parsed.layout = with_slice(geometry, std::move(parsed.layout), slice);
      } else {
        complain(why_not(geometry, parsed.layout, slice));
      }
    }
    if (plus == std::string_view::npos) break;
    begin = plus + 1;
  }
  return parsed;
}

std::string why_invalid(const Geometry& geometry, const Layout& layout) {
  // Marks every unit by hand instead of comparing intervals, so that a mistake in overlap() cannot hide here. It also
  // assumes nothing about the layout: profiles may be out of range and slices out of order.
  std::vector<int> owner(static_cast<std::size_t>(geometry.units), -1);
  std::vector<int> used(geometry.profiles.size(), 0);
  MediaEngines media;
  for (std::size_t i = 0; i < layout.slices.size(); ++i) {
    const Slice& slice = layout.slices[i];
    if (slice.profile >= geometry.profiles.size()) return fmt::format("slice {} has a profile that does not exist", i);
    const MigProfile& profile = geometry.profiles[slice.profile];
    if (std::ranges::count(profile.starts, static_cast<int>(slice.start)) != 1) {
      return fmt::format("{} may not start at {}", profile.name, slice.start);
    }
    for (int unit = slice.start; unit < slice.start + profile.units; ++unit) {
      if (unit >= geometry.units) return fmt::format("{} reaches past unit {}", profile.name, geometry.units - 1);
      int& cell = owner[static_cast<std::size_t>(unit)];
      if (cell >= 0) return fmt::format("unit {} belongs to two slices", unit);
      cell = static_cast<int>(i);
    }
    if (++used[slice.profile] > profile.count_max) return fmt::format("too many {}", profile.name);
    media += profile.media;
  }
  if (!within(media, geometry.media)) return "more media engines than the device has";
  if (!std::ranges::is_sorted(layout.slices, {}, &Slice::start)) return "slices are not in order of their starts";
  return {};
}

int units_used(const Geometry& geometry, const Layout& layout) {
  int sum = 0;
  for (const auto& slice : layout.slices) sum += profile_of(geometry, slice).units;
  return sum;
}

int compute_slices_used(const Geometry& geometry, const Layout& layout) {
  int sum = 0;
  for (const auto& slice : layout.slices) sum += profile_of(geometry, slice).compute_slices;
  return sum;
}

Geometry beside(const Geometry& geometry, const Layout& taken) {
  Geometry left = geometry;
  for (const auto& slice : taken.slices) {
    const MigProfile& profile = profile_of(geometry, slice);
    left.media.decoders -= profile.media.decoders;
    left.media.encoders -= profile.media.encoders;
    left.media.jpeg -= profile.media.jpeg;
    left.media.optical_flow -= profile.media.optical_flow;
    left.profiles[slice.profile].count_max -= 1;
    for (std::size_t p = 0; p < geometry.profiles.size(); ++p) {
      std::erase_if(left.profiles[p].starts, [&](int start) {
        return overlap(geometry, {static_cast<std::uint16_t>(p), static_cast<std::uint16_t>(start)}, slice);
      });
    }
  }
  return left;
}

Multiset multiset_of(const Geometry& geometry, const Layout& layout) {
  Multiset counts(geometry.profiles.size());
  for (const auto& slice : layout.slices) ++counts[slice.profile];
  return counts;
}

// Largest profiles first: Geometry lists them from the smallest.
std::string to_string(const Geometry& geometry, const Multiset& multiset) {
  std::string text;
  for (std::size_t i = multiset.size(); i-- > 0;) {
    if (multiset[i] == 0) continue;
    if (!text.empty()) text += " + ";
    text += fmt::format("{} x {}", multiset[i], geometry.profiles[i].name);
  }
  return text.empty() ? "empty" : text;
}

namespace {

// Walks the units from left to right. At each unit either a slice starts or the unit is left free, so each set of
// placed slices is visited exactly once. `visit` returns false to stop the walk.
class LayoutWalk {
 public:
  explicit LayoutWalk(const Geometry& geometry)
      : geometry_(geometry), starting_at_(static_cast<std::size_t>(geometry.units)) {
    for (std::size_t p = 0; p < geometry.profiles.size(); ++p) {
      for (const int start : geometry.profiles[p].starts) {
        starting_at_[static_cast<std::size_t>(start)].push_back(static_cast<std::uint16_t>(p));
      }
    }
  }

  // Calls `visit` with each layout of the units from `unit` on; false if it was stopped. Slices are pushed in
  // ascending order of starts, so layout_ is always valid.
  template <typename Visit>
  bool walk(Visit&& visit, int unit = 0) {
    if (unit >= geometry_.units) return visit(layout_);
    if (!walk(visit, unit + 1)) return false;
    for (const std::uint16_t p : starting_at_[static_cast<std::size_t>(unit)]) {
      if (!within_limits(geometry_, layout_, p)) continue;
      layout_.slices.push_back({p, static_cast<std::uint16_t>(unit)});
      const bool go_on = walk(visit, unit + geometry_.profiles[p].units);
      layout_.slices.pop_back();
      if (!go_on) return false;
    }
    return true;
  }

 private:
  const Geometry& geometry_;
  std::vector<std::vector<std::uint16_t>> starting_at_;
  Layout layout_;
};

// True if no slice can be added. Equivalent to trying fits() for every profile and start, but marks the taken units
// once.
bool is_maximal(const Geometry& geometry, const Layout& layout) {
  std::vector<bool> taken(static_cast<std::size_t>(geometry.units));
  for (const auto& slice : layout.slices) {
    const auto begin = taken.begin() + slice.start;
    std::fill(begin, begin + profile_of(geometry, slice).units, true);
  }
  for (std::size_t p = 0; p < geometry.profiles.size(); ++p) {
    const int units = geometry.profiles[p].units;
    for (const int start : geometry.profiles[p].starts) {
      const auto begin = taken.begin() + start;
      const bool free = std::find(begin, begin + units, true) == begin + units;
      if (free && within_limits(geometry, layout, p)) return false;
    }
  }
  return true;
}

// True if `inner` has no more of any profile than `outer`.
bool contains(const Multiset& outer, const Multiset& inner) {
  for (std::size_t i = 0; i < outer.size(); ++i) {
    if (inner[i] > outer[i]) return false;
  }
  return true;
}

// Different layouts often have the same multiset, such as the same slices in another order.
std::vector<Multiset> sorted_multisets(const Geometry& geometry, const std::vector<Layout>& layouts) {
  std::vector<Multiset> result;
  result.reserve(layouts.size());
  for (const auto& layout : layouts) result.push_back(multiset_of(geometry, layout));
  std::ranges::sort(result);
  const auto rest = std::ranges::unique(result);
  result.erase(rest.begin(), rest.end());
  return result;
}

// The multisets that no other contains. Only maximal layouts have to be compared: any other layout can gain a slice,
// so its multiset is contained in a larger one.
std::vector<Multiset> pareto_of(const Geometry& geometry, const std::vector<Layout>& maximal) {
  const auto candidates = sorted_multisets(geometry, maximal);
  std::vector<Multiset> result;
  for (const auto& inner : candidates) {
    const bool dominated = std::ranges::any_of(
        candidates, [&](const Multiset& outer) { return outer != inner && contains(outer, inner); });
    if (!dominated) result.push_back(inner);
  }
  return result;
}

}  // namespace

Result<std::vector<Layout>> all_layouts(const Geometry& geometry) {
  std::vector<Layout> result;
  const bool complete = LayoutWalk(geometry).walk([&](const Layout& layout) {
    // The limit is tested before a layout is stored, so memory stays bounded on large hosts too.
    if (result.size() >= kLayoutsMax) return false;
    result.push_back(layout);
    return true;
  });
  if (complete) return result;
  return Error{ErrorCode::exhausted,
               fmt::format("{} has more than {} layouts: too many to list", geometry.title, kLayoutsMax)};
}

Result<std::vector<Layout>> maximal_layouts(const Geometry& geometry) {
  auto layouts = all_layouts(geometry);
  if (layouts) std::erase_if(*layouts, [&](const Layout& layout) { return !is_maximal(geometry, layout); });
  return layouts;
}

Result<std::vector<Multiset>> distinct_multisets(const Geometry& geometry) {
  TANGRAM_TRY(const auto layouts, all_layouts(geometry));
  return sorted_multisets(geometry, layouts);
}

Result<std::vector<Multiset>> pareto_multisets(const Geometry& geometry) {
  TANGRAM_TRY(const auto layouts, maximal_layouts(geometry));
  return pareto_of(geometry, layouts);
}

namespace {

// On the host a slice covers any run of units, so layouts are counted by formula. Valid: each unit is left free or
// begins a slice of any length, which gives every other Fibonacci number. Maximal: no unit is free, so each unit but
// the first either begins a slice or does not: 2^(n-1). Multisets: the partitions of every number up to n. Pareto: the
// partitions of n itself.
constexpr int kHostUnitsCounted = 46;  // Fibonacci number 93 is the last that fits into 64 bits.

LayoutCounts count_host_layouts(int units) {
  const auto n = static_cast<std::size_t>(units);
  std::size_t valid = 1;
  std::size_t between = 1;
  // Two steps of the Fibonacci sequence for each unit; the last step is left out, because its second number may exceed
  // 64 bits.
  for (std::size_t i = 0; i < n; ++i) {
    valid += between;
    if (i + 1 < n) between += valid;
  }
  // The usual dynamic program for partitions: admit parts of one size after the other.
  std::vector<std::size_t> partitions(n + 1, 0);
  partitions[0] = 1;
  for (std::size_t part = 1; part <= n; ++part) {
    for (std::size_t sum = part; sum <= n; ++sum) partitions[sum] += partitions[sum - part];
  }
  const auto multisets = std::accumulate(partitions.begin(), partitions.end(), std::size_t{0});
  return {valid, std::size_t{1} << (n - 1), multisets, partitions[n]};
}

}  // namespace

Result<LayoutCounts> count_layouts(const Geometry& geometry) {
  // The formulas hold only where a slice may start anywhere, which is the case on hosts.
  if (geometry.units_per_core > 0 && geometry.units <= kHostUnitsCounted) return count_host_layouts(geometry.units);
  TANGRAM_TRY(auto layouts, all_layouts(geometry));
  LayoutCounts counts;
  counts.valid = layouts.size();
  counts.multisets = sorted_multisets(geometry, layouts).size();
  std::erase_if(layouts, [&](const Layout& layout) { return !is_maximal(geometry, layout); });
  counts.maximal = layouts.size();
  counts.pareto = pareto_of(geometry, layouts).size();
  return counts;
}

namespace {

// Places the rest of `wanted`, the largest profiles first because they have the fewest starts, and backtracks. Ensures
// `layout` and `wanted` as before if it fails.
bool place_all(const Geometry& geometry, Multiset& wanted, Layout& layout) {
  std::size_t profile = wanted.size();
  for (std::size_t p = 0; p < wanted.size(); ++p) {
    if (wanted[p] == 0) continue;
    if (profile == wanted.size() || geometry.profiles[p].units >= geometry.profiles[profile].units) profile = p;
  }
  if (profile == wanted.size()) return true;
  --wanted[profile];
  for (const int start : geometry.profiles[profile].starts) {
    const Slice slice{static_cast<std::uint16_t>(profile), static_cast<std::uint16_t>(start)};
    if (!fits(geometry, layout, slice)) continue;
    // A copy, because with_slice() consumes its argument.
    const Layout before = layout;
    layout = with_slice(geometry, std::move(layout), slice);
    if (place_all(geometry, wanted, layout)) return true;
    layout = before;
  }
  ++wanted[profile];
  return false;
}

// Which units a layout leaves free. Built once and asked for each profile; prefix sums make a question about one start
// constant time.
class FreeUnits {
 public:
  FreeUnits(const Geometry& geometry, const Layout& layout)
      : free_before_(static_cast<std::size_t>(geometry.units) + 1, 0) {
    std::vector<bool> taken(static_cast<std::size_t>(geometry.units), false);
    for (const auto& slice : layout.slices) {
      const auto begin = taken.begin() + slice.start;
      std::fill(begin, begin + profile_of(geometry, slice).units, true);
    }
    int run = 0;
    for (std::size_t unit = 0; unit < taken.size(); ++unit) {
      free_before_[unit + 1] = free_before_[unit] + (taken[unit] ? 0 : 1);
      run = taken[unit] ? 0 : run + 1;
      const bool ends = run > 0 && (unit + 1 == taken.size() || taken[unit + 1]);
      if (ends) runs_.push_back(run);
    }
  }

  // How many starts `profile` still has. On the host a profile can start anywhere, and is counted by runs of free
  // units instead of starts: a host of 1024 cores has thousands of starts.
  int places(const Geometry& geometry, const MigProfile& profile) const {
    int places = 0;
    if (static_cast<int>(profile.starts.size()) == geometry.units - profile.units + 1) {
      for (const int run : runs_) places += std::max(0, run - profile.units + 1);
      return places;
    }
    for (const int start : profile.starts) {
      const auto begin = static_cast<std::size_t>(start);
      places +=
          free_before_[begin + static_cast<std::size_t>(profile.units)] - free_before_[begin] == profile.units ? 1 : 0;
    }
    return places;
  }

 private:
  std::vector<int> free_before_;  // Free units before each unit.
  std::vector<int> runs_;         // Lengths of the runs of free units.
};

// The profiles from the largest down, by compute slices and then by units.
std::vector<std::size_t> largest_first(const Geometry& geometry) {
  std::vector<std::size_t> order(geometry.profiles.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    const auto& pa = geometry.profiles[a];
    const auto& pb = geometry.profiles[b];
    return std::pair(pa.compute_slices, pa.units) > std::pair(pb.compute_slices, pb.units);
  });
  return order;
}

// How many places each profile still has, in the given order. Vectors compare from the left, so the largest profile
// counts first.
std::vector<int> options_left(const Geometry& geometry, const Layout& layout, const std::vector<std::size_t>& order) {
  const FreeUnits free(geometry, layout);
  std::vector<int> options;
  options.reserve(order.size());
  for (const std::size_t p : order) {
    options.push_back(within_limits(geometry, layout, p) ? free.places(geometry, geometry.profiles[p]) : 0);
  }
  return options;
}

}  // namespace

std::optional<Layout> realise(const Geometry& geometry, const Multiset& multiset) {
  TANGRAM_CHECK(multiset.size() == geometry.profiles.size(), "a multiset has one count for each profile");
  // Rejects by arithmetic what cannot fit: the search is exponential where the answer is no.
  int units = 0;
  for (std::size_t p = 0; p < multiset.size(); ++p) {
    if (multiset[p] > geometry.profiles[p].count_max) return std::nullopt;
    units += multiset[p] * geometry.profiles[p].units;
  }
  if (units > geometry.units) return std::nullopt;
  Multiset wanted = multiset;
  Layout layout;
  if (!place_all(geometry, wanted, layout)) return std::nullopt;
  return layout;
}

std::optional<Slice> advise_placement(const Geometry& geometry, const Layout& layout, std::size_t profile) {
  const auto order = largest_first(geometry);
  std::optional<Slice> best;
  std::vector<int> best_options;
  for (const int start : geometry.profiles[profile].starts) {
    const Slice slice{static_cast<std::uint16_t>(profile), static_cast<std::uint16_t>(start)};
    if (!fits(geometry, layout, slice)) continue;
    auto options = options_left(geometry, with_slice(geometry, layout, slice), order);
    // Only a strictly better start replaces the first, so the lowest wins among equals.
    if (!best || options > best_options) {
      best = slice;
      best_options = std::move(options);
    }
  }
  return best;
}

}  // namespace tangram
