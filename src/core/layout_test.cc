#include "core/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace tangram {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Geometry& a100() { return *find_geometry("a100-40gb"); }

Geometry two_cores() { return cpu_geometry({.cores = 2, .memory_gib = 8, .quota = true}); }

Layout layout(const Geometry& geometry, std::string_view text) {
  auto parsed = parse_layout(geometry, text);
  for (const auto& problem : parsed.problems) ADD_FAILURE() << text << ": " << problem.message;
  return parsed.layout;
}

Slice slice(const Geometry& geometry, std::string_view profile, int start) {
  return {static_cast<std::uint16_t>(*find_profile(geometry, profile)), static_cast<std::uint16_t>(start)};
}

std::vector<std::string> messages(const Geometry& geometry, std::string_view text) {
  std::vector<std::string> all;
  for (const auto& problem : parse_layout(geometry, text).problems) {
    all.push_back(std::to_string(problem.offset) + ": " + problem.message);
  }
  return all;
}

LayoutCounts counts(const char* type, ProfileSet set) {
  const auto result = count_layouts(restrict_to(*find_geometry(type), set));
  EXPECT_TRUE(result.ok());
  return result.ok() ? *result : LayoutCounts{};
}

TEST(Layouts, OfEveryTypeAreCountedExactly) {
  using enum ProfileSet;
  for (const char* type : {"a100-40gb", "a100-80gb", "h100-80gb", "h100-94gb", "h100-96gb", "h200-141gb", "gh200-144gb",
                           "b200-180gb", "gb200-186gb", "b300", "gb300"}) {
    EXPECT_EQ(counts(type, base), (LayoutCounts{298, 19, 38, 12})) << type;
    EXPECT_EQ(counts(type, double_memory), (LayoutCounts{723, 78, 78, 28})) << type;
    EXPECT_EQ(counts(type, media), (LayoutCounts{2319, 239, 128, 44})) << type;
  }
  EXPECT_EQ(counts("a30", base), (LayoutCounts{26, 5, 10, 4}));
  EXPECT_EQ(counts("a30", media), (LayoutCounts{76, 17, 20, 8}));
  EXPECT_EQ(counts("rtx-pro-6000", base), (LayoutCounts{26, 5, 10, 4}));
}

// The nineteen: 7g alone, or one of six left halves with one of three right halves.
TEST(Layouts, OfAnA100ThatAreMaximalAreTheNineteenKnownOnes) {
  const Geometry base = restrict_to(a100(), ProfileSet::base);
  std::set<std::string> expected{"7g.40gb@0"};
  for (const char* left :
       {"4g@0", "3g@0", "2g@0 + 2g@2", "2g@0 + 1g@2 + 1g@3", "1g@0 + 1g@1 + 2g@2", "1g@0 + 1g@1 + 1g@2 + 1g@3"}) {
    for (const char* right : {"3g@4", "2g@4 + 1g@6", "1g@4 + 1g@5 + 1g@6"}) {
      expected.insert(to_string(base, layout(base, std::string(left) + " + " + right)));
    }
  }
  std::set<std::string> got;
  for (const auto& maximal : *maximal_layouts(base)) got.insert(to_string(base, maximal));
  EXPECT_EQ(got, expected);
  EXPECT_EQ(got.size(), 19U);
}

// A run of n units is cut into pieces, each a slice or a gap of one unit: with f(0) = 1, f(n) = f(n-1) for a gap plus
// the sum of f(n-k) for a slice of k units. So f = 1, 2, 5, 13, 34, 89, 233, 610, 1597. Slices of one length are never
// more than fit, so no limit bites.
TEST(Layouts, OfTheHostFollowTheirRecurrence) {
  const auto valid = [](int cores, bool quota) {
    return count_layouts(cpu_geometry({.cores = cores, .memory_gib = 1, .quota = quota}))->valid;
  };
  EXPECT_EQ(valid(1, false), 2U);
  EXPECT_EQ(valid(2, false), 5U);
  EXPECT_EQ(valid(3, false), 13U);
  EXPECT_EQ(valid(1, true), 34U);
  EXPECT_EQ(valid(2, true), 1597U);
}

TEST(Layouts, OfALargeHostAreRefusedNotListed) {
  const auto result = all_layouts(cpu_geometry({.cores = 64, .memory_gib = 1, .quota = true}));
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::exhausted);
  EXPECT_THAT(result.error().message, HasSubstr("too many to list"));
  EXPECT_FALSE(count_layouts(cpu_geometry({.cores = 64, .memory_gib = 1, .quota = true})).ok());
}

