// Enumeration and placement on the boards whose counts are known, beside brute force over all subsets.

#include <benchmark/benchmark.h>

#include "core/layout.h"

namespace tangram {
namespace {

Geometry board(ProfileSet set) { return restrict_to(*find_geometry("a100-40gb"), set); }

void count_with(benchmark::State& state, ProfileSet set, LayoutCounts expected) {
  const Geometry geometry = board(set);
  if (*count_layouts(geometry) != expected) state.SkipWithError("the counts are wrong");
  for (auto _ : state) benchmark::DoNotOptimize(count_layouts(geometry));
}
BENCHMARK_CAPTURE(count_with, base, ProfileSet::base, LayoutCounts{298, 19, 38, 12})->Name("BM_CountLayouts/set:base");
BENCHMARK_CAPTURE(count_with, double, ProfileSet::double_memory, LayoutCounts{723, 78, 78, 28})
    ->Name("BM_CountLayouts/set:double");
BENCHMARK_CAPTURE(count_with, me, ProfileSet::media, LayoutCounts{2319, 239, 128, 44})->Name("BM_CountLayouts/set:me");

// Every subset of the 14 placements of the base set, kept when why_invalid has nothing against it.
std::size_t count_subsets(const Geometry& geometry) {
  std::vector<Slice> placements;
  for (int start = 0; start < geometry.units; ++start) {
    for (std::size_t p = 0; p < geometry.profiles.size(); ++p) {
      for (const int s : geometry.profiles[p].starts) {
        if (s == start) placements.push_back({static_cast<std::uint16_t>(p), static_cast<std::uint16_t>(s)});
      }
    }
  }
  std::size_t valid = 0;
  Layout layout;
  for (std::uint32_t mask = 0; mask < 1U << placements.size(); ++mask) {
    layout.slices.clear();
    for (std::size_t i = 0; i < placements.size(); ++i) {
      if ((mask >> i & 1U) != 0) layout.slices.push_back(placements[i]);
    }
    valid += why_invalid(geometry, layout).empty() ? 1 : 0;
  }
  return valid;
}

void list_tangram(benchmark::State& state) {
  const Geometry geometry = board(ProfileSet::base);
  if (all_layouts(geometry)->size() != 298) state.SkipWithError("the count is wrong");
  for (auto _ : state) benchmark::DoNotOptimize(all_layouts(geometry));
}
void list_subsets(benchmark::State& state) {
  const Geometry geometry = board(ProfileSet::base);
  if (count_subsets(geometry) != 298) state.SkipWithError("the count is wrong");
  for (auto _ : state) benchmark::DoNotOptimize(count_subsets(geometry));
}
BENCHMARK(list_tangram)->Name("BM_ListLayouts/tangram");
BENCHMARK(list_subsets)->Name("BM_ListLayouts/subsets");

void advise(benchmark::State& state) {
  const Geometry geometry = board(ProfileSet::media);
  const Layout corner = parse_layout(geometry, "1g.5gb@6").layout;
  const std::size_t one = *find_profile(geometry, "1g.5gb");
  if (advise_placement(geometry, corner, one)->start != 4) state.SkipWithError("the advice is wrong");
  for (auto _ : state) benchmark::DoNotOptimize(advise_placement(geometry, corner, one));
}
BENCHMARK(advise)->Name("BM_AdvisePlacement");

void realise_each(benchmark::State& state) {
  const Geometry geometry = board(ProfileSet::media);
  const auto multisets = *distinct_multisets(geometry);
  for (const auto& multiset : multisets) {
    if (!realise(geometry, multiset)) state.SkipWithError("a multiset was not realised");
  }
  for (auto _ : state) {
    for (const auto& multiset : multisets) benchmark::DoNotOptimize(realise(geometry, multiset));
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(multisets.size()));
}
BENCHMARK(realise_each)->Name("BM_Realise");

void parse(benchmark::State& state) {
  const Geometry geometry = board(ProfileSet::media);
  const char* const text = "2g.10gb@0 + 1g.5gb@2 + 1g.5gb+me@3 + 3g.20gb@4";
  if (to_string(geometry, parse_layout(geometry, text).layout) != text) state.SkipWithError("it does not read back");
  for (auto _ : state) benchmark::DoNotOptimize(parse_layout(geometry, text));
}
BENCHMARK(parse)->Name("BM_ParseLayout");

}  // namespace
}  // namespace tangram