TEST(LayoutText, ReadsBackForEveryLayoutOfEveryBoard) {
  for (const auto& geometry : known_geometries()) {
    const auto layouts = all_layouts(geometry);
    ASSERT_TRUE(layouts.ok()) << geometry.type;
    for (const auto& one : *layouts) {
      const auto parsed = parse_layout(geometry, to_string(geometry, one));
      ASSERT_TRUE(parsed.problems.empty()) << to_string(geometry, one);
      ASSERT_EQ(parsed.layout, one) << to_string(geometry, one);
      ASSERT_EQ(why_invalid(geometry, one), "");
    }
  }
}

TEST(LayoutText, MayBeWrittenInAnyOrderAndWithAnySpaces) {
  const Layout expected = layout(a100(), "4g.20gb@0 + 3g.20gb@4");
  for (const char* text : {"3g.20gb@4 + 4g.20gb@0", "4g.20gb@0+3g.20gb@4", "  4g.20gb@0  +\t3g.20gb@4  ", "4g@0 + 3g@4",
                           "4g.20gb @ 0 + 3g.20gb @ 4"}) {
    EXPECT_EQ(layout(a100(), text), expected) << text;
  }
  EXPECT_EQ(to_string(a100(), expected), "4g.20gb@0 + 3g.20gb@4");
  EXPECT_EQ(layout(a100(), " empty "), Layout{});
  EXPECT_EQ(to_string(a100(), Layout{}), "empty");
}

TEST(LayoutText, KeepsTheSuffixOfAProfileApartFromTheNextSlice) {
  EXPECT_EQ(to_string(a100(), layout(a100(), "1g.5gb+me@0+1g.5gb@1")), "1g.5gb+me@0 + 1g.5gb@1");
  EXPECT_EQ(to_string(two_cores(), layout(two_cores(), "0.5c@0+1.50c@2")), "0.5c@0 + 1.5c@2");
}

TEST(LayoutText, SaysWhereAndWhyItIsWrong) {
  EXPECT_THAT(messages(a100(), "3g.20gb@2"), ElementsAre("0: 3g.20gb cannot start at 2; allowed: 0, 4"));
  EXPECT_THAT(messages(a100(), "4g@0 + 3g@0"), ElementsAre("7: 3g.20gb@0 overlaps 4g.20gb@0"));
  EXPECT_THAT(messages(a100(), "1g+me@0 + 1g+me@1"),
              ElementsAre("10: 1g.5gb+me may be used once on one a100-40gb; this is one too many"));
  EXPECT_THAT(messages(*find_geometry("rtx-pro-6000"), "1g.24gb+me.all@0 + 1g@3"),
              ElementsAre(HasSubstr("needs media engines that other slices")));
  EXPECT_THAT(messages(a100(), ""), ElementsAre("0: expected a slice such as 1g.5gb@0"));
  EXPECT_THAT(messages(a100(), "3g"), ElementsAre("0: expected PROFILE@START, read \"3g\""));
  EXPECT_THAT(messages(a100(), "3g@x"), ElementsAre("0: expected PROFILE@START, read \"3g@x\""));
  EXPECT_THAT(messages(a100(), "3g@-1"), ElementsAre("0: expected PROFILE@START, read \"3g@-1\""));
  EXPECT_THAT(messages(a100(), "3g@65536"), ElementsAre("0: expected PROFILE@START, read \"3g@65536\""));
  EXPECT_THAT(messages(a100(), "5g@0"), ElementsAre(HasSubstr("a100-40gb has no profile 5g")));
}

TEST(LayoutText, ReportsAllProblemsAndKeepsWhatIsRight) {
  const auto parsed = parse_layout(a100(), "3g@2 + 2g@0 + 9g@1 + 1g@0 + 1g@6 +");
  EXPECT_EQ(to_string(a100(), parsed.layout), "2g.10gb@0 + 1g.5gb@6");
  ASSERT_EQ(parsed.problems.size(), 4U);
  EXPECT_EQ(parsed.problems[0].offset, 0U);
  EXPECT_EQ(parsed.problems[1].offset, 14U);
  EXPECT_EQ(parsed.problems[2].offset, 21U);
}

TEST(Fits, RefusesOverlapsLimitsAndWrongStarts) {
  const Layout half = layout(a100(), "4g@0");
  EXPECT_TRUE(fits(a100(), half, slice(a100(), "3g", 4)));
  EXPECT_FALSE(fits(a100(), half, slice(a100(), "3g", 0)));
  EXPECT_FALSE(fits(a100(), half, slice(a100(), "3g", 2)));
  EXPECT_FALSE(fits(a100(), half, slice(a100(), "1g", 7)));
  EXPECT_FALSE(fits(a100(), half, slice(a100(), "7g", 0)));
  EXPECT_FALSE(fits(a100(), layout(a100(), "1g+me@0"), slice(a100(), "1g+me", 5)));
}

TEST(WhyInvalid, NamesEachKindOfMistake) {
  const auto why = [](std::vector<Slice> slices) { return why_invalid(a100(), Layout{std::move(slices)}); };
  EXPECT_THAT(why({{99, 0}}), HasSubstr("does not exist"));
  EXPECT_EQ(why({slice(a100(), "3g", 2)}), "3g.20gb may not start at 2");
  EXPECT_EQ(why({slice(a100(), "4g", 0), slice(a100(), "3g", 0)}), "unit 0 belongs to two slices");
  EXPECT_EQ(why({slice(a100(), "1g+me", 0), slice(a100(), "1g+me", 1)}), "too many 1g.5gb+me");
  EXPECT_THAT(why({slice(a100(), "3g", 4), slice(a100(), "4g", 0)}), HasSubstr("not in order"));
  EXPECT_EQ(why({slice(a100(), "4g", 0), slice(a100(), "3g", 4)}), "");
  const Geometry& rtx = *find_geometry("rtx-pro-6000");
  EXPECT_THAT(why_invalid(rtx, {{slice(rtx, "1g+me.all", 0), slice(rtx, "1g", 3)}}), HasSubstr("media engines"));
}

TEST(WithSliceDeathTest, AddsOnlyWhatFits) {
  EXPECT_DEATH(with_slice(a100(), layout(a100(), "7g@0"), slice(a100(), "1g", 0)), "only a slice that fits");
}

TEST(LayoutSums, CountUnitsAndComputeSlices) {
  const Layout both = layout(a100(), "3g@0 + 3g@4");
  EXPECT_EQ(units_used(a100(), both), 8);
  EXPECT_EQ(compute_slices_used(a100(), both), 6);
  EXPECT_EQ(units_used(a100(), Layout{}), 0);
  EXPECT_EQ(to_string(a100(), multiset_of(a100(), both)), "2 x 3g.20gb");
  EXPECT_EQ(to_string(a100(), multiset_of(a100(), layout(a100(), "1g@6 + 4g@0"))), "1 x 4g.20gb + 1 x 1g.5gb");
  EXPECT_EQ(to_string(a100(), Multiset(7)), "empty");
}

TEST(Realise, FindsALayoutForEveryMultisetThatHasOne) {
  for (const auto& geometry : known_geometries()) {
    for (const auto& multiset : *distinct_multisets(geometry)) {
      const auto found = realise(geometry, multiset);
      ASSERT_TRUE(found.has_value()) << geometry.type << ": " << to_string(geometry, multiset);
      ASSERT_EQ(multiset_of(geometry, *found), multiset);
      ASSERT_EQ(why_invalid(geometry, *found), "");
    }
  }
}

TEST(Realise, RefusesWhatNoLayoutHolds) {
  Multiset wanted(a100().profiles.size());
  wanted[*find_profile(a100(), "4g")] = 1;
  wanted[*find_profile(a100(), "3g")] = 2;
  EXPECT_EQ(realise(a100(), wanted), std::nullopt);
}

// 256 units, asked for 257 of one unit each: a search without arithmetic would try every order of them.
TEST(Realise, AnswersAtOnceForLargeHosts) {
  const Geometry cpu = cpu_geometry({.cores = 64, .memory_gib = 64, .quota = true});
  Multiset wanted(cpu.profiles.size());
  wanted[0] = 250;
  wanted[6] = 1;
  EXPECT_EQ(realise(cpu, wanted), std::nullopt);
  wanted[0] = 249;
  const auto full = realise(cpu, wanted);
  ASSERT_TRUE(full.has_value());
  EXPECT_EQ(units_used(cpu, *full), 256);
}

// The right half first, its odd unit before the pair, the left half last: 4g and 3g stay placeable as long as they can.
TEST(Advice, FillsAnEmptyA100FromTheRight) {
  const std::size_t one = *find_profile(a100(), "1g");
  Layout filled;
  std::vector<int> order;
  while (const auto next = advise_placement(a100(), filled, one)) {
    order.push_back(next->start);
    filled = with_slice(a100(), filled, *next);
  }
  EXPECT_THAT(order, ElementsAre(6, 4, 5, 0, 1, 2, 3));
}

// A choice that costs the last place of a large profile is made only where every choice does.
TEST(Advice, NeverGivesUpALargeProfileThatCouldBeKept) {
  for (const auto& geometry : known_geometries()) {
    const Geometry board = restrict_to(geometry, ProfileSet::media);
    const auto placeable = [&](const Layout& on, std::size_t p) {
      for (const int start : board.profiles[p].starts) {
        if (fits(board, on, {static_cast<std::uint16_t>(p), static_cast<std::uint16_t>(start)})) return true;
      }
      return false;
    };
    const std::size_t largest = board.profiles.size() - 2;  // 4g on eight units: 7g is gone with the first slice.
    for (const auto& before : *all_layouts(board)) {
      for (std::size_t p = 0; p < board.profiles.size(); ++p) {
        const auto advised = advise_placement(board, before, p);
        ASSERT_EQ(advised.has_value(), placeable(before, p));
        if (!advised || placeable(with_slice(board, before, *advised), largest)) continue;
        for (const int start : board.profiles[p].starts) {
          const Slice other{static_cast<std::uint16_t>(p), static_cast<std::uint16_t>(start)};
          if (!fits(board, before, other)) continue;
          ASSERT_FALSE(placeable(with_slice(board, before, other), largest))
              << board.type << ": " << to_string(board, before) << " takes " << board.profiles[p].name << " at "
              << advised->start << " though " << start << " keeps " << board.profiles[largest].name;
        }
      }
    }
  }
}

TEST(Advice, PacksTheHostAtOneEnd) {
  const Geometry cpu = two_cores();
  Layout filled;
  for (const char* name : {"0.5c", "0.25c", "1c"}) {
    const auto next = advise_placement(cpu, filled, *find_profile(cpu, name));
    ASSERT_TRUE(next.has_value());
    filled = with_slice(cpu, filled, *next);
  }
  // Seven of eight units in one run: nothing larger than the last quarter was lost.
  EXPECT_EQ(to_string(cpu, filled), "0.5c@0 + 0.25c@2 + 1c@3");
  EXPECT_EQ(advise_placement(cpu, filled, *find_profile(cpu, "0.5c")), std::nullopt);
}

// The formulas for the host against listing every layout, as far as that is possible.
TEST(Layouts, OfTheHostAreCountedByFormulaAsTheyAreByListing) {
  for (int units = 1; units <= 10; ++units) {
    const Geometry host = cpu_geometry({.cores = units, .memory_gib = 1, .quota = false});
    const auto counted = count_layouts(host);
    ASSERT_TRUE(counted.ok());
    EXPECT_EQ(counted->valid, all_layouts(host)->size()) << units;
    EXPECT_EQ(counted->maximal, maximal_layouts(host)->size()) << units;
    EXPECT_EQ(counted->multisets, distinct_multisets(host)->size()) << units;
    EXPECT_EQ(counted->pareto, pareto_multisets(host)->size()) << units;
  }
}

TEST(Layouts, OfALargeHostAreAnError) {
  const auto counted = count_layouts(cpu_geometry({.cores = 1024, .memory_gib = 1}));
  ASSERT_FALSE(counted.ok());
  EXPECT_EQ(counted.error().code, ErrorCode::exhausted);
}

// 4,096 units with a slice of one core at 0: the lowest of the equal starts beside it leaves the longest run.
TEST(Advice, IsGivenForALargeHostAtOnce) {
  const Geometry host = cpu_geometry({.cores = 1024, .memory_gib = 1});
  const auto layout = parse_layout(host, "1c@0").layout;
  const auto profile = find_profile(host, "2c");
  ASSERT_TRUE(profile.ok());
  const auto slice = advise_placement(host, layout, *profile);
  ASSERT_TRUE(slice.has_value());
  EXPECT_EQ(slice->start, 4);
}

// All layouts beside a taken one are those that are valid together with it, whatever is taken.
TEST(Layout, BesideWhatIsTakenAreExactlyTheLayoutsThatFitWithIt) {
  const Geometry& geometry = *find_geometry("a100-80gb");
  const auto layouts = all_layouts(geometry);
  ASSERT_TRUE(layouts.ok());
  for (std::size_t t = 0; t < layouts->size(); t += 7) {
    const Layout& taken = (*layouts)[t];
    std::size_t together = 0;
    for (const auto& layout : *layouts) {
      const bool has_all = std::ranges::all_of(taken.slices, [&](const Slice& slice) {
        return std::ranges::find(layout.slices, slice) != layout.slices.end();
      });
      together += has_all ? 1 : 0;
    }
    const auto beside_it = all_layouts(beside(geometry, taken));
    ASSERT_TRUE(beside_it.ok());
    EXPECT_EQ(beside_it->size(), together) << to_string(geometry, taken);
    for (Layout layout : *beside_it) {
      layout.slices.insert(layout.slices.end(), taken.slices.begin(), taken.slices.end());
      std::ranges::sort(layout.slices, {}, &Slice::start);
      EXPECT_EQ(why_invalid(geometry, layout), "") << to_string(geometry, taken);
    }
  }
}

}  // namespace
}  // namespace tangram
